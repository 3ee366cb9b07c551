"""Words are cut as `/bin/sh` cuts them: what we accept means the same there."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path

import pytest

from toolstead.tools.handlers.shell_syntax import parse
from toolstead.tools.handlers.template import TemplateError

pytestmark = pytest.mark.promise("R2")

PIECES = [*"ab  \t'\"\\{}=-:,.~!%@^+/é\n|;&$`*?[#", "\\\n", "''", '""', "\\\\", '\\"', "'a b'", '"a b"', '"\\n"']
PIECES += ["a=b", "~/x", "{a,b}", "\\$", '"\\`"', '"\\\\"', "'\\'", '"\\\n"', "'$x'", '"a\\b"']


def words(template: str) -> list[str] | None:
    """The words of a template that is one command, or None."""
    try:
        script = parse(template)
    except TemplateError:
        return None
    if len(script) != 1 or len(script[0].pipeline) != 1:
        return None
    literals = [word.literal for word in script[0].pipeline[0]]
    return [literal for literal in literals if literal is not None] if None not in literals else None


@pytest.mark.parametrize("seed", range(3))
def test_accepted_templates_have_the_words_that_sh_sees(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    templates: dict[str, list[str]] = {}
    while len(templates) < 1_000:
        template = "printf '%s\\0' begin " + "".join(chance.choices(PIECES, k=chance.randint(1, 9)))
        if (found := words(template)) is not None:
            templates[template] = found[2:]
    script = "".join(f"{template}\nprintf 'end\\n\\n\\0'\n" for template in templates)
    done = subprocess.run(
        ["/bin/sh"],
        input=script,
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
    )
    theirs = done.stdout.split("end\n\n\0")[:-1]
    assert len(theirs) == len(templates)
    for (template, ours), seen in zip(templates.items(), theirs, strict=True):
        assert ours == seen.split("\0")[:-1], template
    assert list(tmp_path.iterdir()) == []
