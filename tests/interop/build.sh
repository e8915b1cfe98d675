#!/usr/bin/env bash
# Makes the other libraries ready for the tests: a player of each, which is that of its language, and
# the few lines of the library.
#
#     ./tests/interop/build.sh FOLDER           those that each change runs
#     ./tests/interop/build.sh FOLDER --long    all
#     ./tests/interop/build.sh FOLDER NAME...   these
#
# Each goes into a folder of its own below FOLDER, and what is there already is not built again. The
# file `libraries` has the versions. One whose tools are missing, or whose packages cannot be had, is
# skipped, and the script says so; ends with 77 if all are.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
pins=$(cd "$here/../bench/peers" && pwd)
in_time=(timeout --foreground 300) # if a registry does not answer

main()
{
    local library out ready=0

    [[ $# -ge 1 ]] || {
        echo "usage: $0 FOLDER [--long | NAME...]" >&2
        exit 2
    }
    mkdir -p "$1"
    out=$(cd "$1" && pwd)
    shift
    for library in $(chosen "$@"); do
        is_built "$library" "$out/$library" || prepare "$library" "$out/$library"
        [[ ! -e $out/$library/built ]] || ready=$((ready + 1))
    done
    [[ $ready -gt 0 ]] || exit 77
}

chosen()
{
    case ${1:-} in
    '') column fast 1 ;;
    --long) column 'fast long' 1 ;;
    *) printf '%s\n' "$@" ;;
    esac
}

# A column of the row of this library, or of the rows of these speeds.
column()
{
    awk -v of="$1" -v n="$2" '!/^#/ && ($1 == of || index(" " of " ", " " $3 " ")) { print $n }' \
        "$here/libraries"
}

language_of() { column "$1" 2; }

packages_of()
{
    awk -v of="$1" '$1 == of { $1 = $2 = $3 = ""; print }' "$here/libraries"
}

is_built()
{
    [[ -e $2/built && -z $(find "$here/$(language_of "$1")" "$here/libraries" "$here/build.sh" \
        "$pins" -newer "$2/built" -type f) ]]
}

# A mistake in a player is a failure; only tools and packages that are not there are excused.
prepare()
{
    local tool language packages

    language=$(language_of "$1")
    [[ -n $language ]] || {
        echo "no library $1" >&2
        exit 2
    }
    rm -rf "$2"
    for tool in $(tools_of "$language"); do
        command -v "$tool" >/dev/null || {
            echo "skipped $1: there is no $tool"
            return 0
        }
    done
    mkdir -p "$2"
    cd "$2"
    read -ra packages <<<"$(packages_of "$1")"
    "get_$language" "$1" "${packages[@]}" || {
        echo "skipped $1: its packages cannot be had"
        return 0
    }
    "build_$language" "$1"
    chmod +x run
    touch built
    echo "built $1: ${packages[*]}"
}

tools_of()
{
    case $1 in
    python) echo "python3" ;;
    node) echo "npm node" ;;
    go) echo "go" ;;
    java) echo "mvn java javac" ;;
    rust) echo "cargo" ;;
    esac
}

# The program that starts the player.
# shellcheck disable=SC2016 # it is the shell of that script
write_run()
{
    printf '#!/bin/sh\ncd "$(dirname "$0")" && exec %s "$@"\n' "$1" >run
}

# ---- languages, each in the folder of a library ----------------------------------------------------

get_python()
{
    [[ $2 != peers ]] || set -- "$1" -r "$pins/$1/requirements.txt"
    python3 -m venv venv && "${in_time[@]}" venv/bin/pip install --quiet "${@:2}"
}

build_python()
{
    cp "$here/python/player.py" .
    cp "$here/python/$1.py" locks.py
    venv/bin/python -m py_compile player.py locks.py
    write_run 'venv/bin/python player.py'
}

get_node()
{
    if [[ $2 == peers ]]; then
        cp "$pins/$1"/package*.json . && "${in_time[@]}" npm ci --silent --no-audit --no-fund
    else
        echo '{ "private": true }' >package.json
        "${in_time[@]}" npm install --silent --no-audit --no-fund "${@:2}"
    fi
}

build_node()
{
    cp "$here"/node/player*.js .
    cp "$here/node/$1.js" locks.js
    node --check player.js
    node --check locks.js
    write_run 'node player.js'
}

get_go()
{
    if [[ $2 == peers ]]; then
        cp "$pins/$1"/go.{mod,sum} . && "${in_time[@]}" go mod download
    else
        go mod init player 2>/dev/null && "${in_time[@]}" go get "${@:2}" 2>/dev/null
    fi
}

build_go()
{
    cp "$here/go/player.go" .
    cp "$here/go/$1.go" locks.go
    go build -mod=readonly -o player .
    write_run ./player
}

# All have the same packages.
get_java()
{
    cp "$here/java/pom.xml" .
    "${in_time[@]}" mvn -q -B dependency:copy-dependencies -DincludeScope=runtime
}

build_java()
{
    cp "$here/java/Player.java" .
    cp "$here/java/$1.java" Locks.java
    javac -nowarn -cp 'target/dependency/*' -d . Player.java Locks.java
    write_run 'java -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "target/dependency/*:." Player'
}

# As for Java.
get_rust()
{
    mkdir src
    cp "$here/rust/player.rs" src/main.rs
    cp "$here"/rust/Cargo.{toml,lock} .
    "${in_time[@]}" cargo fetch --quiet --locked
}

build_rust()
{
    cp "$here/rust/$1.rs" src/locks.rs
    cargo build --quiet --offline --locked
    write_run target/debug/player
}

main "$@"
