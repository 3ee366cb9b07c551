"""An agent's file cut into its frontmatter, which is YAML between two lines `---`, and its body."""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cached_property

from toolstead.agents.yaml_nodes import LARGEST, FrontmatterError, YamlNode, parse_yaml

FENCE = "---"


class AgentText:
    """The text of an agent's file, and where its parts begin.

    Attributes:
        text: The whole text; every line ends with a line feed.
        start: Where the frontmatter begins, or None when the file has none.
        end: Where it ends.
        body: What follows it.
        body_start: Where the body begins.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.start: int | None = None
        self.end = self.body_start = 0
        first, _, _ = text.partition("\n")
        if first.rstrip(" \t") == FENCE:
            self.start = min(len(first) + 1, len(text))
            self._find_end(self.start)
        self.body = text[self.body_start :]

    def _find_end(self, at: int) -> None:
        self.end = -1
        while at < len(self.text):
            stop = self.text.find("\n", at)
            stop = len(self.text) if stop < 0 else stop
            if self.text[at:stop].rstrip(" \t") == FENCE:
                self.end, self.body_start = at, min(stop + 1, len(self.text))
                return
            at = stop + 1

    @property
    def is_open(self) -> bool:
        """Whether the frontmatter begins and does not end."""
        return self.start is not None and self.end < 0

    @cached_property
    def _lines(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self.text))]

    def locate(self, at: int) -> tuple[int, int]:
        """The line and the column of a place, counted from 1."""
        line = bisect_right(self._lines, at)
        return line, at - self._lines[line - 1] + 1

    def parse_frontmatter(self) -> YamlNode:
        """The frontmatter as a mapping.

        Raises:
            FrontmatterError: It is no mapping in YAML, or too much of one.
        """
        start = self.start or 0
        text = self.text[start : self.end]
        if len(text) > LARGEST:
            raise FrontmatterError(
                f"the frontmatter has {len(text):,} characters, at most {LARGEST:,} are read; move text to the body"
            )
        root = parse_yaml(text, start)
        if root is None:
            return YamlNode(value={}, start=0, end=start)
        if root.members is None:
            raise FrontmatterError("the frontmatter is lines such as `name: reviewer`", root.start)
        return root
