"""Whatever the layers say, the effective settings are what a simple merge of them gives."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolstead.app.layers import environment_name, load_settings
from toolstead.app.settings import Settings, known_keys
from toolstead.app.toml_text import toml_key, toml_value

_PATTERNS = st.lists(st.sampled_from(["git-*", "a", "b", "c__d"]), max_size=3)
_SECONDS = st.one_of(st.integers(1, 99), st.sampled_from([0.5, 2.25]))
_KNOWN: dict[tuple[str, ...], st.SearchStrategy[Any]] = {
    ("tools", "timeout"): _SECONDS,
    ("tools", "max_output"): st.integers(1024, 9999),
    ("tools", "allowed"): _PATTERNS,
    ("tools", "blocked"): _PATTERNS,
    ("tools", "include_plan_tool"): st.booleans(),
    ("tools", "proxy"): st.sampled_from(["", "http://p:1", 'odd "\\ text', "true"]),
    ("server", "port"): st.integers(0, 65535),
    ("server", "allowed_hosts"): st.lists(st.sampled_from(["x", "y:1"]), max_size=2),
    ("runtime", "claude", "tools"): st.lists(st.sampled_from(["Read", "Bash"]), max_size=2),
}
_OPEN: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.integers(0, 9),
        st.booleans(),
        st.sampled_from(["t", "a.b", "5", ""]),
        st.lists(st.integers(0, 3), max_size=2),
    ),
    lambda inner: st.dictionaries(st.sampled_from(["x", "y"]), inner, max_size=2),
    max_leaves=4,
)
_PLUGINS = st.dictionaries(
    st.sampled_from(["p", "q"]), st.dictionaries(st.sampled_from(["k", "l"]), _OPEN, max_size=2), max_size=2
)


@st.composite
def layers(draw: st.DrawFn) -> dict[str, Any]:
    """A layer as nested tables."""
    table: dict[str, Any] = {}
    for path in draw(st.sets(st.sampled_from(sorted(_KNOWN)), max_size=4)):
        inner = table
        for part in path[:-1]:
            inner = inner.setdefault(part, {})
        inner[path[-1]] = draw(_KNOWN[path])
    plugins = draw(_PLUGINS)
    return {**table, "plugins": plugins} if plugins else table


def leaves(table: dict[str, Any], path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    found: list[tuple[tuple[str, ...], Any]] = []
    for name, value in table.items():
        if isinstance(value, dict) and value:
            found.extend(leaves(value, (*path, name)))
        else:
            found.append(((*path, name), value))
    return found


def reference(*tables: dict[str, Any]) -> Settings:
    """The rule in five lines: tables merge, lists replace, `tools.blocked` grows."""

    def merged(below: Any, above: Any) -> Any:
        if not isinstance(below, dict) or not isinstance(above, dict):
            return above
        return {**below, **{name: merged(below.get(name), value) for name, value in above.items()}}

    result: dict[str, Any] = {}
    blocked: list[str] = []
    for table in tables:
        blocked += table.get("tools", {}).get("blocked", [])
        result = merged(result, table)
    result.setdefault("tools", {})
    result["tools"] = {**result["tools"], "blocked": list(dict.fromkeys(blocked))}
    return msgspec.convert(result, Settings)


def written(table: dict[str, Any]) -> str:
    return "\n".join(f"{toml_key(path)} = {toml_value(value)}" for path, value in leaves(table))


@settings(deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(layers(), min_size=5, max_size=5))
def test_the_effective_settings_are_those_of_a_simple_merge(drawn: list[dict[str, Any]]) -> None:
    user, project, environment, python, command = drawn
    before = copy.deepcopy(drawn)
    with tempfile.TemporaryDirectory() as folder:
        user_config, project_config = Path(folder, "user.toml"), Path(folder, "project.toml")
        user_config.write_text(written(user), encoding="utf-8")
        project_config.write_text(written(project), encoding="utf-8")
        loaded = load_settings(
            environ={
                environment_name(path).removesuffix("__<KEY>"): toml_value(value) for path, value in leaves(environment)
            },
            user_config=user_config,
            project_config=(project_config, project_config.read_bytes()),
            given=python,
            overrides=[f"{toml_key(path)}={toml_value(value)}" for path, value in leaves(command)],
        )

    assert loaded.settings == reference(user, project, environment, python, command)
    assert drawn == before, "what was handed in is not changed"
    explained = {item.path: item for item in loaded.explain_values()}
    assert len(explained) == len(loaded.explain_values())
    assert set(explained) >= set(known_keys())
    for path, value in leaves(command):
        if path != ("tools", "blocked") and value != {}:
            assert explained[path].value == value
            assert explained[path].origin == "--set"
