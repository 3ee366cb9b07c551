"""The quick looks at common templates: whatever they let through passes the whole check, and means the same."""

from __future__ import annotations

import random

import pytest

from toolstead.tools.handlers import shell_argv
from toolstead.tools.handlers.http_url import common_url, load_url
from toolstead.tools.handlers.interpreter_table import FINDERS, INTERPRETERS, WRAPPERS
from toolstead.tools.handlers.shell_argv import Parameters, load_template, surely_good
from toolstead.tools.handlers.template import TemplateError

PARAMETERS = Parameters(names=["x", "y"], required=["x"])
OTHERS = "{{x}} {{y}} -n -- - a log -la x{{x}} -{{x}} --{{x}} -q{{x}} +{{x}} run exec A=1 PATH={{x}} '{{x}}' | ="
ADDRESSES = (
    "https:// http:// ftp:// a.example b.c-d.example.org localhost 127.1 x.0x7f -a.b :80 :0 :99999 / // . .. "
    "? # & = ~ % @ ${X} [::1] a b-1 é {{x}} {{y}} {{z}} {{ }} \\"
)
NAMES = sorted({*INTERPRETERS, *WRAPPERS, *FINDERS})
GOOD = [
    "rg -n --max-count {{x}} -e {{x}} -- {{x}}",
    "git -C services/a log --oneline -n {{x}} --author={{y}} -- {{x}}",
    "docker compose -f a.yml logs --tail {{x}} {{y}}",
    "kubectl get pods -n {{x}}",
    "sort -- {{x}} | uniq -c | head -n {{x}}",
    "deployctl rollout {{x}} --env={{y}} || true",
]
NOT = [
    "git -c {{x}} log",
    "git --exec-path={{x}} log",
    "git log --e={{x}}",
    "git bisect run {{x}}",
    "git run={{x}}",
    "docker run {{x}}",
    "docker compose exec web {{x}}",
    "kubectl exec pod -- {{x}}",
    "rg --pre {{x}} a",
    "tool git -c {{x}}",
    "python {{x}}",
    "env {{x}}",
    "find . -exec {{x}}",
    "ls {{x}} | sh",
    "ls {{x}} | rg --pre cat a",
    "ls -n {{y}}",
    "ls {{z}}",
    "less +{{x}}",
]


def options_of(name: str) -> list[str]:
    found: set[str] = set(FINDERS.get(name, ()))
    if name in INTERPRETERS:
        found |= INTERPRETERS[name].flags | INTERPRETERS[name].values
    if name in WRAPPERS:
        found |= WRAPPERS[name].values | WRAPPERS[name].after | (WRAPPERS[name].plain or frozenset())
    return sorted(found) or ["-n"]


@pytest.mark.parametrize("template", GOOD)
def test_a_common_command_needs_one_look(template: str) -> None:
    assert surely_good(template, PARAMETERS)


@pytest.mark.parametrize("template", NOT)
def test_what_could_run_a_value_or_shift_an_option_needs_the_closer_one(template: str) -> None:
    assert not surely_good(template, PARAMETERS)


def test_whatever_command_needs_one_look_only_passes_the_whole_check(monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(5)
    others = OTHERS.split()

    def word(program: str) -> str:
        option = chance.choice(options_of(program))
        shapes = [option, f"{option}={{{{x}}}}", f"{option}{{{{x}}}}", option[:-1] or "a", f"-l{option[-1]}"]
        return chance.choice(chance.choice([shapes, others, others, NAMES]))

    templates: list[str] = []
    for _ in range(30_000):
        program = chance.choice([*NAMES, "ls", "uniq"])
        shown = chance.choice([program, program, f"/usr/bin/{program}", program.upper(), f"{program}3.1"])
        templates.append(" ".join([shown, *(word(program) for _ in range(chance.randint(1, 5)))]))
    quick = [template for template in templates if surely_good(template, PARAMETERS)]
    assert len(quick) > 2_000
    monkeypatch.setattr(shell_argv, "surely_good", lambda *_: False)
    for template in quick:
        load_template(template, PARAMETERS)


def test_whatever_url_needs_one_look_only_is_filled_as_after_the_whole_check() -> None:
    chance = random.Random(6)
    pieces = ADDRESSES.split()
    values = {"x": "1/2 ?", "y": "ü"}
    quick = 0
    for _ in range(60_000):
        text = "".join([*chance.choices(pieces[:5], k=1), *chance.choices(pieces, k=chance.randint(1, 6))])
        common = common_url(text, values)
        if common is not None:
            quick += 1
            whole = load_url(text, values)
            assert (common.fill(values), common.used) == (whole.fill(values), whole.used)
    assert quick > 300
    assert common_url("https://example.org/{{z}}", values) is None
    with pytest.raises(TemplateError, match="no property"):
        load_url("https://example.org/{{z}}", values)
