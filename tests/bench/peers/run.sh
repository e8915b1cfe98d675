#!/usr/bin/env bash
# Measures relock beside the locks of other clients of Redis: README.md says how and what.
#
#     ./tests/bench/peers/run.sh [--seconds S] [--rounds N] [--json FILE]
#     ./tests/bench/peers/run.sh --renewals LOCKS [--rounds N]
#     ./tests/bench/peers/run.sh --neighbour SECONDS [--rounds N] [--against PROGRAM]
#
# In each round every peer runs once, one after the other, against one private Redis or Valkey on a
# loopback port. Prints the medians of the rounds as a table, and as JSON into FILE or below it.
#
# Builds into build-peers/. A peer whose tools are missing, or whose packages cannot be had, is
# skipped. The server is that of RELOCK_TEST_SERVER, else redis-server or valkey-server. Ends with
# 77 when there is none.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../../.." && pwd)
out=$top/build-peers

all_peers='relock redisson redis-py redsync node-redlock'
limit_s=600 # for one peer in one round; the waits of some are long, but they end

seconds=2
rounds=3
json=
renewals= # of so many locks, by those peers that renew them
neighbour= # so many seconds of each run
against=   # a relock-peer of another build
peers=()
scratch=
server=
port=
running=

main()
{
    local program peer round

    options "$@"
    program=${RELOCK_TEST_SERVER:-$(command -v redis-server || command -v valkey-server)} || {
        echo "there is no redis-server or valkey-server" >&2
        exit 77
    }
    trap stop EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    scratch=$(mktemp -d "${TMPDIR:-/tmp}/relock-peers.XXXXXX")
    [[ -z $renewals ]] || all_peers='relock redisson'
    [[ -z $neighbour ]] || all_peers='relock redis-py'
    for peer in $all_peers; do
        prepare "$peer"
    done

    start_server "$program"
    if [[ -n $renewals ]]; then
        measure_renewals
        return
    fi
    if [[ -n $neighbour ]]; then
        measure_neighbour
        return
    fi
    for ((round = 1; round <= rounds; round++)); do
        for peer in "${peers[@]}"; do
            echo "round $round of $rounds: $peer" >&2
            measure "$peer"
        done
    done
    python3 "$here/report.py" "$scratch/results" ${json:+"$json"}
}

options()
{
    while [[ $# -gt 0 ]]; do
        case $1 in
        --seconds) seconds=${2-} ;;
        --rounds) rounds=${2-} ;;
        --json) json=${2-} ;;
        --renewals) renewals=${2-} ;;
        --neighbour) neighbour=${2-} ;;
        --against) against=${2-} ;;
        *) usage ;;
        esac
        shift 2 || usage
    done
    [[ $rounds =~ ^[1-9][0-9]*$ && $seconds =~ ^[0-9.]+$ ]] || usage
    [[ -z $renewals || $renewals =~ ^[1-9][0-9]*$ ]] || usage
    [[ -z $neighbour || $neighbour =~ ^[1-9][0-9]*$ ]] || usage
    [[ -z $against || -n $neighbour ]] || usage
}

usage()
{
    echo "usage: $0 [--seconds S] [--rounds N] [--json FILE] [--renewals LOCKS]" >&2
    echo "       $0 --neighbour SECONDS [--rounds N] [--against PROGRAM]" >&2
    exit 2
}

# ---- the peers ----------------------------------------------------------------------------------

# Per peer: the tools that it needs, how it is made ready, and the command that runs it.
tools_of()
{
    case $1 in
    relock) echo "meson cc pkg-config" ;;
    redisson) echo "mvn java" ;;
    redis-py) echo "python3" ;;
    redsync) echo "go" ;;
    node-redlock) echo "npm node" ;;
    esac
}

make_ready()
{
    case $1 in
    relock)
        [[ -f $out/relock-lib/build.ninja ]] ||
            meson setup "$out/relock-lib" "$top" -Dbuildtype=release -Dtests=disabled \
                -Dexamples=false --prefix="$out/relock-installed" --libdir=lib || return
        meson install -C "$out/relock-lib" || return
        [[ -f $out/relock/build.ninja ]] ||
            PKG_CONFIG_PATH=$out/relock-installed/lib/pkgconfig \
                meson setup "$out/relock" "$here/relock" || return
        meson compile -C "$out/relock"
        ;;
    redisson)
        rm -rf "$out/redisson" && cp -R "$here/redisson" "$out/redisson" || return
        mvn -q -B -f "$out/redisson/pom.xml" compile dependency:copy-dependencies \
            -DincludeScope=runtime
        ;;
    redis-py)
        python3 -m venv "$out/redis-py" &&
            "$out/redis-py/bin/pip" install -r "$here/redis-py/requirements.txt"
        ;;
    redsync)
        (cd "$here/redsync" && go build -mod=readonly -o "$out/redsync/peer" .)
        ;;
    node-redlock)
        mkdir -p "$out/node-redlock" && cp "$here"/node-redlock/* "$out/node-redlock" &&
            npm ci --prefix "$out/node-redlock" --no-audit --no-fund
        ;;
    esac
}

set_command()
{
    case $1 in
    relock) command=("$out/relock/relock-peer") ;;
    redisson)
        command=(java -cp "$out/redisson/target/classes:$out/redisson/target/dependency/*" Peer)
        ;;
    redis-py) command=("$out/redis-py/bin/python" "$here/redis-py/peer.py") ;;
    redsync) command=("$out/redsync/peer") ;;
    node-redlock) command=(node "$out/node-redlock/peer.js") ;;
    esac
}

prepare()
{
    local tool log=$out/$1.log

    for tool in $(tools_of "$1"); do
        command -v "$tool" >/dev/null || {
            echo "$1 is skipped: there is no $tool" >&2
            return 0
        }
    done
    mkdir -p "$out"
    echo "preparing $1" >&2
    set -m # a process group of its own, to be stopped as one
    make_ready "$1" </dev/null >"$log" 2>&1 &
    running=$!
    set +m
    if wait "$running"; then
        peers+=("$1")
    elif [[ $1 == relock ]]; then
        echo "relock cannot be built: $log" >&2
        exit 1
    else
        echo "$1 is skipped: it or its packages cannot be had, see $log" >&2
    fi
    running=
}

measure()
{
    local command

    set_command "$1"
    set -m
    timeout --kill-after=5 "$limit_s" "${command[@]}" "redis://127.0.0.1:$port" "$seconds" \
        </dev/null >>"$scratch/results" &
    running=$!
    set +m
    wait "$running" || {
        running=
        echo "$1 failed" >&2
        exit 1
    }
    running=
}

measure_renewals()
{
    local command peer words=()

    for peer in "${peers[@]}"; do
        set_command "$peer"
        words+=(${words[0]:+--} "$peer" "${command[@]}" "redis://127.0.0.1:$port")
    done
    set -m
    python3 "$here/renewals.py" "$scratch/server.sock" "$renewals" "$rounds" "${words[@]}" &
    running=$!
    set +m
    wait "$running"
    running=
}

measure_neighbour()
{
    [[ ${#peers[@]} -eq 2 ]] || {
        echo "this needs relock and redis-py" >&2
        exit 1
    }
    set -m
    "$out/redis-py/bin/python" "$here/neighbour.py" "redis://127.0.0.1:$port" "$neighbour" \
        "$rounds" "$out/relock/relock-peer" ${against:+"$against"} &
    running=$!
    set +m
    wait "$running"
    running=
}

# ---- the server ---------------------------------------------------------------------------------

# On another port when that one is taken. Its socket says that it is up; the peers use TCP.
start_server()
{
    local i try

    for ((try = 0; try < 5; try++)); do
        port=$((20000 + RANDOM % 10000))
        "$1" --bind 127.0.0.1 --port "$port" --unixsocket "$scratch/server.sock" --save '' \
            --appendonly no --daemonize no --dir "$scratch" --logfile "$scratch/server.log" \
            </dev/null >/dev/null &
        server=$!
        for ((i = 0; i < 100; i++)); do
            [[ ! -S $scratch/server.sock ]] || return 0
            kill -0 "$server" 2>/dev/null || break
            sleep 0.1
        done
        end "$server"
    done
    echo "$1 does not come up:" >&2
    cat "$scratch/server.log" >&2
    exit 1
}

# A process, or with a minus a process group.
end()
{
    kill -- "$1" 2>/dev/null || true
    wait "${1#-}" || true
}

stop()
{
    local result=$?

    trap '' HUP INT TERM
    [[ -z $running ]] || end "-$running"
    [[ -z $server ]] || end "$server"
    [[ -z $scratch ]] || rm -rf "$scratch"
    exit "$result"
}

main "$@"
