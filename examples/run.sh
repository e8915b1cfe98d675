#!/usr/bin/env bash
# Demonstrates the library: builds it, starts a private Redis or Valkey server, and runs
# examples/transfers.c with locks and without, then examples/fenced_store.c, examples/why_not.c and
# the programs of docs/recipes.md and docs/tutorial.md.
#
#     ./examples/run.sh
#
# Works on a bare Debian or Ubuntu, where it installs missing packages, which stay. Exits with 0 only if no cent
# is missing with locks and some are without, the store rejected a holder that had been paused, and
# the older lock schemes failed as described. Every process that it starts ends with it.
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

    step='install missing packages'
    announce_server
    relock_packages build redis

    say "build into $build/"
    if ! build_examples >"$scratch/build.log" 2>&1; then
        cat "$scratch/build.log" >&2
        exit 1
    fi

    say "start a private server in $scratch"
    start_server
    note 'The demonstrations below kill processes, delete locks and close cycles on purpose. So lines' \
        'that begin with "relock: warning:" are expected, and results such as "timed out", "would' \
        'deadlock" and "the hold was lost". It has failed only if it ends with "FAILED" and not with' \
        '"== done".'

    say 'transfers: with locks'
    note 'Process 1 is killed in the middle of a transfer. The others wait for its leases to end, 2 s.'
    run_example "$build/examples/transfers" "unix://$scratch/server.sock"

    say 'transfers --no-lock: the same without locks'
    note 'The sum at the end is meant to be wrong.'
    run_example "$build/examples/transfers" --no-lock "unix://$scratch/server.sock"

    say 'fenced_store: a holder that is paused for longer than its lease'
    note 'The first store is meant to end with the old price.'
    run_example "$build/examples/fenced_store" "unix://$scratch/server.sock"

    say 'why_not: how older lock schemes fail'
    note 'Each older scheme is meant to fail, and relock is not.'
    run_example "$build/examples/why_not" "unix://$scratch/server.sock"

    say 'recipes: one lock per user, leader election, an idempotent job, C++'
    note 'The first run of the job has too short a lease and is meant to send no invoice; the second sends it.'
    run_example "$build/examples/by_user" "unix://$scratch/server.sock"
    run_example "$build/examples/leader" "unix://$scratch/server.sock" 3
    fails_with 1 "$build/examples/idempotent" "unix://$scratch/server.sock" 500 # it sends no invoice
    run_example "$build/examples/idempotent" "unix://$scratch/server.sock"
    [[ ! -x $build/examples/lockable ]] || # it is missing without a C++ compiler
        run_example "$build/examples/lockable" "unix://$scratch/server.sock"

    say 'red: one lock on three servers, one of which is down; here two databases stand for two servers'
    run_example "$build/examples/red" "unix://$scratch/server.sock?db=1" \
        "unix://$scratch/server.sock?db=2" "unix://$scratch/none.sock"

    say 'start_together: workers that begin when all of them are ready'
    run_example "$build/examples/start_together" "unix://$scratch/server.sock"

    say 'at_most_n: at most two jobs at a time, in four processes'
    note 'Process 1 is killed during a job. Its permit comes back when its lease ends, 2 s later.'
    run_example "$build/examples/at_most_n" "unix://$scratch/server.sock"

    say 'kept: a process keeps the locks of its customers, and gives one back'
    run_example "$build/examples/kept" "unix://$scratch/server.sock"

    say 'once_per_fleet: cron starts a job on two machines, and one runs it'
    note 'The second machine is meant to skip the job, with status 75.'
    run_example "$build/examples/once_per_fleet" "unix://$scratch/server.sock"
    fails_with 75 "$build/examples/once_per_fleet" "unix://$scratch/server.sock"

    say 'tutorial: a thread pool, deadlines, loss, deadlocks, and a test with a server of its own'
    note 'Lost locks, deadlocks and waits that end without the lock are what these programs show.'
    run_example "$build/examples/tutorial_pool" "unix://$scratch/server.sock"
    run_example "$build/examples/timed" "unix://$scratch/server.sock"
    run_example "$build/examples/long_job" "unix://$scratch/server.sock"
    run_example "$build/examples/lost" "unix://$scratch/server.sock"
    run_example "$build/examples/tutorial_deadlock" "unix://$scratch/server.sock"
    run_example "$build/examples/deadlock_processes" "unix://$scratch/server.sock"
    run_example "$build/examples/tutorial_test"

    say 'event loops: a server with one thread holds 1000 locks, on epoll and on libev'
    run_example "$build/examples/seats_epoll" "unix://$scratch/server.sock"
    run_example "$build/examples/seats_libev" "unix://$scratch/server.sock"

    say 'done: the sum was right with locks and wrong without; the store rejected the old price'
}

say()
{
    step=$1
    printf '\n== %s\n' "$step"
}

# What the next demonstration does on purpose.
note()
{
    printf '   %s\n' "$@"
}

announce_server()
{
    ! relock_is_there redis-server,valkey-server && relock_can_install || return 0
    say 'install a server: there is none'
    note 'This installs the package redis-server, or valkey-server. It stays when the demonstration has' \
        'ended, and on most systems starts a server on port 6379. The demonstration does not use that' \
        'server. To remove it: sudo apt-get remove redis-server'
}

build_examples()
{
    [[ -f $build/build.ninja ]] ||
        meson setup "$build" -Dbuildtype=release -Dtests=disabled -Dexamples=true &&
        nice -n 15 meson compile -C "$build"
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

# Runs a program in the background and waits for it, so that a signal ends this script at once.
run_example()
{
    start timeout --kill-after=5 300 "$@"
    example=$started
    wait "$example"
    stop_group "$example" # in case it left a process behind
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

# Starts a program in a process group of its own. So Ctrl-C reaches only this script, and stop_group
# also reaches the processes that the program forked.
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
