#!/usr/bin/env bash
# Four processes of the quick start on one lock: two of this machine's and two of another one's.
#
#     ./tests/machines/quickstart.sh QUICKSTART COMMAND...
#
# QUICKSTART is the program of this machine, and COMMAND starts that of the other. Each process holds
# the lock for one second. Ends with 77 if there is no server, and fails if a process takes two minutes.
set -euo pipefail

scratch=$(mktemp -d)
processes=()

stop()
{
    kill "${processes[@]}" 2>/dev/null || true
    rm -rf "$scratch"
}

main()
{
    local server here=$1 i process began=$SECONDS url=unix://$scratch/socket
    local in_time=(timeout --foreground 120)

    shift
    trap stop EXIT
    server=${RELOCK_TEST_SERVER:-$(command -v redis-server || command -v valkey-server)} ||
        { echo 'there is no Redis or Valkey' && exit 77; }
    "$server" --port 0 --unixsocket "$scratch/socket" --save '' --dir "$scratch" >/dev/null &
    processes+=($!)
    for ((i = 0; i < 100; i++)); do
        [[ ! -S $scratch/socket ]] || break
        sleep 0.1
    done
    for i in 1 2; do
        "${in_time[@]}" "$here" "$url" >"$scratch/here.$i" &
        processes+=($!)
        "${in_time[@]}" "$@" "$url" >"$scratch/there.$i" &
        processes+=($!)
    done
    for process in "${processes[@]:1}"; do
        wait "$process"
    done
    cat "$scratch"/*here.?
    [[ $(cat "$scratch"/*here.? | grep -c 'only this process works on order 42 now') == 4 ]]
    echo "took $((SECONDS - began)) s"
    ((SECONDS - began >= 3)) # four holds of a second, one after the other
}

main "$@"
