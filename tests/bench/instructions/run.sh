#!/usr/bin/env bash
# Counts the instructions of an uncontended lock and unlock, with callgrind, and compares them with
# the number that is kept in `counts` for this compiler: more by a tenth is a failure.
#
#     tests/bench/instructions/run.sh PAIRS COMPILER      PAIRS: the program built from pairs.c
#
# Ends with 77 when there is no valgrind, no server, or no number for this compiler. A change that is
# worth its instructions writes the new number into `counts`.
set -euo pipefail
pairs=$1
compiler=$2
counts=$(dirname "$0")/counts
scratch=
server=

main()
{
    local program wanted few many count

    command -v valgrind >/dev/null || skip 'there is no valgrind'
    program=${RELOCK_TEST_SERVER:-$(command -v redis-server || command -v valkey-server || true)}
    [[ -n $program ]] || skip 'there is no redis-server or valkey-server'
    wanted=$(awk -v compiler="$compiler $(uname -m)" '$1 " " $2 == compiler { print $3 }' "$counts")

    trap stop EXIT
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/relock-instructions.XXXXXX")
    start_server "$program"
    few=$(instructions 500)
    many=$(instructions 1500)
    count=$(((many - few) / 1000))
    echo "$compiler $(uname -m): $count instructions for lock and unlock, kept: ${wanted:-none}"
    [[ -n $wanted ]] || skip "there is no number for $compiler on $(uname -m) in $counts"
    [[ $((count * 10)) -le $((wanted * 11)) ]] || exit 1
    [[ $((count * 10)) -ge $((wanted * 9)) ]] || echo "less by a tenth: keep the new number"
}

skip()
{
    echo "$1"
    exit 77
}

start_server()
{
    "$1" --port 0 --unixsocket "$scratch/server.sock" --save '' --appendonly no \
        --dir "$scratch" >"$scratch/server.log" &
    server=$!
    for _ in $(seq 200); do
        [[ ! -S $scratch/server.sock ]] || return 0
        sleep 0.05
    done
    echo "the server did not come up" >&2
    exit 1
}

# The instructions of the whole program with so many pairs.
instructions()
{
    valgrind --tool=callgrind --callgrind-out-file=/dev/null --log-file="$scratch/valgrind.log" \
        "$pairs" "unix://$scratch/server.sock" "$1"
    awk '/Collected/ { print $4 }' "$scratch/valgrind.log"
}

stop()
{
    [[ -z $server ]] || { kill "$server" 2>/dev/null && wait "$server" 2>/dev/null; } || true
    [[ -z $scratch ]] || rm -rf "$scratch"
}

main
