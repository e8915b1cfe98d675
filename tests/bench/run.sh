#!/usr/bin/env bash
# Measures the library against hiredis alone: relock-bench on a private Redis or Valkey, which
# listens on a unix socket in a temporary folder and is stopped at the end. Nothing is pinned. The
# first lines describe the machine, and the last row is the throughput of redis-benchmark.
#
#     ./tests/bench/run.sh                            all rows, as a table
#     ./tests/bench/run.sh --rows passing,fairness    these; `relock-bench --list` names them
#     ./tests/bench/run.sh --rows contention --against OTHER/relock-bench     two libraries in turns
#     ./tests/bench/run.sh --rows contention --cluster        a cluster and a server in turns
#     ./tests/bench/run.sh --json --plot FILE.svg     for report.py; `--help` says what else
#
# Builds into build-bench/, optimised, unless RELOCK_BENCH names a relock-bench. The server is that
# of RELOCK_TEST_SERVER, else redis-server or valkey-server. Ends with 77 when there is none.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)

bench=${RELOCK_BENCH:-}
scratch=
server=
running=

main()
{
    local program

    program=${RELOCK_TEST_SERVER:-$(command -v redis-server || command -v valkey-server)} || {
        echo "there is no redis-server or valkey-server" >&2
        exit 77
    }
    [[ -n $bench ]] || build

    trap stop EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    ulimit -n "$(ulimit -H -n)" # for thousands of connections
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/relock-bench.XXXXXX")
    start_server "$program"
    # In the background, so that a signal ends this script at once.
    "$bench" "unix://$scratch/server.sock" "$@" </dev/null &
    running=$!
    wait "$running"
    running=
}

build()
{
    local folder=$top/build-bench

    {
        [[ -f $folder/build.ninja ]] ||
            meson setup "$folder" "$top" -Dbuildtype=release -Dexamples=false
        meson compile -C "$folder" relock-bench
    } >&2
    bench=$folder/tests/bench/relock-bench
}

start_server()
{
    local i

    "$1" --port 0 --unixsocket "$scratch/server.sock" --save '' --appendonly no --daemonize no \
        --dir "$scratch" --logfile "$scratch/server.log" </dev/null >/dev/null &
    server=$!
    for ((i = 0; i < 100; i++)); do
        [[ ! -S $scratch/server.sock ]] || return 0
        kill -0 "$server" 2>/dev/null || break
        sleep 0.1
    done
    echo "$1 does not come up:" >&2
    cat "$scratch/server.log" >&2
    exit 1
}

end()
{
    [[ -n $1 ]] || return 0
    kill "$1" 2>/dev/null || true
    wait "$1" || true
}

stop()
{
    local result=$?

    trap '' HUP INT TERM
    end "$running"
    end "$server"
    [[ -z $scratch ]] || rm -rf "$scratch"
    exit "$result"
}

main "$@"
