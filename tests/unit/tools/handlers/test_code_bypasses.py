"""Ways around the table of rules that were found by looking for them; each one is refused.

What is here was let through once, or would be by a list that knows only names and one option each:
paths, versions, wrappers in wrappers, clusters and shortened options, options in between,
sub-commands, variables, and code that comes in through a pipe.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from toolstead.app.stead import Toolstead
from toolstead.errors import ToolError
from toolstead.tools.handlers import shell_argv
from toolstead.tools.handlers.shell_argv import Parameters, build_argv, load_template
from toolstead.tools.handlers.template import TemplateError

pytestmark = pytest.mark.promise("R8")

# One template a line.
BYPASSES = r"""
/usr/bin/env -i nice sh -c {{x}}
/usr/local/bin/python3.12 -c {{x}}
bash -c -- {{x}}
bash -c -x {{x}}
bash -cx {{x}}
bash -cl {{x}}
bash --norc -c {{x}}
bash --norc --noprofile -euo pipefail -c {{x}}
bash -euo pipefail -c {{x}}
bash -oc pipefail {{x}}
sh - {{x}}
bash -x - {{x}} a
some-wrapper bash -cl {{x}}
some-wrapper --opt python3 -c {{x}}
bash --rcfile {{x}} -i
bash --init-file={{x}} -i
BASH -c {{x}}
bash-static -c {{x}}
bash.exe -c {{x}}
sh -{{x}} 'echo hi'
sh -c 'echo hi; {{x}}' _
dash -{{x}}
python -Ic {{x}}
perl -I lib {{x}}
perl -Ilib {{x}}
perl -Mstrict {{x}}
ruby -rjson {{x}}
node -r ./a.js {{x}}
node --require ./a.js {{x}}
php -d a=b {{x}}
awk -i inc {{x}} file
lua -e 'x=1' {{x}}
expect -c 'a' {{x}}
bash --rcfile f {{x}}
python -W ignore -X dev {{x}}
deno run --config c.json {{x}}
go run -tags x {{x}}
python -Ic{{x}}
python -IBc {{x}}
python3 -X dev -c {{x}}
python3 -Xdev -c {{x}}
python -m timeit {{x}}
python -m timeit -n 10 {{x}}
python -m pdb -c {{x}} script.py
python -m cProfile {{x}}
python /dev/fd/{{x}}
sed -ne {{x}} file
sed -ne{{x}} file
sed --expression={{x}} file
sed --expr={{x}} file
sed --exp {{x}} file
sed -l 5 {{x}} file
sed -f{{x}} file
sed -n -- {{x}} file
sed -i.bak {{x}} file
awk -- {{x}}
awk -F: -- {{x}} file
awk --assign a=1 {{x}} file
mawk -W exec {{x}}
mawk {{x}} -f
perl {{x}} -e 1
perl -a p.pl {{x}}
sed {{x}} -- -e p
gawk --source={{x}} file
gawk -i {{x}} '{print}'
perl -le {{x}}
perl -le{{x}}
perl -fast path {{x}} file
perl -0777 -pe {{x}} file
perl -ne 'print' {{x}}
perl -pe s/a/b/ {{x}}
perl -e 'print' -n {{x}}
perl -d:{{x}} script.pl
perl -M{{x}} -e 1
ruby -rjson -e {{x}}
ruby -ne{{x}}
node -pe {{x}}
node -p{{x}}
deno run --allow-all {{x}}
deno eval {{x}}
bun run {{x}}
find . -exec sh -c "echo {{x}}" ';'
find . -name a -execdir {{x}} ';'
fd -x {{x}}
fd a --exec={{x}}
xargs -I{} sh -c {{x}}
xargs -0I {} {{x}}
xargs -0 -r -n1 {{x}}
xargs --replace {{x}}
xargs --max-args 1 {{x}}
xargs -a list sh -c {{x}}
ssh -t host {{x}}
ssh -tt -p22 host {{x}}
ssh -oProxyCommand={{x}} host
ssh -o ProxyCommand={{x}} host
ssh -J {{x}} host
scp -S {{x}} a b:
rsync --rsh={{x}} a b
git --exec-path={{x}} status
git -c alias.x={{x}} x
git rebase --exec {{x}} main
git rebase -x {{x}} main
git bisect run {{x}}
git submodule foreach {{x}}
git submodule foreach --recursive {{x}}
git grep -O{{x}} a
git grep --open-files-in-pager={{x}} a
git clone --upload-pack={{x}} a b
git clone --upload-pack {{x}} a b
git clone --config {{x}} a b
git difftool --extcmd={{x}}
git filter-branch --tree-filter {{x}}
tar --checkpoint=1 --checkpoint-action=exec={{x}} -cf a b
tar --checkpoint-act=exec={{x}} -cf a b
tar cIf {{x}} a.tar b
tar -cI {{x}} -f a.tar b
tar --use-compress={{x}} -xf a
tar -xf a --to-command {{x}}
busybox ash -c {{x}}
busybox {{x}}
nohup setsid bash -c {{x}}
nohup nice -n 5 ionice -c 3 timeout 5 {{x}}
docker run img bash -c {{x}}
docker run --memory 5g img {{x}}
docker run --entrypoint {{x}} img
docker run --entrypoint={{x}} img
docker compose exec -T web {{x}}
docker exec -e A=1 -w /x box {{x}}
podman run --rm -it img {{x}}
kubectl exec -it pod -c box -- {{x}}
kubectl -n ns exec pod -- sh -c {{x}}
kubectl run x --image=i --command -- {{x}}
su me -c {{x}}
su -c{{x}} me
su - me {{x}}
su --session-command={{x}} me
runuser -u me -- {{x}}
script -qc {{x}} /dev/null
script --command={{x}} /dev/null
watch {{x}}
watch -n 1 ls {{x}}
timeout --signal=KILL 5 {{x}}
timeout --signal KILL 5 {{x}}
timeout -s KILL -k 1 5 {{x}}
timeout -vk1 5 {{x}}
stdbuf -oL {{x}}
stdbuf --output L {{x}}
time -p {{x}}
time -f %e -o out {{x}}
parallel {{x}}
parallel echo {{x}}
parallel -j 4 echo {{x}} ':::' a
env -S {{x}}
env -S 'bash -c' {{x}}
env '-Sbash -c' {{x}}
env -iS 'sh -c' {{x}}
env --split-string=sh {{x}}
env -u A -C /tmp {{x}}
env LD_PRELOAD={{x}} ls
env PATH={{x}} ls
env GIT_SSH_COMMAND={{x}} git fetch
env BASH_ENV={{x}} bash script.sh
env PAGER={{x}} git log
sudo -E LD_PRELOAD={{x}} ls
sudo -n -u me {{x}}
sudo --user me {{x}}
sudo -s {{x}}
flock -c {{x}} /tmp/l
flock /tmp/l -c {{x}}
flock -w 5 /tmp/l {{x}}
flock -- -x {{x}} git
setsid X={{x}}
strace -o {{x}} ls
chroot --userspec=a:b /root {{x}}
nice -5 {{x}}
nice --adjustment 5 {{x}}
nsenter -t 1 -m {{x}}
unshare --map-user 0 {{x}}
strace -f -e trace=all {{x}}
systemd-run --user -p A=1 {{x}}
gosu me {{x}}
sshpass -e ssh host {{x}}
sshpass -p pw ssh host {{x}}
make {{x}}
make -C {{x}}
make NAME={{x}} all
make all NAME={{x}}
vim +{{x}} file
vim '+call {{x}}' file
vim --cmd {{x}} file
less +{{x}} file
man -P {{x}} ls
sort --compress-program={{x}} file
sort --compress-prog {{x}} file
split --filter={{x}} file
rg --pre={{x}} a
rg --pre {{x}} a
fzf --preview={{x}}
nc -e {{x}} host 1
ncat --sh-exec {{x}} host 1
socat {{x}} -
wget --use-askpass={{x}} u
wget -e {{x}} u
curl -K {{x}}
tmux new-session {{x}}
at -f {{x}} now
crontab {{x}}
npx {{x}}
npx -p pkg {{x}}
npx -c {{x}}
npm exec -- {{x}}
npm exec --call {{x}}
npm run {{x}}
uv run {{x}}
uv run --with rich {{x}}
uvx --from a {{x}}
poetry run {{x}}
bundle exec {{x}}
conda run -n env {{x}}
nix develop -c {{x}}
nix run {{x}}
direnv exec . {{x}}
mise exec node@20 -- {{x}}
go run {{x}}
java -jar {{x}}
java -cp {{x}} Main
pwsh -Command {{x}}
powershell -EncodedCommand {{x}}
psql -d db -c {{x}}
psql --command={{x}}
mysql -uroot -e {{x}}
mysql --pager={{x}}
sqlite3 -readonly db {{x}}
duckdb -c {{x}}
clickhouse client --query {{x}}
mongosh --eval {{x}}
gdb -batch -ex {{x}}
lldb -o {{x}}
emacs --batch --eval {{x}}
php -r{{x}}
php -d auto_prepend_file={{x}} a.php
lua -e {{x}}
Rscript -e {{x}}
R -e {{x}}
elixir -e {{x}}
erl -eval {{x}}
osascript -e {{x}}
hyperfine {{x}}
start-stop-daemon --start --exec {{x}}
ansible all -m shell -a {{x}}
zip -TT {{x}} a.zip b
tcpdump -z {{x}}
entr -s {{x}}
perf stat {{x}}
cmake -P {{x}}
bash +x {{x}}
sh +e {{x}} a
env '-Sssh host' ls {{x}}
env A=1 '-Sssh host' ls {{x}}
env --split-string 'ssh host' ls {{x}}
perl --{{x}}
erl -eval={{x}}
sudo A=1 {{x}}
doas A=1 B=2 {{x}}
poetry run pytest {{x}}
pytest -p {{x}}
python3 -m pytest {{x}}
python3 -mpytest {{x}}
python3 -Im pytest {{x}}
vim {{x}}
vim.tiny -n {{x}}
ed -s {{x}}
git {{x}}
git {{x}} {{x}}
git config {{x}} v
git -C repo config alias.x {{x}}
git bisect {{x}}
git submodule {{x}}
git --no-pager -C a {{x}}
git --work-tree a {{x}} b
setarch -3 {{x}}
setarch -R {{x}}
npm {{x}}
npm --silent {{x}}
npm install {{x}}
pip install {{x}}
pip3.11 install -r {{x}}
python3 -m pip install {{x}}
ssh-agent {{x}}
choom -n 0 {{x}}
run-parts {{x}}
/lib64/ld-linux-x86-64.so.2 {{x}}
ip netns exec n {{x}}
ip -n a netns exec n {{x}}
ip vrf exec n {{x}}
gcc -wrapper {{x}} a.c
gcc -wrap{{x}} a.c
x86_64-linux-gnu-gcc a.c -o b && gcc-12 -wrapper {{x}} a.c
apt-get -o {{x}} update
cmake {{x}}
tar -x{{x}} a
tar x{{x}} a
tar {{x}} a
tar --check{{x}} -cf a b
tar -{{x}} a
tar --{{x}} a
sort --co{{x}} a
curl -s{{x}} url
wget -q{{x}} url
env -S{{x}}
env --split={{x}}
env -iS 'sh -c' {{x}}
perl -e 'print' -n a {{x}}
perl -lne print {{x}}
perl5.36-static -e {{x}}
python3.12-dbg -c {{x}}
PYTHON3 -c {{x}}
nvim -c {{x}}
nohup nice -n 5 env A=1 sudo -u me timeout 5 vim {{x}}
sudo -u git {{x}}
sudo -u ls {{x}}
docker run --network host image {{x}}
docker run {{x}} ls
docker --host a exec box {{x}}
docker compose -f {{x}} up
docker exec cat {{x}}
chroot {{x}} ls
kubectl --kubeconfig={{x}} get pods
kubectl --kubeconfig {{x}} get pods
mise exec node@20 -- sh -c {{x}}
busybox ash {{x}}
toybox sh -c {{x}}
uvx --from {{x}} a
go run -exec {{x}} main.go
java -cp {{x}} Main
lualatex --shell-escape {{x}}
pandoc -t {{x}} a.md
xargs -a {{x}} rm
""".strip().splitlines()

THROUGH_A_PIPE = """
echo {{x}} | sh
echo {{x}} | sudo -u me bash
echo {{x}} | timeout -k 1 5 sh
echo {{x}} | flock /tmp/l sh
echo {{x}} | bash -s arg
echo {{x}} | bash -o pipefail
echo {{x}} | python3 - arg
echo {{x}} | cat | perl
cat {{x}} | node
grep {{x}} f | psql -h host db
echo {{x}} | mysql -uroot db
echo {{x}} | sqlite3 db
echo {{x}} | ssh host
echo {{x}} | ssh -t -p 22 me@host
echo {{x}} | docker exec -i box sh
echo {{x}} | kubectl exec -i pod -- bash
echo {{x}} | awk -f - file
echo {{x}} | sed -f /dev/stdin file
echo {{x}} | make -f - all
echo {{x}} | at now
echo {{x}} | ed file
echo {{x}} | gdb -batch
echo {{x}} | xargs sh -c
echo {{x}} | xargs -n1 bash -c
echo {{x}} | xargs python3
echo {{x}} | xargs -I{} sh -c 'echo {}'
echo {{x}} | xargs -i sh -c 'echo {}'
echo {{x}} | xargs -0I % nice sh -c 'echo %'
echo {{x}} | xargs --replace=R sh -c 'echo R'
echo {{x}} | xargs env
echo {{x}} | xargs perl -ne print
echo {{x}} | parallel
echo {{x}} | awk --file=/dev/stdin file
echo {{x}} | python3 /dev/fd/0
echo {{x}} | sh /proc/self/fd/0 a
echo {{x}} | xargs
echo {{x}} | xargs find
echo {{x}} | xargs grep foo
echo {{x}} | xargs -I{} cp {} out
echo {{x}} | xargs sed -n 1p
echo {{x}} | xargs tar -cf /dev/null
cat {{x}} | xargs sort
echo {{x}} | nice -n 5 xargs -0 wc -l
echo {{x}} | parallel grep foo
echo {{x}} | sftp host
echo {{x}} | tar -T - -cf a
echo {{x}} | curl -K -
""".strip().splitlines()

ARGUMENTS = r"""
sudo -u me grep -e {{x}} file
timeout {{x}} ping host
timeout -s KILL 5 ping {{x}}
env -i A=1 LANG={{x}} ls
nice -n 5 tar -xf {{x}}
tar -czf out.tgz -C {{x}} .
tar xzf {{x}}
bash -euo pipefail script.sh {{x}}
bash -c 'printf %s "\$1"' _ {{x}}
perl -ne 'print if /a/' file.txt | grep {{x}}
perl script.pl {{x}}
sed -i.bak -e s/a/b/ {{x}}
sed -es/a/b/ {{x}}
sed --expression=s/a/b/ {{x}}
sed --expr=s/a/b/ {{x}}
perl -Ilib -e 'print' {{x}}
ruby -rjson -e 'puts 1' {{x}}
node -r ./a.js app.js {{x}}
deno run --allow-net a.ts {{x}}
go run main.go {{x}}
awk -vname={{x}} '{print name}' file
awk -F, -v n={{x}} -f prog.awk file
python -m json.tool {{x}}
python3 -X dev script.py {{x}}
git -C {{x}} status
git log --grep={{x}} -n 5
git push -u origin {{x}}
docker run --rm -it img ls {{x}}
docker exec {{x}} ls
docker inspect {{x}}
kubectl exec {{x}} -- ls
kubectl get pods -l app={{x}}
npm run build {{x}}
npm run test -- {{x}}
uv run script.py {{x}}
find {{x}} -type f -exec wc -l '{}' ';'
fd {{x}} src
xargs -I{} cp {} {{x}}
psql -h {{x}} -f query.sql
mysql -h {{x}} db
sqlite3 {{x}}
ssh -p {{x}} host uptime
ssh {{x}} uptime
watch -n {{x}} ls
less {{x}}
sort -k {{x}} file
rg {{x}} src
curl -s {{x}}
wget -q {{x}}
echo {{x}} | python3 -c 'print(1)'
echo {{x}} | python3 script.py
echo {{x}} | ssh host cat
echo {{x}} | awk '{print}'
echo {{x}} | sh script.sh
cmd PATH={{x}} run
grep -r python {{x}}
which bash {{x}}
docker run img ls exec a {{x}}
docker run --memory=5g img ls {{x}}
perl -eprint {{x}}
perl -- -n {{x}}
ssh -o BatchMode=yes {{x}} uptime
bash -c ls {{x}}
sed -- -s {{x}}
tar -T list -cf {{x}} a
env --unset=S ls {{x}}
""".strip().splitlines()


def load(template: str, **allowed: list[str]) -> shell_argv.Template:
    return load_template(template, Parameters(names=["x"], required=["x"], **allowed))


def test_a_way_around_the_list_is_refused_unless_the_author_accepts_it() -> None:
    for template in [*BYPASSES, *THROUGH_A_PIPE]:
        with pytest.raises(TemplateError) as caught:
            load(template)
        assert "{{x}} stands where its value would run as code" in str(caught.value)
        load(template, allow_script=["x"])


def test_a_value_that_is_only_an_argument_is_still_fine() -> None:
    for template in ARGUMENTS:
        load(template)


def test_what_runs_a_pipe_runs_the_stdin_of_a_call_too() -> None:
    for template in [line.partition("|")[2].strip() for line in THROUGH_A_PIPE]:
        if "|" not in template:
            with pytest.raises(TemplateError, match=r"would run as code|makes arguments of"):
                load_template(template, Parameters(names=["x"], required=["x"]), stdin_slots=["x"])


@pytest.mark.parametrize(
    "template",
    [
        "kubectl exec pod -- grep {{x}}",
        "sudo -- ls {{x}}",
        "env -- ls {{x}}",
        "xargs -- grep {{x}}",
        "timeout 5 -- ls {{x}}",
        "find -- {{x}}",
        "ls {{x}} --",
        "ls {{x}}-la",
        "ls '{{x}}'-la",
    ],
)
@pytest.mark.parametrize("value", ["-la", ""])
def test_a_separator_that_is_another_programs_lets_no_option_through(template: str, value: str) -> None:
    loaded = load(template)
    command = loaded.script[0].pipeline[0]
    if not value and "-la" not in template:
        build_argv(command, {"x": value}, loaded.parameters)
        return
    with pytest.raises(ToolError, match="would read as an option"):
        build_argv(command, {"x": value}, loaded.parameters)


@pytest.mark.parametrize(
    "template", ["sudo -- ls -- {{x}}", "xargs grep -- {{x}}", "git log -- {{x}}", "ls a -- b {{x}}"]
)
def test_a_separator_of_the_program_itself_does(template: str) -> None:
    loaded = load(template)
    assert build_argv(loaded.script[0].pipeline[0], {"x": "-la"}, loaded.parameters)[-1] == "-la"


@pytest.mark.timeout(30)
@pytest.mark.parametrize("wrapper", ["firejail -a", "docker run -a", "env A=1", "xargs"])
def test_wrappers_in_wrappers_to_any_depth_are_looked_through_in_no_time(wrapper: str) -> None:
    """Each of them can be read in two ways, and so can what it wraps."""
    many = f"{wrapper} " * 80
    load(f"{many} ls a {{{{x}}}}" if "docker" not in wrapper else f"{many} img ls a b {{{{x}}}}", allow_script=["x"])
    with pytest.raises(TemplateError, match="would run as code"):
        load(f"{many} sh -c {{{{x}}}}")


@pytest.mark.parametrize("template", ["bash -cl {{x}}", "{{x}} --version", "env -S 'bash -c' {{x}}", "echo {{x}} | sh"])
async def test_the_problem_of_a_file_is_told_with_its_line_and_column_and_the_rest_loads(
    template: str, tmp_path: Path
) -> None:
    (tmp_path / "tools").mkdir()
    schema = {"type": "object", "properties": {"x": {"type": "string"}}, "required": ["x"]}
    tools = [
        {"name": name, "description": "d", "inputSchema": schema, "handler": {"type": "shell", "command": command}}
        for name, command in (("good", "ls {{x}}"), ("bad", template), ("also-good", "cat {{x}}"))
    ]
    text = json.dumps({"name": "mine", "tools": tools}, indent=2)
    (tmp_path / "tools/mine.json").write_text(text, "utf-8")
    async with Toolstead(tmp_path, tools_dir=tmp_path / "tools", watch=False) as stead:
        (file,) = stead.tool_files()
        (problem,) = file.problems
        assert stead.registry.has_tool("good")
        assert stead.registry.has_tool("also-good")
        assert not stead.registry.has_tool("bad")
    lines = text.splitlines()
    assert problem.line is not None
    assert problem.column is not None
    written = lines[problem.line - 1]
    assert written[problem.column - 1 :].startswith(json.dumps(template))
    assert written.lstrip().startswith('"command"')
    assert problem.tool_name == "bad"
    assert "would run as code" in problem.message
