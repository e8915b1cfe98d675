#!/usr/bin/env bash
# Several processes take locks of every kind while a schedule kills and pauses them, breaks their
# connections and restarts the servers; then a checker reads what they wrote down. The schedule, and
# which name has which kind, is drawn from a seed, which is printed first.
#
#     tests/faults/chaos/run.sh [--seed N] [--seconds S] [--processes P] [--threads T]
#     tests/faults/chaos/run.sh --no-watchdog          must fail: the workers ignore their leases
#     tests/faults/chaos/run.sh --red                  red locks on five servers, of which two break
#     tests/faults/chaos/run.sh --red --forget         must fail: three of them forget at once
#     tests/faults/chaos/run.sh --keep                 clients keep locks that nobody uses
#     tests/faults/chaos/run.sh --tls                  with TLS; no network breaks
#     tests/faults/chaos/run.sh --sentinel             one master after the other ends
#     tests/faults/chaos/run.sh --sentinel --min-replicas 0 --expect-two-holders
#                                                      must find two holders: no replica acknowledges
#     tests/faults/chaos/run.sh --cluster              in a cluster; masters fail and slots move
#     tests/faults/chaos/run.sh --hot                  fifty processes want two locks all the time
#     tests/faults/chaos/run.sh --hot --silent         must fail: no release is published
#     tests/faults/chaos/run.sh --hot --cluster        the same in a cluster; their slots move
#     tests/faults/chaos/run.sh --hot --cluster --silent       must fail, too
#
# Builds into build-chaos/, unless RELOCK_CHAOS names a relock-chaos. The server is that of
# RELOCK_TEST_SERVER, else redis-server or valkey-server. Ends with 77 when there is none, and with 1
# when the histories cannot be those of a lock; then it says where they are kept.
set -euo pipefail
top=$(cd "$(dirname "$0")/../../.." && pwd)

if [[ -z ${RELOCK_CHAOS:-} ]]; then
    folder=$top/build-chaos
    {
        [[ -f $folder/build.ninja ]] || meson setup "$folder" "$top" -Dexamples=false
        meson compile -C "$folder" relock-chaos
    } >&2
    RELOCK_CHAOS=$folder/tests/faults/chaos/relock-chaos
fi
exec "$RELOCK_CHAOS" "$@"
