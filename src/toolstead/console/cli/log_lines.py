"""The lines of the log on stderr: terse for one command, with time and level for servers and `-v`, or as JSON."""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from typing import Any, Literal, cast

LogFormat = Literal["text", "json"]
_WITH_TIME = "%(asctime)s.%(msecs)03dZ %(levelname)-7s %(name)s: %(message)s"


class TimedLines(logging.Formatter):
    """Time (UTC), level, where from, and what: `2026-11-19T15:31:07.250Z WARNING toolstead.app.watching: …`."""

    converter = time.gmtime

    def __init__(self) -> None:
        super().__init__(_WITH_TIME, "%Y-%m-%dT%H:%M:%S")

    def format(self, record: logging.LogRecord) -> str:
        """The record, its further lines indented: a line that begins with a time begins a record."""
        return super().format(record).replace("\n", "\n    ")


class JsonLines(logging.Formatter):
    """One object a line: `time`, `level`, `logger`, `message`, what the line is about, and `exception`."""

    converter = time.gmtime

    def format(self, record: logging.LogRecord) -> str:
        """The record as one line of JSON, whatever it holds."""
        line: dict[str, Any] = {
            "time": f"{self.formatTime(record, '%Y-%m-%dT%H:%M:%S')}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "about", {}),
        }
        if record.exc_info:
            line["exception"] = "".join(traceback.format_exception(*record.exc_info)).rstrip()
        if record.stack_info:
            line["stack"] = record.stack_info
        return json.dumps(line, ensure_ascii=True, default=str)


def set_log_lines(log_format: LogFormat) -> None:
    """Write the log of this process with time and level from now on."""
    lines = JsonLines() if log_format == "json" else TimedLines()
    for handler in logging.getLogger().handlers:
        if type(handler) is logging.StreamHandler and cast("Any", handler).stream is sys.stderr:
            handler.setFormatter(lines)
    if log_format == "json":
        logging.captureWarnings(capture=True)
