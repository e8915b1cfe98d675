#!/usr/bin/env bash
# The main job, shown: builds the library, starts a Redis or Valkey server of its own, and lets
# examples/transfers.c loose on it, under the lock and without; then examples/fenced_store.c,
# examples/why_not.c and the programs of docs/recipes.md.
#
#     ./examples/run.sh
#
# Works on a bare Debian or Ubuntu: what is missing is installed. Ends with 0 only if the lock kept
# every cent, what goes without it did not, a store was saved from a holder that had been paused, and
# the locks of the past failed as they are said to. All that it starts ends with it.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/packages.sh

build='build-examples'
step=start
scratch=
server=
example=

main()
{
    trap stop EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/relock.XXXXXX")

    step='install what is missing'
    relock_packages build redis

    say "build into $build/"
    if ! build_examples >"$scratch/build.log" 2>&1; then
        cat "$scratch/build.log" >&2
        exit 1
    fi

    say "start a private server in $scratch"
    start_server

    say 'transfers, under the lock'
    run_example "$build/examples/transfers" "unix://$scratch/server.sock"

    say 'transfers --no-lock: the same, without the lock'
    run_example "$build/examples/transfers" --no-lock "unix://$scratch/server.sock"

    say 'fenced_store: a holder that was paused for longer than its lease'
    run_example "$build/examples/fenced_store" "unix://$scratch/server.sock"

    say 'why_not: the locks of the past, each in the moment in which it fails'
    run_example "$build/examples/why_not" "unix://$scratch/server.sock"

    say 'recipes: one lock per user, a leader, an idempotent job, C++'
    run_example "$build/examples/by_user" "unix://$scratch/server.sock"
    run_example "$build/examples/leader" "unix://$scratch/server.sock" 3
    run_example "$build/examples/idempotent" "unix://$scratch/server.sock"
    [[ ! -x $build/examples/lockable ]] || # without a C++ compiler
        run_example "$build/examples/lockable" "unix://$scratch/server.sock"

    say 'once_per_fleet: a cron job on two machines; the second finds its period taken (status 75)'
    run_example "$build/examples/once_per_fleet" "unix://$scratch/server.sock"
    fails_with 75 "$build/examples/once_per_fleet" "unix://$scratch/server.sock"

    say 'done: exact under the lock, and off without it; a stale holder is refused by its token'
}

say()
{
    step=$1
    printf '\n== %s\n' "$step"
}

build_examples()
{
    [[ -f $build/build.ninja ]] ||
        meson setup "$build" -Dbuildtype=release -Dtests=disabled -Dexamples=true &&
        meson compile -C "$build"
}

start_server()
{
    local kind=redis i

    command -v redis-server >/dev/null || kind=valkey
    start "$kind-server" --port 0 --unixsocket "$scratch/server.sock" --save '' --appendonly no \
        --daemonize no --dir "$scratch" --logfile "$scratch/server.log"
    server=$started

    for ((i = 0; i < 100; i++)); do
        [[ $("$kind-cli" -s "$scratch/server.sock" ping 2>&1) != PONG ]] || return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    echo "$kind-server does not answer:" >&2
    cat "$scratch/server.log" >&2
    exit 1
}

# In the background and waited for: so a signal to this script is answered at once.
run_example()
{
    start timeout --kill-after=5 300 "$@"
    example=$started
    wait "$example"
    stop_group "$example" # should it have left a process
    example=
}

fails_with()
{
    local expected=$1 status=0

    start timeout --kill-after=5 300 "${@:2}"
    example=$started
    wait "$example" || status=$?
    example=
    [[ $status -eq $expected ]]
}

# Each in a process group of its own, so that Ctrl-C reaches this script alone, and `stop_group`
# the processes that it forked too.
start()
{
    set -m
    "$@" </dev/null &
    started=$!
    set +m
}

stop_group()
{
    local i

    [[ -n $1 ]] || return 0
    kill -TERM -- "-$1" 2>/dev/null || true
    for ((i = 0; i < 50; i++)); do
        kill -0 -- "-$1" 2>/dev/null || return 0
        sleep 0.1
    done
    kill -KILL -- "-$1" 2>/dev/null || true
}

stop()
{
    local result=$?

    trap '' HUP INT TERM
    stop_group "$example"
    stop_group "$server"
    [[ -z $scratch ]] || rm -rf "$scratch"
    [[ $result -eq 0 ]] || printf '\nFAILED (%d) at: %s\n' "$result" "$step" >&2
    exit "$result"
}

main
