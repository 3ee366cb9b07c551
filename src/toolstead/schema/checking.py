"""The program that validates a value in a process of its own: what may take long, and cannot be interrupted.

`tools/validation.py` starts it and talks to it. Each request is a header with two lengths, the schema with the
documents that it names, and the value; the answer is one line, `true` or `false`, and after `false` a line with the
problems. A request that takes too much processor time ends the process: the system's timer needs no help of the
interpreter, which the validator does not let run.
"""

from __future__ import annotations

import functools
import marshal
import struct
import sys
from typing import Any

import msgspec

from toolstead.concurrency.own_limits import limit_time, lower_priority
from toolstead.schema.compiled import CompiledSchema, compile_schema

HEADER = struct.Struct(">QQ")
SECONDS_TO_VALIDATE = 5.0
SECONDS_TO_EXPLAIN = 1.0
_LARGE = 65_536
"""Bytes of a value of which only the first problem is looked for: the validator makes a list of all."""


def pack_request(schema: CompiledSchema, value: bytes) -> bytes:
    """A request for a value that `pack_value` packed."""
    packed = pack_value((schema.source, dict(schema.documents)))
    return HEADER.pack(len(packed), len(value)) + packed + value


def pack_value(value: Any) -> bytes:
    """A value as bytes. Other than JSON, these keep apart what only the validator may tell apart, such as NaN and null.

    Raises:
        ValueError: It has more than dicts, lists, texts, numbers and the like.
    """
    return marshal.dumps(value, 2)


def fits_schema(schema: CompiledSchema, value: Any) -> bool:
    """Whether a value fits; what is no JSON value does not."""
    try:
        return schema.is_valid(value)
    except (ValueError, RecursionError):
        return False


def explain_value(schema: CompiledSchema, value: Any, *, first_only: bool = False) -> list[str]:
    """Why a value does not fit."""
    try:
        return schema.describe_problems(value, first_only=first_only)
    except (ValueError, RecursionError) as error:  # no JSON value, or nested too deeply
        return [f"(arguments): {str(error)[:200]}"]


def main() -> None:
    """Answer requests until the input ends."""
    lower_priority()
    read, write = sys.stdin.buffer.read, sys.stdout.buffer.write
    while header := read(HEADER.size):
        schema_length, value_length = HEADER.unpack(header)
        packed, value = read(schema_length), marshal.loads(read(value_length))  # noqa: S302 - our own parent wrote it
        limit_time(SECONDS_TO_VALIDATE)
        schema = _compile_packed(packed)
        is_valid = fits_schema(schema, value)
        write(b"true\n" if is_valid else b"false\n")
        sys.stdout.flush()
        if not is_valid:
            limit_time(SECONDS_TO_EXPLAIN)
            problems = explain_value(schema, value, first_only=value_length > _LARGE)
            write(msgspec.json.encode(problems) + b"\n")
            sys.stdout.flush()
        limit_time(0)


@functools.lru_cache(maxsize=32)
def _compile_packed(packed: bytes) -> CompiledSchema:
    source, documents = marshal.loads(packed)  # noqa: S302 - our own parent wrote it
    compiled = compile_schema(source, tool="", documents=documents, owned=True)
    compiled.ensure_compiled()
    return compiled
