"""The programs that run what they are given as code, and how each takes it. One line a family.

The list cannot be complete, and the docs say so.
"""

from __future__ import annotations

import re

import msgspec


class Interpreter(msgspec.Struct, frozen=True, kw_only=True):
    """How a program takes code.

    Attributes:
        gives: Options (and sub-commands) whose value is the code, so that no operand is; a short one may hide in a
            cluster such as `-lc`.
        flags: Those, and options whose value is code beside that of the operand.
        values: Options with a value that is no code, which is therefore no operand either.
        traits: What else is true of it. `operand`: the first operand is code, or names a program file. `rest`:
            so is everything after the first operand, as for ssh. `spread`: its code option only makes
            the first operand code, so that options may stand between them. `loops`: `-n` and `-p` make it open
            every operand, and `command |` is run for that. `bundled`: its first word may be options without a
            dash. `stdin`: it runs what it reads when it has no operand. `data`: its operands are no code, such
            as a database, so it still runs stdin.
    """

    gives: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    traits: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()


class Wrapper(msgspec.Struct, frozen=True, kw_only=True):
    """A program that runs another one from its arguments.

    Attributes:
        values: Its options with a value.
        skip: How many operands stand before the program.
        after: Sub-commands that the program comes after; without one it runs no program. Where `--` is among them
            and in the command, the program follows that.
        plain: Options without a value, where what is not listed anywhere may be either.
    """

    values: frozenset[str] = frozenset()
    skip: int = 0
    after: frozenset[str] = frozenset()
    plain: frozenset[str] | None = None


# programs : options with the code / options with other code / options with another value / traits
_INTERPRETERS = """
sh bash dash zsh ksh mksh oksh ash yash rbash fish csh tcsh elvish nu xonsh osh : / -c --command --commands
  --init-command --rcfile --init-file / -o +o -O +O --rcfile --init-file --init-command / operand spread stdin
pwsh powershell : -c -command -e -ec -encodedcommand -f -file / / -executionpolicy -ep / operand rest stdin
awk gawk mawk nawk goawk : -e --source -f --file -E --exec / -i --include -l --load / -v -F -W --assign
  --field-separator / operand
sed gsed : -e --expression -f --file / / -l --line-length / operand
python pypy ipython bpython ptpython : -c -m --command / / -W -X / operand stdin
timeit pdb cprofile profile trace runpy : -c -s -m --setup / / -n -r -u -o -t / operand rest
perl : -e -E / -M -m -I -d -x / -F / operand stdin loops
ruby irb jruby : -e --eval / -r -I -C -x -S --require / -E -K -F -T / operand stdin
node nodejs tsx ts-node : -e --eval -p --print / -r --require --import --loader --experimental-loader --env-file / -C
  / operand stdin
bun deno : -e --eval -p --print / -r --preload --config --import-map / / operand stdin
php : -r -B -R -E -f -F --run --process-begin --process-code --process-end --file --process-file / -d -c -z --define
  --php-ini / -t -S / operand stdin
lua luajit tclsh wish : / -e -l / / operand stdin
expect : -f / -c / / operand stdin
r rscript octave : -e -f --file --eval / / / operand stdin
gnuplot : / -e / / operand stdin
julia : -e -E --eval --print / -L -J --load --sysimage / -p -t / operand stdin
ghci runghc ocaml swift scala groovy elixir iex kotlin clojure clj bb guile racket sbcl clisp jshell raku : / -e -c -r
  -l -s -x -M -eval --eval --load --script --require --expr / / operand stdin
erl : -eval -run -s -config -args_file -pa / / / stdin data
java : -jar -m --module / -cp -classpath -p -javaagent --class-path --module-path / / operand
osascript : -e / / -l / operand stdin
psql : -c -f --command --file / / -h -p -U -d -v -o --set --variable / stdin data
mysql mariadb : -e --execute --init-command --pager / / -h -u -p -P -D -S / stdin data
duckdb sqlite3 sqlite : -c -s -f -cmd -init / / -separator -newline -nullvalue / rest stdin data
clickhouse clickhouse-client mongo mongosh cqlsh sqlcmd : -q -e -f -Q -i --query --queries-file --eval --execute
  --file / / -h -u -p -U -P -d / stdin data
vi vim view nvim ex : + -c -S -s -u --cmd / / / stdin data
emacs : -l -f --eval --execute --load --funcall --script -eval / / / data
ed : / / / stdin data
less more pager : + -k --lesskey-src --lesskey-file
man : -P -H -C --pager --html --config-file
gdb lldb : -ex -x -ix -iex -o -O -s -S --eval-command --command --init-command --init-eval-command --one-line --source
  / / -p / stdin data
m4 dc gs bpftrace : / -e -f -c --expression --file / -D -I -U / operand stdin
at batch : -f / / -q -t / stdin data
crontab : / / -u / operand stdin
ssh autossh dbclient mosh : -o -F -S -J -I --ssh --server / / -p -l -i -b -c -D -E -e -L -m -Q -R -W -w -B / rest
scp sftp : -o -F -S -D -b -J / / -P -i -l -c
rsync : -e --rsh --rsync-path
parallel watch watchexec hyperfine socat tmux screen xterm sg bwrap eval : / / -j -n -N -w --jobs --interval / operand
  rest
source : / / / operand
su runuser : -c --command --session-command -s --shell / / -g -G -w / rest
script flock vagrant nix newgrp : -c --command
entr : -s
docker podman nerdctl docker-compose : --entrypoint --init-path --runtime
npx npm pnpm yarn : -c --call --shell-mode --script-shell
env : -S --split-string
git : -c --config --config-env --exec-path --upload-pack --receive-pack -u --exec -x --extcmd -O --open-files-in-pager
  --template --tree-filter --index-filter --msg-filter --env-filter --commit-filter --parent-filter run foreach / / -C
hg svn cvs : --config --config-option --config-dir --editor-cmd --diff-cmd -e
tar bsdtar gtar : -I -F -T --to-command --checkpoint-action --use-compress-program --rsh-command --rmt-command
  --info-script --new-volume-script --files-from / / -f -C --file --directory / bundled
zip : -TT --unzip-command
make gmake bmake just rake : -f -E -C -I --file --makefile --eval --directory / / -j -l -o -W / operand rest
cmake ninja ant mvn gradle : -P -C -f -I -b --init-script --build-file
sort split rg ag : --compress-program --filter --pre --hostname-bin --pager
fzf sk : --preview --bind --execute --with-shell --become
nc ncat netcat : -e -c --exec --sh-exec --lua-exec
wget : -e --execute --use-askpass --config
curl : -K --config
tcpdump : -z
nmap : --script --datadir
ansible ansible-playbook : / -a -m -e --args --module-name --extra-vars / / operand
start-stop-daemon : -x -a --exec --startas
strace : -o --output
"""

# programs : options with a value / operands before the program / sub-commands before it / options without a value.
# Where the last field is there, an option that is listed nowhere is read both ways.
_WRAPPERS = """
nohup setsid command exec builtin busybox toybox fakeroot linux32 linux64 unbuffer torsocks chronic : / 0
time gtime : -f -o --format --output / 0
xargs : -a -d -E -I -L -n -P -s --arg-file --delimiter --max-args --max-lines --max-procs --max-chars
  --process-slot-var / 0
env genv : -u -C --unset --chdir / 0
nice : -n --adjustment / 0
ionice : -c -n --class --classdata / 0
timeout gtimeout : -s -k --signal --kill-after / 1
stdbuf gstdbuf : -i -o -e --input --output --error / 0
sudo doas run0 : -u -g -h -p -C -r -t -U -T -D -R -a --user --group --host --prompt --chdir --chroot --role --type
  --close-from --other-user --command-timeout / 0
chroot : --userspec --groups / 1
flock : -w -E --timeout --wait --conflict-exit-code / 1
taskset setarch gosu su-exec setuidgid s6-setuidgid : / 1
chrt : -T -P -D --sched-runtime --sched-period --sched-deadline / 1
unshare : -R -w -S -G --map-user --map-group --map-users --map-groups --propagation --setgroups --root --wd --setuid
  --setgid --monotonic --boottime / 0
nsenter : -t -S -G -W --target --setuid --setgid --wdns / 0
strace : -e -E -p -u -b -I -P -a -o -s -X -O -S -U --env --user --trace --output / 0
numactl setpriv capsh ltrace valgrind rlwrap xvfb-run firejail prlimit eatmydata entr sshpass tini dumb-init faketime
  cpulimit proxychains proxychains4 dbus-run-session caffeinate pkexec : / 0 / /
perf : / 0 / stat record trace /
systemd-run : -p -u -E -M -H --property --unit --setenv --uid --gid --working-directory --slice --description / 0
docker podman nerdctl docker-compose podman-compose apptainer singularity : / 1 / run exec / -d -i -t -T -P -q --rm
  --init --privileged --detach --interactive --tty --read-only --publish-all --quiet --no-healthcheck --no-deps
kubectl oc lxc incus : -n -c --namespace --container --context --kubeconfig --image -f --filename / 1 / run exec debug
  -- / -i -t -q --stdin --tty --quiet --rm --command
npx bunx pnpx uvx : -p -c --package --from --with --python --call / 0
npm pnpm yarn : -w --workspace --prefix / 0 / run run-script exec x dlx create / -s -y --silent --yes
uv pipx poetry pdm hatch pipenv conda mamba micromamba rbenv pyenv bundle pixi : -p -n -e --python --with --from
  --package --spec --name / 0 / run exec / -q -v --quiet --verbose
mise asdf op doppler nix : / 0 / run exec --
direnv : / 1 / exec
deno bun : -c --config --import-map -r --preload --env-file / 0 / run eval x exec create test bench task / -A -q
  --allow-all --allow-read --allow-write --allow-net --allow-env --allow-run --allow-sys --allow-ffi --no-check
  --unstable --quiet
go dotnet zig : -tags -exec -p --project / 0 / run exec script /
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


def _read_table(table: str) -> list[tuple[list[str], list[frozenset[str]]]]:
    """The programs and the fields of each line."""
    lines = [line.partition(" :") for line in table.strip().replace("\n  ", " ").splitlines()]
    return [
        (programs.split(), [frozenset(field.split()) for field in f"{fields} ".split("/ ")])
        for programs, _, fields in lines
    ]


def _build_wrapper(
    values: frozenset[str],
    skip: frozenset[str],
    after: frozenset[str] = frozenset(),
    plain: frozenset[str] | None = None,
) -> Wrapper:
    return Wrapper(values=values, skip=int(min(skip)), after=after, plain=plain)


def _build_interpreter(
    gives: frozenset[str],
    beside: frozenset[str] = frozenset(),
    values: frozenset[str] = frozenset(),
    traits: frozenset[str] = frozenset(),
) -> Interpreter:
    return Interpreter(gives=gives, values=values, traits=traits, flags=gives | beside)


INTERPRETERS = {
    program: _build_interpreter(*fields) for programs, fields in _read_table(_INTERPRETERS) for program in programs
}
WRAPPERS = {program: _build_wrapper(*fields) for programs, fields in _read_table(_WRAPPERS) for program in programs}
