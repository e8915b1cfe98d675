#!/usr/bin/env bash
# Checks the models of this folder with spin, as the table `runs` says: a line for each run.
#
#     tests/model/run.sh                    the short ones
#     tests/model/run.sh --long             all
#     tests/model/run.sh --half             one half of the short ones, the other after the next commit
#     tests/model/run.sh wait good.reset    those whose model or name this is, long or short
#     tests/model/run.sh --trail NAME       shows how a run fails
#
# -j N   so many at a time; as many as there are processors if not said
#
# Ends with 0 when each run came out as the table says, 77 when spin or a compiler is missing.
set -euo pipefail
cd "$(dirname "$0")"

memory_mb=1500 # for each run; one that needs more has failed
depth=500000   # as well
seconds=900

main()
{
    local jobs wanted=() long=no half=no trail=no work

    jobs=$(nproc)
    while [[ $# -gt 0 ]]; do
        case $1 in
        --long) long=yes ;;
        --half) half=yes ;;
        --trail) trail=yes ;;
        -j) jobs=$2 && shift ;;
        -*) usage ;;
        *) wanted+=("$1") ;;
        esac
        shift
    done
    needs spin
    needs gcc
    quick=tcc # most short runs end before gcc would
    command -v tcc >/dev/null || quick='gcc -O0'

    work=$(mktemp -d)
    # shellcheck disable=SC2064 # what it is now
    trap "rm -rf '$work'" EXIT
    chosen "$long" "${wanted[@]}" | if [[ $half == yes ]]; then ../run/half.py first; else cat; fi \
        >"$work/chosen"
    [[ -s $work/chosen ]] || { echo "there is no such run" >&2 && exit 2; }
    export -f run_one build judge
    export work memory_mb depth seconds trail quick
    # shellcheck disable=SC2016 # expands there, into words
    xargs -d '\n' -n 1 -P "$jobs" bash -euo pipefail -c 'run_one $1' _ <"$work/chosen" || true
    summary
}

# The comment at the top.
usage()
{
    sed -n '2,/^set/ { s/^# \{0,1\}//p }' run.sh
    exit 2
}

needs()
{
    command -v "$1" >/dev/null || { echo "there is no $1" && exit 77; }
}

# The lines of the table that are to be run, without what is said of them.
chosen()
{
    local long=$1 line model name outcome when flags word
    shift

    while read -r line; do
        read -r model name outcome when flags <<<"${line%%#*}"
        [[ -n $model ]] || continue
        if [[ $# -eq 0 ]]; then
            [[ $when == long && $long == no ]] || echo "$model $name $outcome $when $flags"
            continue
        fi
        for word in "$@"; do
            [[ $word != "$model" && $word != "$name" ]] || echo "$model $name $outcome $when $flags"
        done
    done <runs
}

# model, name, outcome, when, flags: one word each. In a shell of its own.
run_one()
{
    local model=$1 name=$2 outcome=$3 when=$4 began=$SECONDS result=FAILED what states
    local folder=$work/$model.$name
    shift 4

    mkdir "$folder"
    cp "$model.pml" "$folder"
    cd "$folder"
    if what=$(build "$model" "$outcome" "$when" "$@"); then
        what=$(judge "$outcome")
        [[ $what != "$outcome" ]] || result=ok
    fi
    states=$(awk '/states, stored/ { print $1; exit }' pan.out 2>/dev/null || true)
    printf '%-6s  %-7s %-30s %10s states %4d s  %s\n' "$result" "$model" "$name" "${states:--}" \
        $((SECONDS - began)) "$what"
    echo "$result" >>"$work/results"
    if [[ $trail == yes && -f $model.pml.trail ]]; then
        spin -t -p -g "$@" "$model.pml"
    fi
    cd ..
    rm -rf "$folder"
}

# Makes and runs pan; says what was in the way.
build()
{
    local model=$1 outcome=$2 when=$3 flags=(-DSAFETY) options=() compiler=$quick
    shift 3

    if [[ $when != short ]]; then
        compiler='gcc -O2'
        flags+=(-DCOLLAPSE) # half of the memory, and half as much time again
    fi
    case $outcome in
    fair | cycle) flags=("${flags[@]/-DSAFETY/-DNFAIR=8}") options=(-a -f -N turn) ;;
    esac
    if ! spin -a "$@" "$model.pml" >spin.out 2>&1; then
        echo "spin: $(grep -m 1 -i error spin.out)"
        return 1
    fi
    # shellcheck disable=SC2086 # words
    if ! $compiler -w "${flags[@]}" -DVECTORSZ=2048 -DMEMLIM="$memory_mb" \
        -o pan pan.c 2>compiler.out; then
        echo "$compiler: $(head -n 1 compiler.out)"
        return 1
    fi
    timeout "$seconds" ./pan -m"$depth" "${options[@]}" >pan.out 2>&1 || true
}

# What came of it, in the words of the table, or why nothing did.
judge()
{
    local clean=clean

    [[ $1 != fair ]] || clean=fair
    if grep -q '^pan:1: assertion violated' pan.out; then
        echo assert
    elif grep -q '^pan:1: invalid end state' pan.out; then
        echo stuck
    elif grep -q '^pan:1: acceptance cycle' pan.out; then
        echo cycle
    elif grep -qE 'max search depth too small|out of memory|reached -DMEMLIM' pan.out; then
        echo "not searched to the end: $(grep -m 1 -oE 'depth too small|memory|MEMLIM' pan.out)"
    elif grep -q 'errors: 0' pan.out; then
        echo "$clean"
    else
        echo "not searched to the end in $seconds s"
    fi
}

summary()
{
    awk '{ n[$1]++ } END {
        printf "%d as they should be, %d not\n", n["ok"], NR - n["ok"]
        exit NR - n["ok"] > 0 || NR == 0
    }' "$work/results"
}

main "$@"
