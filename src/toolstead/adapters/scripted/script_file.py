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
from collections.abc import Iterator
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
LONGEST = 86_400
_FIELDS = ("when", "say", "call", "fail", "hang", "delay", "lose", "rotate", "usage", "fault")
_USAGE = ("inputTokens", "outputTokens", "cost")
_FAULT = ("kind", "times", "retry_after", "tool", "over")
_ONLY_OF = {"retry_after": "rate_limit", "tool": "schema", "over": "overflow"}
_TAG = "tag:yaml.org,2002:"
_YAML: Any = yaml  # its types say nothing of what it reads
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def load_script(path: str | Path) -> Script:
    """Read a script from a file.

    Raises:
        ScriptError: It cannot be read or played; every problem is named with its line.
    """
    try:
        with Path(path).open("rb") as file:
            data = file.read(LARGEST + 1)
    except OSError as error:
        raise ScriptError((f"{path}: the script cannot be read: {error.strerror or error}",)) from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        if len(data) <= LARGEST:
            line = data.count(b"\n", 0, error.start) + 1
            raise ScriptError((f"{path}:{line}: this is no UTF-8 text; save the file as UTF-8",)) from error
        text = " " * len(data)  # too large anyway, and cut in the middle of a character
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

    def read_script(self, text: str) -> Script:
        root = self._compose_nodes(text)
        turns: list[ScriptedTurn] = []
        if isinstance(root, yaml.SequenceNode) and root.value:
            for number, node in enumerate(cast("list[yaml.Node]", root.value)):
                turns.append(self._read_turn(node, number))
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
            place = _FilePlace(error.problem_mark or error.context_mark)
            self._report_problem(place, "", f"no YAML: {error.problem or error.context}")
        except yaml.YAMLError as error:
            self._report_problem(None, "", f"no YAML: {' '.join(str(error).split())}")
        return None

    def _read_turn(self, node: yaml.Node, number: int) -> ScriptedTurn:
        at = f"turn {number + 1}"
        given: dict[str, Any] = {}
        for key, value in self._read_members(node, at, _FIELDS, "a turn"):
            where = f"{at}: {key}"
            match key:
                case "when":
                    given[key] = self._read_pattern(value, where)
                case "say" | "fail":
                    given[key] = self._read_text(value, where)
                case "call":
                    given[key] = self._read_calls(value, where)
                case "hang" | "delay":
                    given[key] = self._read_number(value, where, most=LONGEST, what="a number of seconds")
                case "lose":
                    given[key] = self._read_times(value, where)
                case "rotate":
                    given[key] = self._read_flag(value, where)
                case "fault":
                    given[key] = self._read_fault(value, where)
                case _:
                    given[key] = self._read_usage(value, where)
        if not given.keys() - {"when"} and not self._problems:
            self._report_problem(node, at, f"it does nothing; needed is one of {', '.join(_FIELDS[1:])}")
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
        if not isinstance(node, yaml.SequenceNode) or not node.value:
            self._report_problem(
                node,
                at,
                f"a list of calls such as `[{{tool: name, input: {{}}}}]` is needed, not {_describe_kind(node)}",
            )
            return ()
        calls: list[ScriptedCall] = []
        for number, item in enumerate(cast("list[yaml.Node]", node.value)):
            where = f"{at}.{number}"
            tool, arguments = "", cast("dict[str, Any]", {})
            for key, value in self._read_members(item, where, ("tool", "input"), "a call"):
                if key == "tool":
                    tool = self._read_text(value, f"{where}.tool")
                elif isinstance(value, yaml.MappingNode):
                    arguments = self._read_value(value, f"{where}.input", 1)
                else:
                    self._report_problem(
                        value,
                        f"{where}.input",
                        f"a mapping such as `{{path: a.txt}}` is needed, not {_describe_kind(value)}",
                    )
            if not tool and not self._problems:
                self._report_problem(item, where, "`tool`, the name of the tool, is missing")
            calls.append(ScriptedCall(tool=tool, input=arguments))
        return tuple(calls)

    def _read_usage(self, node: yaml.Node, at: str) -> Usage:
        numbers: dict[str, float] = {}
        for key, value in self._read_members(node, at, _USAGE, "usage"):
            whole = key != "cost"
            what = "a whole number" if whole else "an amount in USD"
            numbers[key] = self._read_number(value, f"{at}.{key}", most=1e12, what=what, whole=whole)
        if not numbers:
            return NOTHING_USED
        return Usage(
            input_tokens=int(numbers.get("inputTokens", 0)),
            output_tokens=int(numbers.get("outputTokens", 0)),
            cost=numbers.get("cost", 0.0),
        )

    def _read_fault(self, node: yaml.Node, at: str) -> ScriptedFault | None:
        given: dict[str, Any] = {}
        places: dict[str, yaml.Node] = {}
        for key, value in self._read_members(node, at, _FAULT, "a fault"):
            where, places[key] = f"{at}.{key}", value
            match key:
                case "kind" | "tool":
                    given[key] = self._read_text(value, where)
                case "times":
                    given[key] = int(
                        self._read_number(value, where, most=1_000_000, what="a whole number", whole=True, least=1)
                    )
                case "over":
                    given[key] = int(self._read_number(value, where, most=1e12, what="a number of bytes", whole=True))
                case _:
                    given[key] = self._read_number(value, where, most=LONGEST, what="a number of seconds")
        if self._problems:
            return None
        kind = given.get("kind")
        if kind not in FAULT_KINDS:
            said = f"{_shorten_text(kind)} is no fault" if kind else "`kind`, which fault it is, is missing"
            self._report_problem(places.get("kind", node), f"{at}.kind", f"{said}; there are {', '.join(FAULT_KINDS)}")
            return None
        for key in given.keys() & _ONLY_OF.keys():
            if _ONLY_OF[key] != kind:
                self._report_problem(places[key], f"{at}.{key}", f"only {_ONLY_OF[key]} has it, not {kind}")
        if "times" in given and given.keys() & {"tool", "over"}:
            self._report_problem(
                places["times"], f"{at}.times", "the request decides how often, with `tool` and with `over`"
            )
        return ScriptedFault(**given)

    def _read_members(
        self, node: yaml.Node, at: str, known: tuple[str, ...], what: str
    ) -> Iterator[tuple[str, yaml.Node]]:
        """The members of a mapping that may have these keys only."""
        if not isinstance(node, yaml.MappingNode):
            self._report_problem(
                node, at, f"{what} is a mapping with some of {', '.join(known)}, not {_describe_kind(node)}"
            )
            return
        seen: set[str] = set()
        for key, value in cast("list[tuple[yaml.Node, yaml.Node]]", node.value):
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else ""
            if name not in known:
                self._report_problem(
                    key, at, f"{_shorten_text(name)} is no field of {what}; there are {', '.join(known)}"
                )
            elif name in seen:
                self._report_problem(
                    key, f"{at}: {name}", "this field stands here a second time; remove one of the two"
                )
            else:
                seen.add(name)
                yield name, value

    def _read_text(self, node: yaml.Node, at: str) -> str:
        if isinstance(node, yaml.ScalarNode) and node.tag == f"{_TAG}str":
            return str(node.value)
        self._report_problem(node, at, f"text is needed, not {_describe_kind(node)}" + _suggest_quotes(node))
        return ""

    def _read_flag(self, node: yaml.Node, at: str) -> bool:
        if isinstance(node, yaml.ScalarNode) and node.tag == f"{_TAG}bool":
            return bool(self._scalars.construct_object(node))
        self._report_problem(node, at, f"true or false is needed, not {_describe_kind(node)}")
        return False

    def _read_times(self, node: yaml.Node, at: str) -> int:
        if isinstance(node, yaml.ScalarNode) and node.tag == f"{_TAG}bool":
            return int(self._read_flag(node, at))
        return int(self._read_number(node, at, most=1_000_000, what="true, or how many times,", whole=True))

    def _read_number(
        self, node: yaml.Node, at: str, *, most: float, what: str, whole: bool = False, least: int = 0
    ) -> float:
        tags = (f"{_TAG}int",) if whole else (f"{_TAG}int", f"{_TAG}float")
        value: Any = -1
        if isinstance(node, yaml.ScalarNode) and node.tag in tags:
            value = self._read_scalar(node)
        if isinstance(value, int | float) and least <= value <= most:
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
                    if key.tag != f"{_TAG}str":
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
        try:
            return self._scalars.construct_object(node)
        except (ValueError, yaml.YAMLError):  # such as a month of 13, or a tag of somebody's own
            return object()

    def _report_problem(self, place: Any, at: str, reason: str) -> None:
        if len(self._problems) >= MOST_PROBLEMS:
            return
        mark = getattr(place, "start_mark", None)
        where = f"{self._source}:{mark.line + 1}:{mark.column + 1}" if mark is not None else self._source
        self._problems.append(f"{where}: {at}: {reason}" if at else f"{where}: {reason}")


class _FilePlace:
    """A mark where the other places are nodes."""

    def __init__(self, mark: Any) -> None:
        self.start_mark = mark


def _describe_kind(node: Any) -> str:
    """What a node is, in words."""
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
