#!/bin/sh
# Puts a `toolstead` command on the PATH of this user, or removes it: `make install`, `make uninstall`.
#
#   environment  $XDG_DATA_HOME/toolstead/app, else ~/.local/share/toolstead/app
#   command      ~/.local/bin/toolstead, a link into it
#
# It installs this checkout as it is now, so that the command goes on when the checkout is changed or deleted.
# EXTRAS=models,claude adds extras; they stay when it is installed again. Everything is fetched by hash.
set -eu
cd "$(dirname "$0")"

PYTHON=${PYTHON:-python3}
data=${XDG_DATA_HOME:-$HOME/.local/share}/toolstead
app=$data/app
command=$HOME/.local/bin/toolstead
pip="$app/bin/python -m pip --quiet --disable-pip-version-check --no-input"

fail() {
    echo "install: $1" >&2
    exit 1
}

# Ours is a link into the environment; anything else of this name belongs to somebody else.
is_ours() {
    [ -L "$command" ] && [ "$(readlink "$command")" = "$app/bin/toolstead" ]
}

remove() {
    [ -e "$app" ] && [ ! -f "$app/extras" ] && fail "$app was not made by make install; it is left as it is"
    disconnect
    if is_ours; then
        rm "$command"
        echo "removed $command"
    elif [ -e "$command" ]; then
        echo "$command is not this installation's; it stays"
    fi
    if [ -e "$app" ]; then
        rm -rf "$app"
        echo "removed $app"
    else
        echo "there is no installation in $app"
    fi
    echo "Your settings and data stay: ${XDG_CONFIG_HOME:-$HOME/.config}/toolstead and $data"
}

# A client that names a command that is gone may not start at all, as Codex does not.
disconnect() {
    [ -x "$app/bin/toolstead" ] || return 0
    if ! (cd "$HOME" && "$app/bin/toolstead" connect --remove); then
        echo "install: not every client was looked at; one that still names the command may not start: docs/connect.md says" \
            "where its file is" >&2
    fi
    echo "A project's own files (.mcp.json, .codex/config.toml, …) and clients of other users were not looked at."
}

add() {
    [ -e "$app" ] && [ ! -f "$app/extras" ] && fail "$app is there, and was not made by make install; move it away"
    if [ -e "$command" ] || [ -L "$command" ]; then
        is_ours || fail "$command is there already, and not ours; move it away, and try again"
    fi
    known=$(ls requirements | sed -n 's/^extra-\(.*\)\.txt$/\1/p' | tr '\n' ' ')
    extras=$(printf '%s\n' $(cat "$app/extras" 2> /dev/null) $(echo "${EXTRAS:-}" | tr ',' ' ') | sort -u)
    [ "$extras" = all ] && extras=$known
    requirements="-r requirements/core.txt"
    for extra in $extras; do
        [ -f "requirements/extra-$extra.txt" ] || fail "EXTRAS: there is no '$extra'; there are: ${known}and all"
        requirements="$requirements -r requirements/extra-$extra.txt"
    done

    # What was begun and not finished, or runs on another Python than is asked for, is made anew.
    if [ -e "$app/unfinished" ] || [ "$("$app/bin/python" -V 2>&1)" != "$("$PYTHON" -V 2>&1)" ]; then
        rm -rf "$app"
    fi
    mkdir -p "$app"
    touch "$app/extras" "$app/unfinished"
    [ -e "$app/bin/python" ] || "$PYTHON" -m venv "$app"
    echo "install: what it needs, into $app"
    $pip install --require-hashes $requirements
    [ "${HATCH_BUILD_NO_HOOKS:-}" = true ] || "$app/bin/python" hatch_build.py || fail "the console was not built, as said above; \
HATCH_BUILD_NO_HOOKS=true make install leaves it out"
    $pip install --no-deps --no-build-isolation --no-index --force-reinstall .
    printf '%s\n' $extras > "$app/extras"
    rm "$app/unfinished"

    mkdir -p "$(dirname "$command")"
    ln -sfn "$app/bin/toolstead" "$command"
    echo "install: $("$command" --version), as $command"
    tell_next
}

tell_next() {
    found=$(command -v toolstead || true)
    if [ "$found" = "$command" ]; then
        echo
        echo "Next: toolstead connect    gives the tools to Claude Code, Codex, Gemini and others"
        return
    fi
    if [ -n "$found" ]; then
        echo "install: another toolstead comes first on your PATH: $found" >&2
    fi
    case ${SHELL:-} in
        */zsh) file=.zshrc ;;
        */fish) file=.config/fish/config.fish ;;
        */bash) file=.bashrc ;;
        *) file=.profile ;;
    esac
    echo
    echo "~/.local/bin is not first on your PATH. For this terminal, and for every new one:"
    if [ "$file" = .config/fish/config.fish ]; then
        echo '  fish_add_path ~/.local/bin'
    else
        echo '  export PATH="$HOME/.local/bin:$PATH"'
        echo "  echo 'export PATH=\"\$HOME/.local/bin:\$PATH\"' >> ~/$file"
    fi
    echo "Then: toolstead connect    gives the tools to Claude Code, Codex, Gemini and others"
}

case ${1:-} in
    "") add ;;
    --remove) remove ;;
    *) fail "'$1' is unknown; there is only --remove" ;;
esac
