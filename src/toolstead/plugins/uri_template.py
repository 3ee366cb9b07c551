"""Addresses with variables, `notes://{year}/{name}`: the simplest form of RFC 6570, read backwards."""

from __future__ import annotations

import re
from urllib.parse import unquote

_VARIABLE = re.compile(r"\{([^{}]*)\}")
_NAME = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]{0,63}")


class UriTemplate:
    """An address in which `{name}` stands for a part without `/`, however that is written.

    Attributes:
        names: The variables, in order.
    """

    def __init__(self, uri: str) -> None:
        """Read a template.

        Raises:
            ValueError: It has braces that are no variable, or two variables that nothing separates.
        """
        self.names = tuple(_VARIABLE.findall(uri))
        fixed = _VARIABLE.split(uri)[::2]
        if any("{" in part or "}" in part for part in fixed):
            raise ValueError("a brace has no partner; a variable is written {name}")
        for name in self.names:
            if not _NAME.fullmatch(name):
                raise ValueError(f"{{{name[:64]}}} is no variable; letters, digits and `_` are allowed in its name")
        if len(set(self.names)) < len(self.names):
            raise ValueError("a variable is there twice; give one of them another name")
        if "" in fixed[1:-1]:
            raise ValueError("two variables follow each other; put a character such as `/` between them")
        self._fixed = fixed

    def match(self, uri: str) -> dict[str, str] | None:
        """The variables of an address, decoded; None if it does not fit.

        Each variable ends where the text behind it first appears, so nothing is tried twice.
        """
        first, *rest = self._fixed
        if not uri.startswith(first):
            return None
        at, found = len(first), dict[str, str]()
        for number, (name, following) in enumerate(zip(self.names, rest, strict=True)):
            is_last = number == len(self.names) - 1
            end = len(uri) - len(following) if is_last else uri.find(following, at + 1)
            value = uri[at:end]
            if end <= at or "/" in value or not uri.startswith(following, end):
                return None
            if "/" in (decoded := unquote(value)):  # plugins look for files of this name: `%2F` leads elsewhere too
                return None
            found[name], at = decoded, end + len(following)
        return found if at == len(uri) else None
