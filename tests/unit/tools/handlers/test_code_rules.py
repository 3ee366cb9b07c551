"""Most programs and options in the table of rules have a template here that needs them.

The table is written down a second time on purpose: what is taken out of it there lets a template
through here, or refuses one that is fine.
"""

from __future__ import annotations

import pytest

from toolstead.tools.handlers.shell_argv import Parameters, load_template
from toolstead.tools.handlers.template import TemplateError

pytestmark = pytest.mark.promise("R8")

# programs : options : the template, for each of the programs with each of the options
_CODE = r"""
ksh mksh oksh yash rbash fish csh tcsh elvish nu xonsh osh nawk goawk gsed pypy ipython bpython ptpython pdb profile
  trace runpy irb jruby nodejs tsx ts-node bun deno luajit tclsh wish octave gnuplot julia ghci runghc ocaml swift
  scala groovy iex kotlin clojure clj bb guile racket sbcl clisp jshell raku m4 dc gs bpftrace watchexec screen xterm
  sg bwrap source gmake bmake just rake ansible-playbook command exec builtin toybox fakeroot linux32 linux64 unbuffer
  torsocks chronic gtime genv gstdbuf doas run0 numactl setpriv capsh ltrace valgrind rlwrap xvfb-run firejail prlimit
  eatmydata entr tini dumb-init faketime cpulimit proxychains dbus-run-session caffeinate pkexec bunx pnpx r java
  osascript ansible : : PROGRAM {{x}}
mariadb clickhouse-client mongo cqlsh sqlcmd hg svn cvs : : PROGRAM -e {{x}}
sqlite vi view nvim ex vagrant newgrp npm pnpm yarn netcat : : PROGRAM -c {{x}}
more pager : : PROGRAM + {{x}}
batch : : PROGRAM -f {{x}}
autossh dbclient mosh bsdtar gtar : : PROGRAM -F {{x}}
sftp : : PROGRAM -D {{x}}
podman nerdctl docker-compose : : PROGRAM --runtime {{x}}
ninja ant mvn gradle : : PROGRAM -C {{x}}
ag : : PROGRAM --pre {{x}}
sk : : PROGRAM --bind {{x}}
nmap : : PROGRAM --script {{x}}
gtimeout taskset setarch su-exec setuidgid s6-setuidgid chrt pwsh timeit : : PROGRAM a {{x}}
nerdctl docker-compose podman-compose apptainer singularity oc lxc incus kubectl : : PROGRAM exec a {{x}}
pnpm yarn pipx pdm hatch pipenv mamba micromamba rbenv pyenv pixi asdf op doppler dotnet zig : : PROGRAM exec {{x}}
sh : --commands -c : PROGRAM OPTION={{x}}
sh : --init-command : PROGRAM OPTION {{x}}
sh : +O +o --init-command --init-file : PROGRAM OPTION a {{x}}
pwsh : -c -e -f : PROGRAM OPTION={{x}}
pwsh : -command -encodedcommand : some-wrapper PROGRAM OPTION {{x}}
pwsh ruby bun php lua expect r gnuplot julia ghci erl osascript clickhouse vi m4 crontab : : echo {{x}} | PROGRAM
awk : --exec --file --include --load -E -e -l : PROGRAM OPTION={{x}}
awk : --field-separator -F : PROGRAM OPTION a {{x}}
sed : --file : PROGRAM OPTION={{x}}
sed : --line-length : PROGRAM OPTION a {{x}}
python : --command : PROGRAM OPTION={{x}}
timeit : --setup -c -m -s : PROGRAM OPTION={{x}}
perl : -E -m -x : PROGRAM OPTION={{x}}
perl : -F : echo {{x}} | PROGRAM OPTION a
ruby : --eval --require -C -I -S -r -x : PROGRAM OPTION={{x}}
ruby : -E -F -K -T : PROGRAM OPTION a {{x}}
node : --env-file --experimental-loader --import --loader --print : PROGRAM OPTION={{x}}
node : -C : PROGRAM OPTION a {{x}}
bun : --config --eval --import-map --preload --print -e -p -r : PROGRAM OPTION={{x}}
php : --define --file --php-ini --process-begin --process-code --process-end --process-file --run -B -E -F -R -c -f -z
  : PROGRAM OPTION={{x}}
php : -S -t : PROGRAM OPTION a {{x}}
lua : -l : PROGRAM OPTION={{x}}
expect : -f : PROGRAM OPTION={{x}}
r : --eval --file -e -f : PROGRAM OPTION={{x}}
gnuplot : -e : PROGRAM OPTION={{x}}
julia : --eval --load --print --sysimage -E -J -L -e : PROGRAM OPTION={{x}}
julia : -p -t : PROGRAM OPTION a {{x}}
ghci : --eval --expr --load --require --script -M -c -e -l -r -s -x : PROGRAM OPTION={{x}}
erl : -args_file -config -pa -run -s : PROGRAM OPTION {{x}}
erl clickhouse vi gdb : : echo {{x}} | PROGRAM a
java : --class-path --module-path -jar -javaagent -m -p : PROGRAM OPTION={{x}}
java : -classpath : PROGRAM a OPTION {{x}}
osascript : -e : PROGRAM OPTION={{x}}
osascript : -l : PROGRAM OPTION a {{x}}
psql : --file -f : PROGRAM OPTION {{x}}
mysql : --execute --init-command : PROGRAM OPTION {{x}}
duckdb : -cmd -f -init -s : PROGRAM OPTION {{x}}
clickhouse : --execute --file --queries-file -Q -e -f -i -q : PROGRAM OPTION {{x}}
vi : -S -s -u : PROGRAM OPTION {{x}}
emacs : --execute --funcall --load --script -f -l : PROGRAM OPTION {{x}}
less : --lesskey-file --lesskey-src -k : PROGRAM OPTION {{x}}
man : --config-file --html --pager -C -H : PROGRAM OPTION {{x}}
gdb : --command --eval-command --init-command --init-eval-command --one-line --source -O -S -s -x : PROGRAM OPTION
  {{x}}
m4 : --expression --file -c -e -f : PROGRAM OPTION={{x}}
m4 : -D -I -U : PROGRAM OPTION a {{x}}
crontab : -u : PROGRAM OPTION a {{x}}
ssh : --server --ssh -F -I -S : PROGRAM OPTION {{x}}
scp : -D -F -J -b -o : PROGRAM OPTION {{x}}
rsync : --rsync-path : PROGRAM OPTION {{x}}
su : --command --shell -s : PROGRAM OPTION {{x}}
entr : -s : PROGRAM a OPTION {{x}}
docker : --init-path --runtime : PROGRAM OPTION {{x}}
npx : --call : PROGRAM OPTION {{x}}
npx : --script-shell --shell-mode : PROGRAM a OPTION {{x}}
env : --split-string -S : PROGRAM a OPTION {{x}}
git : --commit-filter --config-env --env-filter --index-filter --msg-filter --parent-filter --receive-pack --template
  -u : PROGRAM OPTION {{x}}
hg : --config-dir --config-option --diff-cmd --editor-cmd -e : PROGRAM OPTION {{x}}
tar : --files-from --info-script --new-volume-script --rmt-command --rsh-command -F -T : PROGRAM OPTION {{x}}
zip : --unzip-command : PROGRAM OPTION {{x}}
make : --directory --file --makefile -C -E -I : PROGRAM OPTION={{x}}
cmake : --build-file --init-script -C -I -b -f : PROGRAM OPTION {{x}}
sort : --hostname-bin --pager : PROGRAM OPTION {{x}}
fzf : --become --bind --execute --with-shell : PROGRAM OPTION {{x}}
nc : --exec --lua-exec -c : PROGRAM OPTION {{x}}
wget : --config --execute : PROGRAM OPTION {{x}}
curl : --config : PROGRAM OPTION {{x}}
nmap : --datadir --script : PROGRAM OPTION {{x}}
ansible : --args --extra-vars --module-name -e -m : PROGRAM OPTION={{x}}
start-stop-daemon : --exec --startas -a -x : PROGRAM OPTION {{x}}
strace : --output : PROGRAM OPTION {{x}}
time : --format --output : PROGRAM OPTION a {{x}}
xargs : --arg-file --delimiter --max-chars --max-lines --max-procs --process-slot-var -E -L -P -a -d -s : PROGRAM
  OPTION a {{x}}
env : --chdir --unset : PROGRAM OPTION a {{x}}
ionice : --classdata -n : PROGRAM OPTION a {{x}}
timeout : --kill-after : PROGRAM OPTION a a {{x}}
stdbuf : --error --input -e -i -o : PROGRAM OPTION a {{x}}
sudo : --chdir --chroot --close-from --command-timeout --group --host --other-user --prompt --role --type -C -D -R -T
  -U -a -g -h -p -r -t : PROGRAM OPTION a {{x}}
chroot : --groups --userspec : PROGRAM OPTION a a {{x}}
flock : --conflict-exit-code --timeout --wait -E : PROGRAM OPTION a a {{x}}
chrt : --sched-deadline --sched-period --sched-runtime -D -P -T : PROGRAM OPTION a a {{x}}
unshare : --boottime --map-groups --map-users --monotonic --propagation --root --setgid --setgroups --setuid --wd -G
  -R -S -w : PROGRAM OPTION a {{x}}
nsenter : --setgid --setuid --target --wdns -G -S -W : PROGRAM OPTION a {{x}}
strace : --env --output --trace --user -E -I -O -P -S -U -X -a -b -o -p -s -u : PROGRAM OPTION a {{x}}
perf : record trace : PROGRAM OPTION {{x}}
systemd-run : --description --gid --property --setenv --slice --uid --unit --working-directory -E -H -M -u : PROGRAM
  OPTION a {{x}}
kubectl : debug exec run : PROGRAM OPTION a {{x}}
npx : --call --package --python --with -c : PROGRAM OPTION a {{x}}
npm : create dlx run-script x : PROGRAM OPTION {{x}}
mise : exec : PROGRAM OPTION {{x}}
deno : bench create exec task test x : PROGRAM OPTION {{x}}
go : exec script : PROGRAM OPTION {{x}}
npm : --prefix : PROGRAM exec OPTION {{x}} a
uv : --from --package --python --spec --with -e -p : PROGRAM exec OPTION {{x}} a
deno : --env-file -c : PROGRAM exec OPTION {{x}} a
go : --project -exec : PROGRAM exec OPTION {{x}} a
"""

_ARGUMENTS = r"""
pwsh : -ep -executionpolicy : PROGRAM OPTION {{x}}
timeit : -n -o -r -t -u : PROGRAM OPTION {{x}}
java : --module : PROGRAM OPTION a {{x}}
duckdb : -newline -nullvalue -separator : PROGRAM OPTION a {{x}}
ssh : -B -D -E -L -Q -R -W -b -c -e -i -l -m -w : PROGRAM OPTION a {{x}}
parallel : --interval --jobs -N -j -w : PROGRAM OPTION {{x}}
su : -G -g -w : PROGRAM OPTION a {{x}}
make : -W -j -l -o : PROGRAM OPTION {{x}}
docker : --detach --init --interactive --no-deps --no-healthcheck --privileged --publish-all --quiet --read-only --rm
  --tty -P -T -d -q : PROGRAM exec OPTION a ls {{x}}
kubectl : --command --quiet --rm --stdin --tty -i -q -t : PROGRAM exec OPTION a ls {{x}}
npm : --workspace -w : PROGRAM exec OPTION {{x}} a
npm : --silent --yes -s -y : PROGRAM exec OPTION ls {{x}}
uv : --name -n : PROGRAM exec OPTION {{x}} a
uv : --quiet --verbose -q -v : PROGRAM exec OPTION ls {{x}}
deno : --allow-all --allow-env --allow-ffi --allow-read --allow-run --allow-sys --allow-write --no-check --quiet
  --unstable -A -q : PROGRAM exec OPTION ls {{x}}
go : -p -tags : PROGRAM exec OPTION {{x}} a
"""


def _templates(table: str) -> list[str]:
    templates: list[str] = []
    for line in table.strip().replace("\n  ", " ").splitlines():
        programs, options, template = line.replace(": :", ":  :").split(" : ")
        for program in programs.split():
            filled = template.replace("PROGRAM", program)
            templates += [filled.replace("OPTION", option) for option in options.split() or [""]]
    return templates


CODE, ARGUMENTS = _templates(_CODE), _templates(_ARGUMENTS)


def load(template: str, *allowed: str) -> None:
    load_template(template, Parameters(names=["x"], required=["x"], allow_script=allowed))


def test_every_program_and_option_of_the_list_is_known() -> None:
    for template in CODE:
        with pytest.raises(TemplateError, match="stands where its value would run as code"):
            load(template)
        load(template, "x")


def test_an_option_that_only_takes_a_value_makes_no_code_of_what_follows() -> None:
    for template in ARGUMENTS:
        load(template)
