"""A folder of tool files: read each, parse it, compile the schema of every tool, keep the validators."""

from __future__ import annotations

import os
from typing import Any

import jsonschema_rs
import msgspec

from benchmarks import workload


def load(folder: str) -> list[Any]:
    """Every tool's validator, in the order of the files' names."""
    validators: list[Any] = []
    decode = msgspec.json.decode
    for name in sorted(os.listdir(folder)):  # noqa: PTH208 - pathlib would cost more
        with open(os.path.join(folder, name), "rb") as file:  # noqa: PTH118, PTH123 - as above
            content = decode(file.read())
        for tool in content["tools"]:
            schema = tool["inputSchema"]
            validators.append(jsonschema_rs.validator_for(schema, offline=True, validate_formats=False))
    return validators


def main() -> None:
    _, options = workload.options()
    with workload.Stopwatch() as watch:
        validators = load(options["folder"])
    workload.expect(len(validators) == int(options["tools"]), "every tool has a validator")
    workload.report(load=[watch.cpu, watch.wall])


if __name__ == "__main__":
    main()
