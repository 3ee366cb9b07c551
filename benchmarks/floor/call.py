"""One validated call in process: validate the arguments, await the function."""

from __future__ import annotations

import asyncio

import jsonschema_rs

from benchmarks import workload


async def main() -> None:
    _, options = workload.options()
    is_valid = jsonschema_rs.validator_for(workload.REPEAT_SCHEMA).is_valid
    repeat, arguments = workload.repeat, workload.REPEAT_ARGUMENTS
    workload.expect(is_valid(arguments) and await repeat(**arguments) == workload.REPEAT_ANSWER, "the answer")
    workload.expect(not is_valid({"text": 7}), "a wrong argument must be rejected")

    async def batch(count: int) -> None:
        for _ in range(count):
            if not is_valid(arguments):
                raise ValueError("invalid arguments")
            await repeat(**arguments)

    await workload.time_calls(batch, float(options["seconds"]))


if __name__ == "__main__":
    asyncio.run(main())
