#!/usr/bin/env bash
# Makes the other libraries ready for the tests: redis-py in a venv of Python, node-redlock by npm,
# redsync by Go.
#
#     ./tests/interop/build.sh FOLDER
#
# Each goes into a folder of its own below FOLDER, and what is there already is not built again. The
# versions are those that tests/bench/peers measures, pinned there. One whose tools are missing, or
# whose packages cannot be had, is skipped, and the script says so; ends with 77 if all are.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
pins=$(cd "$here/../bench/peers" && pwd)
all='redis-py node-redlock redsync'

main()
{
    local library out ready=0

    [[ $# -eq 1 ]] || {
        echo "usage: $0 FOLDER" >&2
        exit 2
    }
    mkdir -p "$1"
    out=$(cd "$1" && pwd)
    for library in $all; do
        is_built "$library" "$out/$library" || prepare "$library" "$out/$library"
        [[ ! -e $out/$library/built ]] || ready=$((ready + 1))
    done
    [[ $ready -gt 0 ]] || exit 77
}

is_built()
{
    [[ -e $2/built && -z $(find "$here/$1" "$pins/$1" "$here/build.sh" -newer "$2/built" -type f) ]]
}

# A mistake in a player is a failure; only tools and packages that are not there are excused.
prepare()
{
    local tool

    rm -rf "$2"
    for tool in $(tools_of "$1"); do
        command -v "$tool" >/dev/null || {
            echo "skipped $1: there is no $tool"
            return 0
        }
    done
    mkdir -p "$2"
    cd "$2"
    get "$1" || {
        echo "skipped $1: its packages cannot be had"
        return 0
    }
    build "$1"
    touch built
    echo "built $1"
}

tools_of()
{
    case $1 in
    redis-py) echo "python3" ;;
    node-redlock) echo "npm node" ;;
    redsync) echo "go" ;;
    esac
}

# In the folder. If a registry does not answer in time, this language is left out.
get()
{
    local in_time=(timeout --foreground 120)

    case $1 in
    redis-py)
        python3 -m venv venv &&
            "${in_time[@]}" venv/bin/pip install --quiet -r "$pins/redis-py/requirements.txt"
        ;;
    node-redlock)
        cp "$pins"/node-redlock/package*.json . &&
            "${in_time[@]}" npm ci --silent --no-audit --no-fund
        ;;
    redsync)
        cp "$pins"/redsync/go.{mod,sum} . && "${in_time[@]}" go mod download
        ;;
    esac
}

build()
{
    cp "$here/$1"/player.* .
    case $1 in
    redis-py) venv/bin/python -m py_compile player.py ;;
    node-redlock) node --check player.js ;;
    redsync) go build -mod=readonly -o player . ;;
    esac
}

main "$@"
