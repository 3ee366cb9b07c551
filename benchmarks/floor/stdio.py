"""A bare loop on stdin and stdout: read a line, validate, call, write a line."""

from __future__ import annotations

import sys

import msgspec

from benchmarks import workload
from benchmarks.floor.answers import answer, catalogue


def main() -> None:
    _, options = workload.options()
    functions = workload.many(int(options.get("tools", "0")))
    with workload.Stopwatch() as registering:
        handlers, listed = catalogue(functions)
    if functions:
        workload.tell_registration(registering)
    decode, encode = msgspec.json.Decoder().decode, msgspec.json.Encoder().encode
    reader, writer = sys.stdin.buffer, sys.stdout.buffer
    for line in reader:
        coroutine = answer(decode(line), handlers, listed)
        try:
            coroutine.send(None)
        except StopIteration as done:
            if done.value is not None:
                writer.write(encode(done.value) + b"\n")
                writer.flush()


if __name__ == "__main__":
    main()
