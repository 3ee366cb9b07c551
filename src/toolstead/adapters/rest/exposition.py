"""The text format in which Prometheus reads numbers (version 0.0.4)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

TEXT_TYPE: Final = (b"content-type", b"text/plain; version=0.0.4; charset=utf-8")
Labels = Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """What a histogram has for one set of labels.

    Attributes:
        counts: How many values lie in each bucket; one more than there are bounds, for the values above the last.
        total: The sum of all values.
    """

    bounds: Sequence[float]
    counts: Sequence[int]
    total: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """One name with its values by labels; those of a histogram are distributions.

    Attributes:
        help: What it says, in one line.
    """

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    values: Sequence[tuple[Labels, float | Distribution]]


def render_metrics(metrics: Sequence[Metric]) -> bytes:
    """The metrics as one document."""
    return "".join(f"{line}\n" for metric in metrics for line in _render_metric(metric)).encode()


def _render_metric(metric: Metric) -> Iterator[str]:
    yield f"# HELP {metric.name} {_escape(metric.help)}"
    yield f"# TYPE {metric.name} {metric.kind}"
    for labels, value in metric.values:
        if not isinstance(value, Distribution):
            yield _render_sample(metric.name, labels, value)
            continue
        passed = 0
        for bound, count in zip((*map(_render_number, value.bounds), "+Inf"), value.counts, strict=True):
            passed += count
            yield _render_sample(f"{metric.name}_bucket", {**labels, "le": bound}, passed)
        yield _render_sample(f"{metric.name}_sum", labels, value.total)
        yield _render_sample(f"{metric.name}_count", labels, passed)


def _render_sample(name: str, labels: Labels, value: float) -> str:
    shown = ",".join(f'{label}="{_escape(text, quotes=True)}"' for label, text in labels.items())
    return f"{name}{{{shown}}} {_render_number(value)}" if shown else f"{name} {_render_number(value)}"


def _render_number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _escape(text: str, *, quotes: bool = False) -> str:
    text = text.replace("\\", "\\\\").replace("\n", "\\n")
    return text.replace('"', '\\"') if quotes else text
