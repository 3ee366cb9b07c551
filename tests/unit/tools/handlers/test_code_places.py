"""Placeholders that would be run as code are found; those that are only arguments are not."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import Any

import pytest

from toolstead.errors import ToolError
from toolstead.tools.handlers.shell_argv import Parameters, build_argv, load_template
from toolstead.tools.handlers.template import TemplateError

pytestmark = pytest.mark.promise("R8")

CODE = """
{{x}}
{{x}} --version
./{{x}}
bin/{{x}}/run
ls | {{x}}
ls && {{x}} a
sh -c {{x}}
sh -c 'echo {{x}}'
bash -lc "echo {{x}}"
/bin/bash -c {{x}}
dash -ec {{x}}
zsh {{x}}
bash -o pipefail -c {{x}}
python -c {{x}}
python3 -c {{x}}
python3.12 -m {{x}}
python {{x}}
python -W ignore {{x}}
perl -e {{x}}
perl -ne {{x}} file
perl -e{{x}}
ruby -e {{x}}
node -e {{x}}
node --eval={{x}}
node {{x}}
php -r {{x}}
awk {{x}} file
gawk -f {{x}} file
awk -v a=1 '{{x}}' file
sed {{x}} file
sed s/a/{{x}}/ file
sed -n -e {{x}} file
xargs {{x}}
xargs -n 1 {{x}}
xargs sh -c {{x}}
xargs -I '{}' bash -c 'echo {{x}} {}'
find . -exec {{x}} '{}' ';'
find . -exec grep {{x}} '{}' +
find . -execdir sh -c {{x}} ';'
ssh host {{x}}
ssh -p 22 host ls {{x}}
ssh -o {{x}} host
env -S {{x}}
env {{x}} ls
env A=1 {{x}}
env A=1 bash -c {{x}}
nice -n 5 {{x}}
timeout 5 {{x}}
timeout -k 1 5 sh -c {{x}}
sudo -u me {{x}}
nohup {{x}}
busybox sh -c {{x}}
flock /tmp/lock {{x}}
docker exec box {{x}}
docker exec -u root box sh -c {{x}}
docker run --rm image {{x}}
kubectl exec pod -- {{x}}
kubectl exec pod -- sh -c {{x}}
psql -c {{x}}
mysql -e {{x}}
sqlite3 db {{x}}
git -c {{x}} log
git -c core.pager={{x}} log
tar --to-command={{x}} -xf a.tar
tar -I {{x}} -xf a.tar
rsync -e {{x}} a b
vim -c {{x}}
gdb -ex {{x}}
eval {{x}}
make --eval={{x}}
""".strip().splitlines()

ARGUMENTS = """
ls {{x}}
grep -rn '{{x}}' src
rg -n -- {{x}}
git log --author={{x}}
git show {{x}}
sh script.sh {{x}}
sh -c 'printf %s "\\$1"' _ {{x}}
python script.py {{x}}
python -m json.tool {{x}}
node app.js {{x}}
awk '{print}' {{x}}
awk -v name={{x}} '{print name}' file
awk -F , '{print}' {{x}}
sed -n 1,5p {{x}}
sed -e s/a/b/ {{x}}
xargs grep {{x}}
xargs -n 1 -P 4 wc {{x}}
find {{x}} -name '*.py'
find . -name {{x}}
find . -name '*.py' -exec wc -l '{}' ';' -name {{x}}
ssh {{x}} uptime
env LANG=C ls {{x}}
env NAME={{x}} prog
timeout 5 grep {{x}} file
sudo -u me ls {{x}}
docker logs {{x}}
docker exec box ls {{x}}
kubectl get pods -n {{x}}
kubectl exec pod -- ls {{x}}
psql -v pattern={{x}} -f query.sql
jq -r .name {{x}}
ffmpeg -i {{x}} out.mp3
""".strip().splitlines()


HERE = Path(__file__).parent


def read_templates(name: str) -> list[str]:
    return [line for line in (HERE / name).read_text("utf-8").splitlines() if not line.startswith("#")]


def load(template: str, **allowed: list[str]) -> None:
    load_template(template, Parameters(names=["x"], required=["x"], **allowed))


def test_a_value_that_would_run_as_code_is_a_load_error() -> None:
    for template in CODE:
        with pytest.raises(TemplateError) as caught:
            load(template)
        assert "{{x}} stands where its value would run as code" in str(caught.value)
        assert '"allowScript": ["x"]' in str(caught.value)


def test_the_author_may_accept_the_risk_by_name() -> None:
    for template in CODE:
        load(template, allow_script=["x"])


@pytest.mark.parametrize("template", ["sh -c {{x}} {{y}}", "echo {{x}} {{y}} | sh", "{{x}} {{y}}"])
def test_a_risk_that_is_accepted_for_one_parameter_is_not_for_another(template: str) -> None:
    with pytest.raises(TemplateError, match=r"{{x}} stands where its value would run as code"):
        load_template(template, Parameters(names=["x", "y"], required=["x", "y"], allow_script=["y"]))
    with pytest.raises(TemplateError, match=r'{{x}} in "stdin" would run as code'):
        load_template("sh", Parameters(names=["x", "y"], allow_script=["y"]), stdin_slots=["y", "x"])


def test_a_value_that_is_only_an_argument_is_fine() -> None:
    for template in ARGUMENTS:
        load(template)


@pytest.mark.parametrize(
    "program", ["sh", "bash -s", "python", "python -", "perl", "node", "nice sh", "psql", "env A=1 bash"]
)
def test_text_for_the_stdin_of_an_interpreter_is_code_too(program: str) -> None:
    with pytest.raises(TemplateError, match="runs what it reads"):
        load_template(program, Parameters(names=["x"], required=["x"]), stdin_slots=["x"])
    load_template(program, Parameters(names=["x"], required=["x"], allow_script=["x"]), stdin_slots=["x"])


@pytest.mark.parametrize("program", ["cat", "sh script.sh", "python -c 'print(1)'", "jq .", "sort", "env A=1 cat"])
def test_text_for_the_stdin_of_other_programs_is_text(program: str) -> None:
    load_template(program, Parameters(names=["x"], required=["x"]), stdin_slots=["x"])


def test_every_one_line_way_to_a_shell_that_gtfobins_knows_is_refused() -> None:
    templates = read_templates("gtfobins.txt")
    assert len(templates) > 450
    for template in templates:
        with pytest.raises(TemplateError, match=r"would run as code"):
            load(template)
        load(template, allow_script=["x"])


def test_what_tools_do_every_day_loads() -> None:
    templates = read_templates("ordinary_templates.txt")
    assert len({template.split()[0] for template in templates}) > 100
    for template in templates:
        load(template)


def fill(template: str, value: Any, **parameters: Any) -> list[str]:
    loaded = load_template(template, Parameters(names=["x"], required=["x"], **parameters))
    return build_argv(loaded.script[0].pipeline[0], {"x": value}, loaded.parameters)


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("less {{x}}", "+!id"),
        ("less {{x}}", ["a", "+!id"]),
        ("curl -d {{x}} url", "@/etc/passwd"),
        ("curl -d{{x}} url", "@/etc/passwd"),
        ("curl -F name={{x}} url", "@/etc/passwd"),
        ("nice curl --data={{x}} url", "@/etc/passwd"),
        ("gcc-12 -c {{x}}", "@options"),
        ("java -jar app.jar {{x}}", "@options"),
        ("perl script.pl {{x}}", "id |"),
        ("perl script.pl a{{x}}", ";id|"),
        ("perl script.pl {{x}}", " | id"),
        ("ruby script.rb {{x}}", "|id"),
        ("psql -o {{x}} -f a.sql", "|id"),
        ("identify {{x}}", "|id"),
        ("convert {{x}} out.png", "msl:script"),
        ("rsync -a {{x}} .", "me@-oProxyCommand=id:a"),
        ("tar -tf {{x}}", "me@-oProxyCommand=id:a"),
        ("pdflatex {{x}}", "\\input{a}"),
        ("mail -s hello {{x}}", "|id"),
    ],
)
def test_a_value_never_begins_with_what_the_program_gives_a_meaning(template: str, value: Any) -> None:
    with pytest.raises(ToolError, match=r"'x' makes an argument with .*would not read as plain text"):
        fill(template, value)
    assert fill(template, value, allow_script=["x"])


@pytest.mark.parametrize(
    ("template", "value"),
    [
        ("less {{x}}", "./+a"),
        ("curl url/{{x}}", "@a"),
        ("grep {{x}} a", "+@!|"),
        ("perl a.pl {{x}}", "a|b"),
        ("ls {{x}}", "@-"),
    ],
)
def test_what_has_no_meaning_there_is_plain_text(template: str, value: str) -> None:
    assert value in fill(template, value)[-1] or value in fill(template, value)


@pytest.mark.parametrize(
    "template",
    [
        "timeout {{x}} ping host",
        "git -C {{x}} status",
        "docker exec {{x}} ls",
        "kubectl -n {{x}} get pods",
        "ssh {{x}} uptime",
        "ssh '{{x}}'",
        "sqlite3 {{x}}",
        "sudo -u {{x}} ls",
        "watch -n {{x}} ls",
        "make -j {{x}} all",
    ],
)
@pytest.mark.parametrize("value", [["a", "b"], []])
def test_a_list_never_moves_the_word_that_decides_what_runs(template: str, value: list[str]) -> None:
    assert fill(template, ["a"]) == fill(template, "a")
    with pytest.raises(ToolError, match=r"'x' must be one value here, not [02]"):
        fill(template, value)


def test_a_list_is_fine_where_no_word_after_it_decides() -> None:
    for template in ("git log -- {{x}}", "ls {{x}}", "python a.py {{x}}", "timeout 5 ls {{x}}", "find {{x}} -name a"):
        assert fill(template, ["a", "b"])
    assert fill("pytest {{x}}", ["a", "b"], allow_script=["x"]) == ["pytest", "a", "b"]


def test_a_separator_that_is_handed_on_ends_no_options() -> None:
    for template in ("npm run test -- {{x}}", "cargo run -- {{x}}"):
        with pytest.raises(ToolError, match="would read as an option"):
            fill(template, "-la")


REPEATED = (
    *(
        "{{",
        "{",
        "{{x",
        "{{x}} ",
        "}}",
        "'{{",
        '"',
        '"a',
        "\\",
        "'",
        "~",
        "a~",
        "(",
        "&",
        " ",
        "\t",
        "1.-",
        "a.",
        "-static",
    ),
    *(
        "a=",
        "python ",
        "env ",
        "env A=1 ",
        "firejail -a ",
        "docker run -a ",
        "xargs ",
        "timeout 5 ",
        "setarch ",
        "sudo -u ",
    ),
    *("env -a make ", "env -a ssh ", "kubectl exec ", "kubectl exec -- ", "mise exec -- ", "python -m ", "npm run "),
    *("ls;", "ls|", "ls &&", "a -- "),
)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("around", ["a {}", "a '{}'", 'a "{}"', "{}", "env {} {{{{x}}}}", "kubectl {} x"])
def test_the_time_that_a_text_takes_grows_as_its_length_does(around: str) -> None:
    """Four times the length may take ten times as long, on a busy machine; the square of it would be sixteen times."""
    parameters = Parameters(names=["x"], required=["x"], allow_script=["x"])

    def measure(repeated: str, length: int) -> float:
        text = around.format(repeated * (length // len(repeated)))
        begun = time.process_time()
        with contextlib.suppress(TemplateError):
            load_template(text, parameters)
        return time.process_time() - begun

    for repeated in REPEATED:
        short = min(measure(repeated, 16_000) for _ in range(3))
        assert min(measure(repeated, 64_000) for _ in range(3)) < 10 * max(short, 0.005), repeated
