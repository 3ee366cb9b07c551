"""YAML in, a script out; or every problem with its file, line and field.

```yaml
- when: weather                     # a regular expression, looked for in the last user text
  call:
    - {tool: weather__today, input: {city: Bern}}
- say: "It is {{result}}."          # continues the answer above
- when: lose it
  lose: true                        # or how many times
- say: Hello!                       # everything else, in order; the last one repeats
  usage: {inputTokens: 10, outputTokens: 2, cost: 0.001}
```

Other fields of a turn: `fail` (a text), `hang` and `delay` (seconds), `rotate` (true: the
conversation gets another id), `fault` (such as `{kind: rate_limit, times: 2, retry_after: 1}`, for
scripted model APIs).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import yaml

from toolstead.adapters.scripted.script import FAULT_KINDS, Script, ScriptedCall, ScriptedFault, ScriptedTurn
from toolstead.errors import ScriptError
from toolstead.types.run import NOTHING_USED, Usage

LARGEST = 1_048_576
DEEPEST = 64
MOST_NODES = 100_000
MOST_PROBLEMS = 20
_BOM = 3
_ONLY_OF = {"retry_after": "rate_limit", "tool": "schema", "over": "overflow"}
_YAML: Any = yaml  # it has no useful types
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_ReadField = Callable[[yaml.Node, str], Any]


def load_script(path: str | Path) -> Script:
    """Read a script from a file.

    Raises:
        ScriptError: It cannot be read or played; every problem is named with its line.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(LARGEST + _BOM + 1)
    except OSError as error:
        raise ScriptError((f"{path}: the script cannot be read: {error.strerror or error}",)) from error
    try:
        # What is too large is refused below; here it may be cut in the middle of a character.
        text = data.decode("utf-8-sig", "strict" if len(data) <= LARGEST else "replace")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ScriptError((f"{path}:{line}: this is no UTF-8 text; save the file as UTF-8",)) from error
    return parse_script(text, source=str(path))


def parse_script(text: str, *, source: str = "script") -> Script:
    """Read a script from YAML text.

    Raises:
        ScriptError: It cannot be played; every problem is named with its line.
    """
    return _Reader(source).read_script(text)


class _Reader:
    """Reads one script, and collects what is wrong with it."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._problems: list[str] = []
        self._nodes = 0
        self._scalars: Any = _YAML.constructor.SafeConstructor()
        read_seconds = partial(self._read_number, what="a number of seconds", most=86_400)
        self._turn_fields: Mapping[str, _ReadField] = {
            "when": self._read_pattern,
            "say": self._read_text,
            "call": self._read_calls,
            "fail": self._read_text,
            "hang": read_seconds,
            "delay": read_seconds,
            "lose": self._read_losses,
            "rotate": self._read_flag,
            "usage": self._read_usage,
            "fault": self._read_fault,
        }
        self._fault_fields: Mapping[str, _ReadField] = {
            "kind": self._read_text,
            "times": partial(self._read_number, what="a whole number", most=1_000_000, is_whole=True, least=1),
            "retry_after": read_seconds,
            "tool": self._read_text,
            "over": partial(self._read_number, what="a number of bytes", most=1e12, is_whole=True),
        }

    def read_script(self, text: str) -> Script:
        root = self._compose_nodes(text)
        turns: list[ScriptedTurn] = []
        if isinstance(root, yaml.SequenceNode) and root.value:
            nodes = cast("list[yaml.Node]", root.value)
            turns = [self._read_turn(node, number) for number, node in enumerate(nodes)]
        elif not self._problems:
            self._report_problem(
                root, "", f"a script is a list of turns such as `- say: Hello`, not {_describe_kind(root)}"
            )
        if self._problems:
            raise ScriptError(tuple(self._problems))
        return Script(turns, source=self._source)

    def _compose_nodes(self, text: str) -> yaml.Node | None:
        """The text as nodes. Depth is counted first: composing is recursive in C, and would end the process."""
        if len(text.encode()) > LARGEST:
            self._report_problem(None, "", f"the script is larger than {LARGEST:,} bytes; split it into several")
            return None
        try:
            depth = 0
            for event in _YAML.parse(text, Loader=_LOADER):
                depth += isinstance(event, yaml.CollectionStartEvent)
                depth -= isinstance(event, yaml.CollectionEndEvent)
                if depth > DEEPEST:
                    self._report_problem(event, "", f"nested deeper than {DEEPEST} levels here")
                    return None
            return _YAML.compose(text, Loader=_LOADER)
        except yaml.MarkedYAMLError as error:
            mark = error.problem_mark or error.context_mark
            self._report_problem(mark, "", f"no YAML: {error.problem or error.context}")
        except yaml.YAMLError as error:
            self._report_problem(None, "", f"no YAML: {' '.join(str(error).split())}")
        return None

    def _read_turn(self, node: yaml.Node, number: int) -> ScriptedTurn:
        at = f"turn {number + 1}"
        given = self._read_fields(node, at, "a turn", self._turn_fields, separator=": ")
        if not given.keys() - {"when"} and not self._problems:
            actions = [name for name in self._turn_fields if name != "when"]
            self._report_problem(node, at, f"it does nothing; needed is one of {', '.join(actions)}")
        fault: ScriptedFault | None = given.get("fault")
        if fault is not None and fault.kind == "half_json" and "call" not in given:
            self._report_problem(
                node, f"{at}: fault", "half_json cuts the arguments of a call, so the turn needs `call`"
            )
        return ScriptedTurn(number=number, **given)

    def _read_pattern(self, node: yaml.Node, at: str) -> re.Pattern[str] | None:
        text = self._read_text(node, at)
        try:
            return re.compile(text)
        except (re.error, RecursionError, OverflowError) as error:
            self._report_problem(node, at, f"{_shorten_text(text)} is no regular expression: {error}")
            return None

    def _read_calls(self, node: yaml.Node, at: str) -> tuple[ScriptedCall, ...]:
        if isinstance(node, yaml.SequenceNode) and node.value:
            items = cast("list[yaml.Node]", node.value)
            return tuple(self._read_call(item, f"{at}.{number}") for number, item in enumerate(items))
        needed = "a list of calls such as `[{tool: name, input: {}}]` is needed"
        self._report_problem(node, at, f"{needed}, not {_describe_kind(node)}")
        return ()

    def _read_call(self, node: yaml.Node, at: str) -> ScriptedCall:
        given = self._read_fields(node, at, "a call", {"tool": self._read_text, "input": self._read_input})
        if not given.get("tool") and not self._problems:
            self._report_problem(node, at, "`tool`, the name of the tool, is missing")
        return ScriptedCall(tool=given.get("tool", ""), input=given.get("input", {}))

    def _read_input(self, node: yaml.Node, at: str) -> dict[str, Any]:
        if isinstance(node, yaml.MappingNode):
            return self._read_value(node, at, 1)
        self._report_problem(node, at, f"a mapping such as `{{path: a.txt}}` is needed, not {_describe_kind(node)}")
        return {}

    def _read_usage(self, node: yaml.Node, at: str) -> Usage:
        read_tokens = partial(self._read_number, what="a whole number", most=1e12, is_whole=True)
        read_cost = partial(self._read_number, what="an amount in USD", most=1e12)
        fields = {"inputTokens": read_tokens, "outputTokens": read_tokens, "cost": read_cost}
        given = self._read_fields(node, at, "usage", fields)
        if not given:
            return NOTHING_USED
        return Usage(
            input_tokens=given.get("inputTokens", 0),
            output_tokens=given.get("outputTokens", 0),
            cost=given.get("cost", 0.0),
        )

    def _read_fault(self, node: yaml.Node, at: str) -> ScriptedFault | None:
        given = self._read_fields(node, at, "a fault", self._fault_fields)
        if self._problems:
            return None
        places = {key.value: value for key, value in cast("list[tuple[yaml.Node, yaml.Node]]", node.value)}
        kind = given.get("kind")
        if kind not in FAULT_KINDS:
            reason = f"{_shorten_text(kind)} is no fault" if kind else "`kind`, which fault it is, is missing"
            problem = f"{reason}; there are {', '.join(FAULT_KINDS)}"
            self._report_problem(places.get("kind", node), f"{at}.kind", problem)
            return None
        for key in given.keys() & _ONLY_OF.keys():
            if _ONLY_OF[key] != kind:
                self._report_problem(places[key], f"{at}.{key}", f"only {_ONLY_OF[key]} has it, not {kind}")
        if "times" in given and given.keys() & {"tool", "over"}:
            self._report_problem(
                places["times"], f"{at}.times", "the request decides how often, with `tool` and with `over`"
            )
        return ScriptedFault(**given)

    def _read_fields(
        self, node: yaml.Node, at: str, what: str, fields: Mapping[str, _ReadField], *, separator: str = "."
    ) -> dict[str, Any]:
        """The fields of a mapping that may have these only."""
        given: dict[str, Any] = {}
        if not isinstance(node, yaml.MappingNode):
            self._report_problem(
                node, at, f"{what} is a mapping with some of {', '.join(fields)}, not {_describe_kind(node)}"
            )
            return given
        for key, value in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else ""
            if name not in fields:
                self._report_problem(
                    key, at, f"{_shorten_text(name)} is no field of {what}; there are {', '.join(fields)}"
                )
            elif name in given:
                self._report_problem(
                    key, f"{at}: {name}", "this field stands here a second time; remove one of the two"
                )
            else:
                given[name] = fields[name](value, f"{at}{separator}{name}")
        return given

    def _read_text(self, node: yaml.Node, at: str) -> str:
        value = self._read_scalar(node)
        if isinstance(value, str):
            return value
        self._report_problem(node, at, f"text is needed, not {_describe_kind(node)}" + _suggest_quotes(node))
        return ""

    def _read_flag(self, node: yaml.Node, at: str) -> bool:
        value = self._read_scalar(node)
        if not isinstance(value, bool):
            self._report_problem(node, at, f"true or false is needed, not {_describe_kind(node)}")
        return value is True

    def _read_losses(self, node: yaml.Node, at: str) -> int:
        value = self._read_scalar(node)
        if isinstance(value, bool):
            return int(value)
        return self._read_number(node, at, what="true, or how many times,", most=1_000_000, is_whole=True)

    def _read_number(
        self, node: yaml.Node, at: str, *, what: str, most: float, is_whole: bool = False, least: int = 0
    ) -> Any:
        value = self._read_scalar(node)
        if type(value) in ((int,) if is_whole else (int, float)) and least <= value <= most:
            return value
        self._report_problem(node, at, f"{what} from {least} to {most:,.0f} is needed, not {_describe_kind(node)}")
        return 0

    def _read_value(self, node: yaml.Node, at: str, depth: int) -> Any:
        """A JSON value; whatever JSON has no word for is refused, aliases that unfold without end too."""
        self._nodes += 1
        if self._nodes > MOST_NODES or depth > DEEPEST:
            if not self._problems:
                self._report_problem(node, at, f"aliases unfold to more than {MOST_NODES:,} values or {DEEPEST} levels")
            return None
        match node:
            case yaml.MappingNode():
                members: dict[str, Any] = {}
                for key, value in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
                    if not isinstance(self._read_scalar(key), str):
                        self._report_problem(
                            key, at, f"a name must be text, not {_describe_kind(key)}" + _suggest_quotes(key)
                        )
                    elif key.value in members:
                        self._report_problem(
                            key, at, f"{_shorten_text(str(key.value))} stands here a second time; remove one of the two"
                        )
                    else:
                        members[key.value] = self._read_value(value, f"{at}.{key.value}", depth + 1)
                return members
            case yaml.SequenceNode():
                items = cast("list[yaml.Node]", node.value)
                return [self._read_value(item, f"{at}.{number}", depth + 1) for number, item in enumerate(items)]
            case _:
                value = self._read_scalar(node)
                if isinstance(value, str | int | None) or (isinstance(value, float) and math.isfinite(value)):
                    return value
                self._report_problem(node, at, f"{_describe_kind(node)} is no JSON value" + _suggest_quotes(node))
                return None

    def _read_scalar(self, node: yaml.Node) -> Any:
        """The value of a scalar; an object without meaning for everything else, such as a month of 13."""
        if isinstance(node, yaml.ScalarNode):
            with suppress(ValueError, KeyError, yaml.YAMLError):
                return self._scalars.construct_object(node)
        return object()

    def _report_problem(self, place: Any, at: str, reason: str) -> None:
        """Keep a problem at a node, an event or a mark; None where it has no place."""
        if len(self._problems) >= MOST_PROBLEMS:
            return
        mark = getattr(place, "start_mark", place)
        where = f"{self._source}:{mark.line + 1}:{mark.column + 1}" if mark is not None else self._source
        self._problems.append(f"{where}: {at}: {reason}" if at else f"{where}: {reason}")


def _describe_kind(node: Any) -> str:
    """What a node is, for a message."""
    match node:
        case None:
            return "nothing"
        case yaml.SequenceNode():
            return "a list" if node.value else "an empty list"
        case yaml.MappingNode():
            return "a mapping"
        case _:
            value = str(node.value)
            return _shorten_text(value) if value else "nothing"


def _suggest_quotes(node: Any) -> str:
    """What to do about a word that YAML takes for something else than text."""
    return "; put it in quotes" if isinstance(node, yaml.ScalarNode) and node.value else ""


def _shorten_text(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:60] + "…")
