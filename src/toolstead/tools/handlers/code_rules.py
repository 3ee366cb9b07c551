"""Which values a program would run as code: the rules, one line a family of programs.

The table cannot be complete, and the docs say so: what it does not name takes values anywhere. Each line is the kind
of rule, the programs, and then fields in any order, `;` between them. `git/config` is the subcommand `config` of git;
`a,b/c,d` stands for all four. `code_places` applies the rules. The kinds:

    none     No value at all: shells' helpers, editors, build tools, whatever runs or loads what it is given.
    script   Values only after a literal script: `python x.py {{v}}`, `sh -c 'code' _ {{v}}`, `sed -e code {{v}}`.
    starts   It starts the program that follows its options: that program's rule holds for the rest.
    command  A literal subcommand, none of `never`. Where the subcommand has a line of its own, that holds too.
    first    The first operand may be a value, such as a host or a database; nothing after it may.
    options  Values anywhere.

The script, the program, the subcommand and the first operand decide. An option before them that no field names may take
the next word as its value, or not: **both readings count**, and a value there is refused. The fields:

    code     Options whose value is code, wherever they stand, shortened (`--eva`) or in a cluster (`-lc`): never a
             placeholder. For a script, they also give it, so that no operand does.
    beside   The same, but the script still follows: `node -r module script.js`.
    values   Options whose value is only data, so that it may be a placeholder.
    flags    Options without a value. `-i*`: whatever is joined to it is its own.
    never    Subcommands and options with which no value may stand anywhere.
    skip     How many operands stand before the program that is started; two numbers: either.
    marks    What no value may begin with, because the program gives it a meaning; `|` also at the end, and two or more
             characters anywhere. This is checked on every call.
    signs    What its options begin with, where not only with a dash: those of a shell.
    also     stdin: it runs what it reads, unless its script is given. feeds: it makes arguments of what it reads.
             assigns: `NAME=value` may stand before the program. fixed: no value may stand before the program.
             dashes: the program may follow a `--`. relays: a `--` does not end the options of what reads the values.
             module: the value of `-m` is a program. until: code ends at `;` or `+`. bundle: the first word is options.
"""

from __future__ import annotations

import itertools
import re

import msgspec


class Rule(msgspec.Struct, frozen=True, kw_only=True, eq=False):
    """Where a program takes code; the module says what each field means."""

    kind: str
    code: frozenset[str] = frozenset()
    beside: frozenset[str] = frozenset()
    values: frozenset[str] = frozenset()
    flags: frozenset[str] = frozenset()
    never: frozenset[str] = frozenset()
    skip: tuple[int, ...] = (0,)
    marks: frozenset[str] = frozenset()
    also: frozenset[str] = frozenset()
    signs: frozenset[str] = frozenset("-")
    decides: bool = True


_TABLE = r"""
script sh bash bash-static dash zsh ksh mksh oksh pdksh lksh ash yash rbash posh sash fish csh tcsh elvish nu xonsh osh
  rc ; code -c --command --commands ; beside --init-command --rcfile --init-file ; also stdin ; signs - + ; flags - -a
  -b -c -e -f -h -i -k -l -m -n -p -r -s -u -v -x --login --norc --noprofile --posix --no-config
script awk gawk mawk nawk goawk ; code -e --source -f --file -E --exec ; beside -i --include -l --load ; values -v -F
  --assign --field-separator ; flags -b -n -r -N -P -S --csv --posix --sandbox
script sed gsed ; code -e --expression -f --file ; values -l --line-length ; flags -n -r -E -s -u -z -i* --quiet
  --silent --regexp-extended --in-place --sandbox
script python pypy ipython bpython ptpython ; code -c -m --command ; flags -b -B -d -E -i -I -O -P -q -s -S -u -v -x ;
  also stdin module
script perl ; code -e -E ; beside -M -m -I -d -x ; never -n -p -a -F ; flags -c -f -l -s -S -t -T -u -U -v -w -W -i* ;
  marks | > ; also stdin
script ruby irb jruby pry byebug ; code -e --eval ; beside -r -I -C -x -S --require ; flags -c -n -p -s ; marks | ; also
  stdin
script node nodejs tsx ts-node ; code -e --eval -p --print ; also stdin ; beside -r --require --import --loader
  --experimental-loader --env-file ; flags --no-warnings --enable-source-maps
script php ; code -r -B -R -E -f -F --run --process-begin --process-code --process-end --file --process-file ; beside -d
  -c -z --define --php-ini ; flags -n -q -C -H ; also stdin
script tclsh wish expect ; code -f ; beside -c ; marks | ; also stdin
script r rscript octave octave-cli ; code -e -f --file --eval ; flags --vanilla --no-save --quiet -q ; also stdin
script julia osascript ; code -e -E --eval --print ; beside -L -J --load --sysimage ; values -l ; also stdin
script ghc ghci runghc ocaml swift scala groovy elixir iex kotlin clojure clj bb guile racket sbcl clisp jshell jjs
  jrunscript raku gnuplot slsh lua luajit texlua m4 dc gs bpftrace mono wine sbatch ; also stdin ; beside -e -c -r -l -f
  -s -x -M -eval --eval --load --script --require --expr --expression --file
script java ; code -jar -m --module ; beside -cp -classpath -p -javaagent --class-path --module-path ; values -D ; marks
  @
script ansible ansible-playbook ansible-console service runscript ; beside -a -m -e -i --args --module-name --extra-vars
none pwsh powershell erl mongo mongosh ; values -ep -executionpolicy --host --port ; also stdin ; code -c -command -e
  -ec -encodedcommand -f -file -eval --eval -run -s -config -args_file -pa
none timeit pdb cprofile profile trace runpy unittest doctest ; code -c -s -m --setup ; values -n -r -u -o -t
none pytest py.test tox nox coverage rspec phpunit cucumber behave jest mocha vitest ava celery gunicorn uvicorn
  hypercorn flask streamlit papermill jupyter ; code -p ; values -k -m -n --maxfail --color --tb --durations --timeout
none vi vim view nvim ex vimdiff gvim rvim rview ed red nano pico joe emacs emacsclient micro kak ; also stdin ; code +
  -c -S -s -u -l -f --cmd --eval --execute --load --funcall --script -eval
none gdb gdb-multiarch lldb crash debugfs scanmem hping3 ginsh bconsole tdbtool asterisk rtorrent msfconsole tasksh
  crontab ; values -p -u --pid ; code -ex -x -ix -iex -o -O -s -S --eval-command --command --init-command
  --init-eval-command ; also stdin
none make gmake bmake just rake ant mvn mvnw gradle gradlew ninja cmake ctest meson bazel scons task invoke fab ; values
  -j -l -o -W ; code -f -E -C -I -P -b -p --file --makefile --eval --directory --init-script --build-file
none parallel watch watchexec hyperfine ; values -j -n -N -w --jobs --interval ; also feeds stdin
none capsh socat tmux tmate screen xterm sg bwrap eval source runuser newgrp sudoedit run-parts run-mailcap xdg-open
  xdg-user-dir xdotool open start-stop-daemon nix-shell nix-build nix-env nix-instantiate openvpn logrotate nroff pic
  latexmk zathura wireshark dstat sysctl exim exim4 cdist cobc cpan cpanm easy_install gimp gtester jtag minicom
  msgfilter perlbug sqlmap volatility check_by_ssh check_ssl_cert ansible-test ansible-pull ; also stdin ; code -c
  --command --session-command --shell -s -x -a --exec --startas
starts nohup setsid command exec builtin busybox busybox-static toybox fakeroot linux32 linux64 i386 x86_64 unbuffer
  torsocks torify tsocks chronic numactl setpriv ltrace valgrind rlwrap xvfb-run firejail prlimit eatmydata sshpass tini
  dumb-init faketime cpulimit proxychains proxychains4 dbus-run-session caffeinate pkexec systemd-run systemd-inhibit
  unshare nsenter systemd-nspawn choom ssh-agent aoss aa-exec grc multitime softlimit distcc ccache cgexec chpst pexec
  genie ld ld.so ld-linux ld-linux-x ld-linux-aarch ld-linux-armhf ld-linux-riscv ld-musl-x ld-musl-aarch
starts env genv ; code -S --split-string ; never -S --split-string ; values -u -C --unset --chdir ; flags - -i -0 -v
  --ignore-environment ; also assigns
starts sudo doas run0 ; values -u -g --user --group ; flags -n -E -H -k -b -i -s -S -A ; also assigns
starts time gtime nice ionice stdbuf gstdbuf ; flags -p -v -a ; values -n -c -i -o -e --adjustment --class --classdata
starts timeout gtimeout ; skip 1 ; values -s -k --signal --kill-after ; flags -v -f --foreground --preserve-status
starts setarch taskset chrt gosu su-exec setuidgid s6-setuidgid setlock logsave ; skip 0 1
starts chroot ; skip 1 ; also fixed
starts flock ; skip 1 ; code -c --command ; values -w -E --timeout --wait --conflict-exit-code ; flags -e -F -n -o -s -u
  -v -x --nonblock --exclusive --shared --close
starts strace ; code -o --output ; values -e -p -s -u ; flags -c -f -i -k -q -r -t -T -v -y
starts entr ; code -s ; flags -a -c -d -n -p -r -z
starts xargs ; beside -a --arg-file ; also feeds ; flags -0 -r -t -p -x -o -i* -e* -l* --null --no-run-if-empty
  --replace ; values -d -E -I -L -n -P -s --delimiter --max-args --max-lines --max-procs --max-chars
starts npx bunx pnpx uvx ; code -c --call --shell-mode --script-shell ; flags -y -q --yes --no-install
starts npm,pnpm,yarn/exec,x,dlx,create ; values -w --workspace ; flags -s -y --silent --yes
script npm,pnpm,yarn/run,run-script ; values -w --workspace ; flags -s --silent ; also relays
starts docker,podman,nerdctl,docker-compose,podman-compose,apptainer,singularity/exec
  docker,podman,nerdctl/compose,container/exec lxc,incus/exec ; skip 1 ; also dashes ; values -e -u -w --env --user
  --workdir ; flags -d -i -t -T -P -q --rm --init --privileged --detach --interactive --tty --read-only --publish-all
  --quiet --no-healthcheck --no-deps
starts docker,podman,nerdctl,docker-compose,podman-compose,apptainer,singularity/run,create
  docker,podman,nerdctl/compose,container/run ; skip 1 ; also fixed ; values -e -u -w --env --user --workdir ; flags -d
  -i -t -q --rm --init --privileged --detach --interactive --tty
starts kubectl,oc/exec,run,debug,rsh ; skip 1 ; also dashes ; flags -i -t -q --stdin --tty --quiet --rm --command ;
  values -n -c --namespace --container --context
starts mise,asdf,op,doppler,nix/run,exec ; also dashes
starts uv,pipx,poetry,pdm,hatch,pipenv,conda,mamba,micromamba,rbenv,pyenv,bundle,bundler,pixi,cabal/run,exec uv/tool/run
  ; values -n --name ; flags -q -v --quiet --verbose
starts rustup/run direnv/exec ; skip 1 ; also fixed
starts ip/netns,vrf/exec ; skip 1
starts perf/stat,record,trace ; flags -a -g -d -v
script deno,bun/run,test,bench,task,create,exec,x,serve,install,compile,add ; flags -A -q --allow-all --allow-read
  --allow-write --allow-net --allow-env --allow-run --allow-sys --allow-ffi --no-check --unstable --quiet
script go,dotnet,zig/run,exec,script ; values -tags -p
command bun deno ; code -e --eval -p --print -r --preload --config --import-map ; never eval repl i a ; also stdin
command git ; code -c --config --config-env --exec-path --upload-pack --receive-pack -u --exec -x --extcmd -O
  --open-files-in-pager --template --tree-filter --index-filter --msg-filter --env-filter --commit-filter
  --parent-filter --smtp-server --to-cmd --cc-cmd ; values -C -L -S -G -U -n --git-dir --work-tree ; flags -p -P
  --no-pager --paginate --bare ; never config filter-branch difftool mergetool instaweb send-email daemon credential
  hook maintenance svn p4 help
command git/submodule git/bisect ; never foreach run visualize view
command hg svn cvs ; never config serve extdiff debugshell ; code --config --config-option --config-dir --editor-cmd
  --diff-cmd --diff3-cmd --ssh --remotecmd --command -e
command gh glab ; never alias extension ext extensions config codespace
command docker,podman,nerdctl/compose ; beside -f --file --env-file ; values -p --project-name --profile ; never build
command docker podman nerdctl docker-compose podman-compose apptainer singularity lxc incus docker,podman/container ;
  code --entrypoint --init-path --runtime --config ; never build buildx plugin ; values -H --host --context
command kubectl oc ; code --kubeconfig ; never config plugin edit ; values -n --namespace --context --cluster
command npm pnpm yarn ; code -c --call --shell-mode --script-shell ; values -w --workspace ; flags -s --silent -g --json
  ; never install i ci add update upgrade init config set explore edit pkg link global rebuild
command pip uv/pip uv/tool gem composer cargo ; code --python --editor --config --manifest-path -Z -d --working-dir ;
  never install download wheel config add require update create-project run-script exec open build console global
command uv pipx poetry pdm hatch pipenv conda mamba micromamba rbenv pyenv bundle bundler pixi cabal rustup mise asdf op
  doppler nix direnv vagrant flatpak snap machinectl toolbox distrobox ; code -c --command --expr --run ; never install
  inject add shell config console init develop eval ssh up provision enter allow toolchain env
command go dotnet zig ; code -exec -toolexec -vettool -overlay -modfile -ldflags ; never test generate install get tool
  env fsi
command apt-get apt aptitude dnf yum zypper apk brew port ; code -o --option -c --config-file --setopt ; flags -q -y
  --quiet --yes ; never install reinstall localinstall add build-dep source changelog tap bundle
command systemctl ; never edit link enable reenable set-environment import-environment ; flags -q --user --system
  --no-pager --quiet --all --full ; values -n -p -t --property --type
command ip ip/netns ip/vrf ; code -b -batch -force ; flags -4 -6 -s -d -o -j -p -br -brief -json -details
command openssl ; code -engine -provider -provider-path -config -signer
command aws gcloud terraform tofu ; never configure config init console login ; code --command --flags-file
command puppet knife csvtool perf busctl ; never apply exec call ; code -e -E --execute --address
first ssh slogin autossh dbclient mosh ; code -o -F -S -J -I --ssh --server ; also stdin ; values -p -l -i -b -c -D -E
  -e -L -m -Q -R -W -w -B ; flags -4 -6 -A -C -f -g -G -K -M -n -N -q -T -t -v -X -x -Y
first su ; code -c --command --session-command -s --shell ; values -g -G -w ; flags - -l -m -p --login ; also stdin
first sqlite3 sqlite duckdb ; code -c -s -f -cmd -init ; values -separator -newline -nullvalue ; also stdin ; flags
  -readonly -json -csv -header -noheader -box -column -batch
options psql ; code -c -f --command --file ; values -h -p -U -d -v -o --set --variable ; marks | ; also stdin
options mysql mariadb ; code -e --execute --init-command --pager --default-auth --plugin-dir --defaults-file
  --defaults-extra-file ; values -h -u -p -P -D -S ; also stdin
options clickhouse clickhouse-client cqlsh sqlcmd ; also stdin ; values -h -u -p -U -P -d ; code -q -e -f -Q -i --query
  --queries-file --eval --execute --file
options sftp psftp scp sshfs ; code -o -F -S -D -b -J ; values -P -i -l -c ; marks @- ; also stdin
options ftp lftp ncftp smbclient telnet ; code -c -e -f ; also stdin
options at batch script ; code -f -c --command ; values -t ; also stdin
options rsync ; code -e --rsh --rsync-path -M --remote-option ; marks @-
options cargo/run,test,bench ; also relays
options find gfind ; code -exec -execdir -ok -okdir ; also until relays
options fd fdfind ; code -x -X --exec --exec-batch ; also until
options tar bsdtar gtar ; code -I -F -T --to-command --checkpoint-action --use-compress-program --rsh-command
  --rmt-command --info-script --new-volume-script --files-from ; values -f -C ; marks @- ; also bundle
options zip ; code -TT --unzip-command
options less more pager most pg man ; code + -k -P -H -C --lesskey-src --lesskey-file --lesskey-content --pager --html
  --config-file ; marks +
options sort split rg ag bat batcat delta fzf sk cpio ; code --compress-program --filter --pre --hostname-bin --pager
  --preview --bind --execute --with-shell --become --listen --rsh-command --rmt-command
options nc ncat netcat ; code -e -c --exec --sh-exec --lua-exec ; values -p -w -s
options curl wget ; code -K -e --config --engine --execute --use-askpass ; values -o -O -H -d -X -u -b -A -P ; marks @
options tcpdump nmap tshark pidstat scrot zic enscript cowsay cowthink ; code -z -X -e -y -f -I --exec --script
  --datadir
options gcc g++ cc c++ c89 c99 clang clang++ cpp gfortran tcc gold ar nm objdump objcopy strip strings size readelf as ;
  code -wrapper -fplugin -B -specs --specs -Xclang -load -plugin --plugin -fuse-ld -Wl -Xlinker -T ; never -run ; values
  -o -D -O -I -n ; marks @
options rustc javac 7z 7za 7zr rar unrar ; code -C -Z --codegen -processor -processorpath -J ; marks @
options dpkg ; code -i --install --unpack --pre-invoke --post-invoke --admindir --root
options pacman rpm rpmdb rpmquery rpmverify ; code --eval -E --pipe --define -D --root --rcfile --macros --load -U -F
  --upgrade -S --sync --config --hookdir
options ssh-keygen ssh-add ; code -D -w -s
options pandoc ; code -L --lua-filter -F --filter -t --to -w --write -f --from -r --read --defaults --pdf-engine ;
  values -o
options convert magick identify mogrify composite montage gm display exiftool ; code -process -script -if -config
  -execute -api ; marks | @ msl:
options yt-dlp ; code --exec --config-locations --plugin-dirs --downloader --ppa --netrc-cmd --exec-before-download
options latex pdflatex xelatex lualatex tex pdftex xetex luatex dvips ; code -fmt --fmt -cnf-line --cnf-line -lua --lua
  ; never -shell-escape --shell-escape -enable-write18 --enable-write18 -R0 ; marks \ &
options mail mailx s-nail mutt ; code --exec -X -e -E ; never -~ ; marks | ! ~
options certbot borg restic rclone aria2c ; code --pre-hook --post-hook --deploy-hook --renew-hook --rsh --remote-path
  --password-command -o --option --config --conf-path --on-download-complete --on-download-error --on-download-stop
options neofetch facter pylint mypy ; code -c --config --config-file --custom-dir --init-hook --load-plugins --rcfile
"""

RISKY_VARIABLE = re.compile(
    r"(?:LD_|DYLD_|GIT_|BASH_FUNC_|PYTHON|PERL|RUBY|NODE_|LUA_|NPM_)\w*=|\w*(?:PAGER|EDITOR|VISUAL|BROWSER)=|"
    r"(?:PATH|IFS|ENV|BASH_ENV|SHELL|SHELLOPTS|PS4|PROMPT_COMMAND|LESSOPEN|LESSCLOSE|MAKEFLAGS|CLASSPATH|"
    r"JAVA_TOOL_OPTIONS|_JAVA_OPTIONS|JDK_JAVA_OPTIONS|RUSTC_WRAPPER|SSH_ASKPASS|RSYNC_RSH|TAR_OPTIONS|HOME)="
)
"""A variable that makes programs load or run what it names."""


def _read_table() -> dict[str, Rule]:
    rules: dict[str, Rule] = {}
    for line in _TABLE.strip().replace("\n  ", " ").splitlines():
        kind, _, rest = line.partition(" ")
        programs, *fields = rest.split(" ; ")
        given = {name: frozenset(words) for name, *words in map(str.split, fields)}
        skip = tuple(map(int, given.pop("skip", "0")))
        rule = Rule(kind=kind, skip=skip, decides=kind not in ("none", "options"), **given)
        for name in programs.split():
            rules |= {"/".join(parts): rule for parts in itertools.product(*(p.split(",") for p in name.split("/")))}
    return rules


RULES = _read_table()
