# What surrounds the commands of the pages: tests/pages/commands.py copies it to the top of the
# script that a user runs in the bare Debian.
#
# shellcheck shell=bash
set -euo pipefail
place=start
n_run=0
n_logs=0
trap 'failed $?' ERR

failed()
{
    echo "FAILED at $place, status $1" >&2
    exit 1
}

# Place and text of a block.
begin()
{
    place=$1
    n_run=$((n_run + 1))
    printf '\n== %s, after %d s\n%s\n\n' "$1" "$SECONDS" "$2"
    own_server
    own_files
}

# The server of the reader. On a Debian with systemd, its package has started it.
own_server()
{
    local i

    if [[ $n_logs == 0 ]] && command -v redis-server >/dev/null; then
        n_logs=1
        redis-server --save '' --dir /tmp >~/server.log &
        for ((i = 0; i < 300; i++)); do
            ! grep -q 'Ready to accept connections' ~/server.log || return 0
            sleep 0.1
        done
        cat ~/server.log
        return 1
    fi
}

# The programs of the reader that the pages name.
own_files()
{
    [[ -d ~/relock && ! -e ~/relock/server.c ]] || return 0
    cp ~/relock/examples/quickstart.c ~/relock/server.c
    printf '#!/bin/sh\necho backup\n' >~/relock/backup.sh
    printf '#!/bin/sh\necho convert\n' >~/relock/convert.sh
    chmod +x ~/relock/backup.sh ~/relock/convert.sh
}

# The status of a block; `set -e` does not see the first command of `a && b` fail.
succeeded()
{
    [[ $1 -eq 0 ]] || failed "$1"
}

# Command, and a text that it prints once it works.
stays()
{
    local log i

    n_logs=$((n_logs + 1))
    log=~/stays.$n_logs
    (eval "$1") >"$log" 2>&1 </dev/null &
    for ((i = 0; i < 300; i++)); do
        if grep -qF -- "$2" "$log"; then
            cat "$log"
            return
        fi
        sleep 0.1
    done
    echo "it did not print '$2', but:"
    cat "$log"
    return 1
}

# Command, and what a person at its terminal answers.
answer()
{
    printf '%s\n' "$2" | script --quiet --return --command "$1" /dev/null
}

finish()
{
    printf '\n%d blocks of commands in %d s\n' "$n_run" "$SECONDS"
}
