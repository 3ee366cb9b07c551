"""What a model, or a program that drives one, was given in a run, and what came back: for whoever asks later why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from toolstead.types.run import NOTHING_USED, RunError, Usage
from toolstead.types.sent import SentStruct

StepKind = Literal["model", "turn"]


class RecordedStep(SentStruct, frozen=True, kw_only=True, omit_defaults=True):
    """A step as it is stored: its request has only what is new since the step before.

    Attributes:
        number: Which step of the run it is, from 1.
        kind: `model` for a request of the kernel, `turn` for what another runtime was given.
        created_at: When it was sent, in seconds since 1970.
        model: The model that was asked; empty for the runtime's own choice.
        request: What was sent. Of a `model`: `instructions`, `messages`, the names of the `tools`, `maxTokens`. Of a
            `turn`: `prompt`, `session`, `instructions`, the names of the `tools`, `cwd`, `permissions`.
        reply: What came back: `text`, and of a `model` the `calls` that it wants and whether it was `cut` by its limit
            of output; null where nothing whole came.
        usage: What it used.
        duration_ms: How long it took, in milliseconds.
        error: Why nothing came back.
    """

    number: int
    kind: StepKind = "model"
    created_at: float
    model: str
    request: Mapping[str, Any]
    reply: Mapping[str, Any] | None = None
    usage: Usage = NOTHING_USED
    duration_ms: float = 0.0
    error: RunError | None = None


class RunStep(RecordedStep, frozen=True, kw_only=True):
    """One request of the kernel to a model, or one turn of a program such as Claude Code.

    Secrets are masked. Texts that were too long to be stored have a note where they were cut.

    Attributes:
        run_id: Its run.
    """

    run_id: str


class StepBatch(msgspec.Struct, frozen=True, kw_only=True):
    """Steps of a run that are stored in one commit, and in one row: a row for each took 6 % of a run of 20 short turns.

    Attributes:
        run_id: The run.
        number: That of the first step in it.
        last: That of the last one.
        steps: A JSON array of `RecordedStep`.
    """

    run_id: str
    number: int
    last: int
    steps: str
