"""The programs that run what they are given as code, and how each takes it. One line a family.

The list cannot be complete, and the docs say so. Above: `interpreters`, which reads it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Trait = Literal["operand", "rest", "spread", "loops", "stdin", "data"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Interpreter:
    """How a program takes code.

    Attributes:
        flags: Options (and sub-commands) whose value is code; a short one may hide in a cluster such as `-lc`.
        values: Options with a value that is no code, which is therefore no operand either.
        traits: What else is true of it. `operand`: the first operand is code, or names a program file. `rest`:
            so is everything after the first operand, as for ssh. `spread`: its code option only says that the
            first operand is code, so that options may stand between them. `loops`: `-n` and `-p` make it open
            every operand, and `command |` is run for that. `stdin`: it runs what it reads when it has no
            operand. `data`: its operands are no code, such as a database, so it runs stdin all the same.
    """

    flags: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    traits: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """A program that runs another one from its arguments.

    Attributes:
        values: Its options with a value.
        skip: How many operands stand before the program.
        after: Sub-commands that the program comes after; without one it runs no program.
        plain: Options without a value, where what is not listed anywhere may be either.
    """

    values: frozenset[str] = frozenset()
    skip: int = 0
    after: frozenset[str] = frozenset()
    plain: frozenset[str] | None = None


# programs : options with code / options with another value / traits
_INTERPRETERS = """
sh bash dash zsh ksh mksh oksh ash yash rbash fish csh tcsh elvish nu xonsh osh : -c --command --commands --init-command \
--rcfile --init-file / -o +o -O +O / operand spread stdin
pwsh powershell : -c -command -e -ec -encodedcommand -f -file / -executionpolicy -ep / operand rest stdin
cmd : /c /k /r / / operand rest stdin
awk gawk mawk nawk original-awk goawk : -e --source -f --file -i --include -l --load -E --exec / -v -F --assign \
--field-separator / operand
sed gsed ssed : -e --expression -f --file / -l --line-length / operand
python pypy ipython jython micropython bpython ptpython : -c -m --command timeit pdb runpy / -W -X / operand stdin
perl : -e -E -M -m -I -d -x / -F -i / operand stdin loops
ruby irb jruby truffleruby : -e -r -I -C -x -S --require --eval / -E -K -F -i -T / operand stdin
node nodejs tsx ts-node : -e --eval -p --print -r --require --import --loader --experimental-loader --env-file / -C / \
operand stdin
bun deno : -e --eval -p --print -r --preload run eval x exec create repl test bench task install --config --import-map / / \
operand stdin
php : -r -B -R -E -f -F -d -c -z --run --process-begin --process-code --process-end --file --process-file --define \
--php-ini / -t -S / operand stdin
lua luajit luau : -e -l / / operand stdin
tclsh wish jimsh : / / operand stdin
expect : -c -f / / operand stdin
rscript r littler octave gnuplot : -e -f --file --eval --exec-path / / operand stdin
julia : -e -E -L -J --eval --print --load --sysimage / -p -t / operand stdin
ghc ghci runghc runhaskell ocaml swift scala scala-cli groovy elixir iex kotlin clojure clj bb guile racket sbcl clisp ecl \
gforth jshell crystal gore yaegi raku nim : -e -c -r -l -s -x -X -M -eval --eval --load --script --require --expr / / \
operand stdin
erl : -eval -run -s -config -args_file -pa / / stdin
java : -jar -cp -classpath -p -m --class-path --module --module-path / / operand
osascript : -e / -l / operand stdin
dotnet go cargo zig : run script exec / / operand
psql mysql mariadb duckdb clickhouse clickhouse-client mongo mongosh cqlsh sqlcmd bq influx : -c -e -f -q -Q -i --command \
--execute --file --eval --query --pager --init-command -cmd / -h -u -U -p -P -D -S -d -v / stdin data
sqlite3 sqlite : -cmd -init / -separator -newline -nullvalue -vfs / rest stdin data
ed ex vi vim view nvim emacs kak hx nano less more most man pager : + -c -e -s -S -u -l -f -P -H -K -k --cmd --eval --load \
--funcall --script --pager --html --startuplisp --lesskey-src --lesskey-file / / stdin data
gdb lldb : -ex -x -ix -iex -o -O -s -S --eval-command --command --init-command --init-eval-command --one-line --source / -p / \
stdin data
m4 dc gs maxima bpftrace stap : -e -f -c --expression --file / -D -I -U / operand stdin
at batch crontab : -f / -q -t / operand stdin data
ssh mosh autossh dbclient : -o -F -S -J -I / -p -l -i -b -c -D -E -e -L -m -Q -R -W -w -B / rest
scp sftp rsync : -e -o -F -S -D -b --rsh --rsync-path / -P -i -l -c -J /
eval parallel watch hyperfine socat tmux screen xterm sg : / / operand rest
source . : / / operand
su runuser pkexec : -c --command --session-command -s --shell / -g -G -w -l / rest
script flock systemd-inhibit newgrp vagrant : -c --command / /
env : -S --split-string / /
git : -c --config --config-env --exec-path --upload-pack --receive-pack -u --exec -x --extcmd -O --open-files-in-pager \
--template --tree-filter --index-filter --msg-filter --env-filter --commit-filter --parent-filter --tag-name-filter --setup \
--type run foreach --namespace / -C --git-dir --work-tree /
hg svn cvs : --config --config-option --config-dir --editor-cmd --diff-cmd --merge-tool -e / /
tar bsdtar gtar : -I -F -H -T --to-command --checkpoint-action --use-compress-program --rsh-command --rmt-command \
--info-script --new-volume-script --index-file / -f -C --file --directory /
zip : -TT --unzip-command / /
make gmake bmake ninja cmake just rake : -f -E -C -P -I --file --makefile --eval --directory / / operand rest
sort split : --compress-program --filter / /
rg ag : --pre --hostname-bin --pager / /
fzf sk : --preview --bind --execute --with-shell --become / /
nc ncat netcat : -e -c --exec --sh-exec --lua-exec / /
wget curl : -e -K --execute --use-askpass --config / /
tcpdump : -z / /
nmap : --script --script-args --datadir / /
ansible ansible-playbook : -a -m -e -i --args --module-name --extra-vars --inventory / / operand
start-stop-daemon : -x -a --exec --startas / /
"""

# programs : options with a value / operands before the program / sub-commands before it / options without a value
_WRAPPERS = """
nohup setsid command exec builtin busybox toybox npx bunx uvx pnpx fakeroot chronic unbuffer torsocks proxychains \
proxychains4 dbus-run-session catchsegv linux32 linux64 setarch caffeinate : / 0
time gtime : -f -o --format --output / 0
xargs : -a -d -E -I -L -n -P -s --arg-file --delimiter --max-args --max-lines --max-procs --max-chars --process-slot-var / 0
env genv : -u -C --unset --chdir / 0
nice : -n --adjustment / 0
ionice : -c -n --class --classdata / 0
timeout gtimeout : -s -k --signal --kill-after / 1
stdbuf gstdbuf : -i -o -e --input --output --error / 0
sudo doas run0 : -u -g -h -p -C -r -t -U -T -D -R -a --user --group --host --prompt --chdir --chroot --role --type \
--close-from --other-user --command-timeout / 0
chroot : --userspec --groups / 1
flock : -w -E --timeout --wait --conflict-exit-code / 1
taskset : / 1
chrt : -T -P -D --sched-runtime --sched-period --sched-deadline / 1
gosu su-exec s6-setuidgid setuidgid faketime cpulimit : -l / 1
numactl : -i -N -m -C -p --interleave --cpunodebind --membind --physcpubind --preferred / 0
unshare : -R -w -S -G --map-user --map-group --map-users --map-groups --propagation --setgroups --root --wd --setuid \
--setgid --monotonic --boottime / 0
nsenter : -t -S -G -W --target --setuid --setgid --wdns / 0
setpriv capsh : --reuid --regid --groups --inh-caps --ambient-caps --bounding-set --user / 0
strace ltrace : -e -E -p -u -b -I -P -a -o -s -X -O -S -U -l -n -A -F --env --user --trace --output / 0
valgrind perf rlwrap xvfb-run firejail bwrap prlimit eatmydata entr watchexec sshpass tini dumb-init : -e -o -p -f -a -s \
-n -w -d -C --bind --ro-bind --output / 0
systemd-run : -p -u -E -M -H -t --property --unit --setenv --uid --gid --working-directory --slice --description / 0
docker podman nerdctl apptainer singularity : / 1 / run exec / -d -i -t -T -P -q --rm --init --privileged --detach \
--interactive --tty --read-only --publish-all --quiet --no-healthcheck --no-deps --debug --tls
docker-compose podman-compose lxc lxc-attach incus : -n / 1 / run exec / -d -T -i -t --rm --no-deps
kubectl oc k3s : -n -c --namespace --container --context --kubeconfig --image -f --filename -l --selector / 1 / run exec \
debug / -i -t -q -it --stdin --tty --quiet --rm --command
npm pnpm yarn : -w --workspace --prefix / 0 / run run-script exec x dlx create init test start / -s -y --silent --yes -r
uv pipx poetry pdm hatch pipenv rye conda mamba micromamba mise asdf rbenv pyenv nix bundle direnv op doppler pixi : -p -n \
-e -c --python --with --from --package --spec --name / 0 / run exec shell develop / -q -v --quiet --verbose --active
"""

FINDERS = {
    **dict.fromkeys(("find", "gfind"), frozenset({"-exec", "-execdir", "-ok", "-okdir"})),
    **dict.fromkeys(("fd", "fdfind"), frozenset({"-x", "-X", "--exec", "--exec-batch"})),
}
"""Programs that run a command for what they find, and the options that begin it."""

RISKY_VARIABLE = re.compile(
    r"(?:LD_|DYLD_|GIT_|BASH_FUNC_|PYTHON|PERL|RUBY|NODE_|LUA_|NPM_)\w*=|\w*(?:PAGER|EDITOR|VISUAL|BROWSER)=|"
    r"(?:PATH|IFS|ENV|BASH_ENV|SHELL|SHELLOPTS|PS4|PROMPT_COMMAND|LESSOPEN|LESSCLOSE|MAKEFLAGS|CLASSPATH|"
    r"JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|RUSTC_WRAPPER|SSH_ASKPASS|RSYNC_RSH|TAR_OPTIONS|HOME)="
)
"""A variable that makes programs load or run what it names."""


def _lines(table: str) -> list[tuple[list[str], list[frozenset[str]]]]:
    """The programs and the fields of each line."""
    rows: list[tuple[list[str], list[frozenset[str]]]] = []
    for line in table.strip().splitlines():
        programs, _, fields = line.partition(" :")
        rows.append((programs.split(), [frozenset(field.split()) for field in f"{fields} ".split("/ ")]))
    return rows


def _wrapper(
    values: frozenset[str],
    skip: frozenset[str],
    after: frozenset[str] = frozenset(),
    plain: frozenset[str] | None = None,
) -> Wrapper:
    return Wrapper(values=values, skip=int(min(skip)), after=after, plain=plain)


INTERPRETERS = {
    program: Interpreter(flags=flags, values=values, traits=traits[0] if traits else frozenset())
    for programs, (flags, values, *traits) in _lines(_INTERPRETERS)
    for program in programs
}
WRAPPERS = {program: _wrapper(*fields) for programs, fields in _lines(_WRAPPERS) for program in programs}
