"""A function for isolated calls that does what it is told, good or bad."""

from __future__ import annotations

import os

from toolstead.errors import ToolError
from toolstead.plugins.isolated import answer_calls


def obey(content: bytes) -> bytes:
    match content.split():
        case [b"spin"]:
            while True:
                pass
        case [b"grow"]:
            return bytes(1 << 30)
        case [b"raise"]:
            raise LookupError("there is no such thing")
        case [b"refuse"]:
            raise ToolError("a sentence for the model")
        case [b"exit"]:
            os._exit(3)
        case [b"environ"]:
            return ",".join(sorted(os.environ)).encode()
        case [b"pid"]:
            return str(os.getpid()).encode()
        case _:
            return content * 2


def main() -> None:
    answer_calls(obey)
