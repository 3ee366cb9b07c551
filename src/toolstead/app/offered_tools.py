"""The tools that agents are offered: those of the current generation, as one object for each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolstead.invoker.runtime import SessionSpec
    from toolstead.tools.generation import Generation
    from toolstead.tools.registry import Registry
    from toolstead.types.tool import ToolInfo


class OfferedTools:
    """Asked before every request to a model, so nothing is built as long as nothing changes."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._generation: Generation | None = None
        self._infos: Sequence[ToolInfo] = ()
        self._names: tuple[str, ...] = ()

    def __call__(self, spec: SessionSpec) -> Sequence[ToolInfo]:
        """The tools of this moment."""
        self._look()
        return self._infos

    def names(self) -> tuple[str, ...]:
        """Their names."""
        self._look()
        return self._names

    def _look(self) -> None:
        current = self._registry.current
        if current is not self._generation:
            self._generation = current
            self._infos = tuple(tool.info for tool in current.tools.values())
            self._names = tuple(current.tools)
