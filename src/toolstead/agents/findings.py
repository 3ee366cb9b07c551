"""What a check finds in one agent's file, each with its line and column."""

from __future__ import annotations

from pathlib import Path

from toolstead.agents.frontmatter import AgentText
from toolstead.schema.explanation import shorten_text
from toolstead.schema.visible import escape_unseen
from toolstead.types.agent import Finding, Severity

MOST_FINDINGS = 50
LONGEST_MESSAGE = 1_000


class FindingReport:
    """Collects the findings of one file.

    Attributes:
        path: The file.
        has_errors: Whether one of them keeps the file out.
    """

    def __init__(self, path: Path, text: AgentText | None = None) -> None:
        self.path = path
        self.has_errors = False
        self._text = text
        self._findings: list[Finding] = []
        self._count = 0

    @property
    def findings(self) -> tuple[Finding, ...]:
        """The findings in the order of the file; when there are very many, the last one says how many more."""
        found = sorted(self._findings, key=lambda finding: (finding.line or 0, finding.column or 0))
        if self._count > len(found):
            more = f"{self._count - len(found):,} more findings; fix these first"
            found.append(Finding(severity="note", source=str(self.path), message=more, line=1, column=1))
        return tuple(found)

    def add_error(self, at: int, message: str) -> None:
        """Report what keeps the file out."""
        if not self.has_errors and len(self._findings) >= MOST_FINDINGS:
            self._findings.pop()  # an error is always among those that are shown
        self.has_errors = True
        self._add("error", at, message)

    def add_warning(self, at: int, message: str) -> None:
        """Report what is probably a mistake."""
        self._add("warning", at, message)

    def add_note(self, at: int, message: str) -> None:
        """Report what is not used here."""
        self._add("note", at, message)

    def _add(self, severity: Severity, at: int, message: str) -> None:
        self._count += 1
        if len(self._findings) >= MOST_FINDINGS:
            return
        line, column = self._text.locate(at) if self._text is not None else (1, 1)
        shown = escape_unseen(shorten_text(message, LONGEST_MESSAGE))
        self._findings.append(
            Finding(severity=severity, source=str(self.path), message=shown, line=line, column=column)
        )
