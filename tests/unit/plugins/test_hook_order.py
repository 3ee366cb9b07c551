"""The order of hooks: as given, but for `before` and `after`; a circle is reported and changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from toolstead.plugins.contract import Hooks
from toolstead.plugins.health import Health
from toolstead.plugins.hook_runner import Hooked, order_hooks


def ordered(names: str, **wishes: Any) -> tuple[str, list[str]]:
    plugins = [Hooked(plugin=name, hooks=Hooks(**wishes.get(name, {})), health=Health(name)) for name in names]
    order, problems = order_hooks(plugins)
    assert sorted(one.plugin for one in order) == sorted(names)
    return "".join(one.plugin for one in order), problems


def before(*names: str) -> dict[str, Any]:
    return {"before": names}


def after(*names: str) -> dict[str, Any]:
    return {"after": names}


@pytest.mark.parametrize(
    ("names", "wishes", "expected"),
    [
        ("", {}, ""),
        ("cab", {}, "cab"),
        ("abc", {"a": after("c")}, "bca"),
        ("abc", {"c": before("a")}, "bca"),
        ("abc", {"c": before("b")}, "acb"),
        ("abc", {"a": before("c"), "c": after("a")}, "abc"),
        ("abcd", {"a": after("b"), "b": after("c"), "c": after("d")}, "dcba"),
        ("abc", {"b": {"before": ["a"], "after": ["c"]}}, "cba"),
        ("abc", {"a": after("gone"), "b": before("gone")}, "abc"),
    ],
)
def test_wishes_are_met_and_the_rest_keeps_the_given_order(names: str, wishes: dict[str, Any], expected: str) -> None:
    assert ordered(names, **wishes) == (expected, [])


def test_a_circle_is_reported_and_its_members_keep_the_given_order() -> None:
    order, problems = ordered("abc", a=after("c"), c=after("a"))
    assert order == "abc"
    assert problems == ["plugins 'a', 'c': before and after of their hooks form a cycle; the given order stays"]


def test_others_get_their_wish_in_spite_of_a_circle() -> None:
    order, problems = ordered("acxy", a=after("c"), c=after("a"), x=before("a"), y=before("c"))
    assert order.index("a") < order.index("c")
    assert order.index("x") < order.index("a")
    assert order.index("y") < order.index("c")
    assert len(problems) == 1


def test_a_wish_about_one_of_a_circle_does_not_turn_the_circle_round() -> None:
    assert ordered("acx", a=after("c"), c=after("a"), x=before("a"))[0] == "xac"


def test_two_circles_are_two_problems() -> None:
    order, problems = ordered("abcd", a=after("b"), b=after("a"), c=after("d"), d=after("c"))
    assert order == "abcd"
    assert len(problems) == 2


def test_a_plugin_that_names_itself_is_told() -> None:
    assert ordered("ab", a=after("a")) == (
        "ab",
        ["plugin 'a': after of its hooks names the plugin itself, which has no effect"],
    )
