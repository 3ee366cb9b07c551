"""The order of the plugins' hooks: as given, except where `before` and `after` change it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

from toolstead.plugins.contract import Hooks


def hook_order(plugins: Sequence[tuple[str, Hooks]]) -> tuple[list[int], list[str]]:
    """Where each plugin's hooks come.

    Args:
        plugins: Names and hooks, in the default order.

    Returns:
        The indexes in order, and the problems, as sentences. Unknown names have no effect. Plugins whose
        `before` and `after` form a cycle keep the given order.
    """
    problems: list[str] = []
    later = _later_plugins(plugins, problems)
    if not any(later):
        return list(range(len(plugins))), problems
    reach = [_find_reachable(later, start) for start in range(len(plugins))]
    for circle in _find_circles(reach):
        names = ", ".join(repr(plugins[index][0]) for index in circle)
        problems.append(f"plugins {names}: before and after of their hooks form a cycle; the given order stays")
        for index, following in zip(circle, [*circle[1:], None], strict=True):
            later[index] -= set(circle)
            if following is not None:
                later[index].add(following)
    return _sort_plugins(later), problems


def _later_plugins(plugins: Sequence[tuple[str, Hooks]], problems: list[str]) -> list[set[int]]:
    """For each plugin the ones that come later."""
    where: dict[str, int] = {name: index for index, (name, _) in enumerate(plugins)}
    later: list[set[int]] = [set() for _ in plugins]
    for index, (name, hooks) in enumerate(plugins):
        for word in ("before", "after"):
            for other in _read_names(name, word, getattr(hooks, word), problems):
                if other == name:
                    problems.append(
                        f"plugin {name!r}: {word} of its hooks names the plugin itself, which has no effect"
                    )
                elif other in where:
                    first, second = (index, where[other]) if word == "before" else (where[other], index)
                    later[first].add(second)
    return later


def _read_names(plugin: str, word: str, value: Any, problems: list[str]) -> list[str]:
    if isinstance(value, Iterable) and not isinstance(value, str | bytes):
        given = list(cast("Iterable[Any]", value))
        names = [name for name in given if isinstance(name, str)]
        if len(names) == len(given):
            return names
    else:
        names = [value] if isinstance(value, str) else []  # what is meant is plain
    problems.append(f"plugin {plugin!r}: {word} of its hooks must be a list of plugins' names, not {value!r:.100}")
    return names


def _find_reachable(later: list[set[int]], start: int) -> set[int]:
    found: set[int] = set()
    ahead = list(later[start])
    while ahead:
        index = ahead.pop()
        if index not in found:
            found.add(index)
            ahead += later[index]
    return found


def _find_circles(reach: list[set[int]]) -> list[list[int]]:
    """The cycles, each in the given order."""
    circles: list[list[int]] = []
    for index, found in enumerate(reach):
        if index in found and not any(index in circle for circle in circles):
            circles.append([other for other in range(len(reach)) if other in found and index in reach[other]])
    return circles


def _sort_plugins(later: list[set[int]]) -> list[int]:
    """Sort topologically, taking the first plugin without a remaining predecessor; there are no cycles here."""
    left = list(range(len(later)))
    order: list[int] = []
    while left:
        index = next(one for one in left if not any(one in later[other] for other in left))
        left.remove(index)
        order.append(index)
    return order
