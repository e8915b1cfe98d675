#!/usr/bin/env bash
# Takes the rules of rules/README.md out of the library, one at a time, and sees the test that stands
# beside each fail. Works on a copy of the tree; takes some minutes.
#
#     ./tests/model/rules.sh                    all rules
#     ./tests/model/rules.sh increment no_drift these
#     RUNS=3 ./tests/model/rules.sh             each test must fail three times in three
#     ./tests/model/rules.sh --check            takes nothing out: do patches, rows, runs and tests fit?
set -euo pipefail
cd "$(dirname "$0")/../.."

table='tests/model/rules/README.md'
runs=${RUNS:-1}
at_once=4   # the tests wait more than they compute
limit_s=120 # of one test
work=

main()
{
    local rules rule suite program argument case

    if [[ $* == --check ]]; then
        check
        return
    fi
    rules=$(rows "$@")
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    mkdir "$work/tree" "$work/results"
    tar --exclude='./build*' --exclude=./.git -cf - . | tar -xf - -C "$work/tree"
    build_all "$rules"

    while read -r rule suite program argument case; do
        make_room
        if take_out "$rule" "$suite/$program"; then
            is_guarded "$rule" "$suite/$program" "$argument" "$case" &
        fi
        put_back "$rule"
    done <<<"$rules"
    wait
    summary "$rules"
}

# The rows of the table that are wanted, as: rule suite program argument case. A test of faults that
# is run with an argument is "faults/late no-kill: case"; a case may begin with a kind, "spin: ".
rows()
{
    local wanted=" $* " n=0 rule where

    while IFS='|' read -r _ rule _ _ where _; do
        read -r rule <<<"${rule//\`/}"
        [[ $# -eq 0 || $wanted == *" $rule "* ]] || continue
        [[ $where =~ \`([a-z]+)/([a-z_]+)\ ?([a-z-]*)\`:\ \`(([a-z]+:\ )?[a-z_0-9]+)\` ]] || continue
        printf '%s %s %s %s %s\n' "$rule" "${BASH_REMATCH[1]}" \
            "${BASH_REMATCH[2]}$([[ ${BASH_REMATCH[1]} != faults ]] || echo _fault)_test" \
            "${BASH_REMATCH[3]:--}" "${BASH_REMATCH[4]}"
        n=$((n + 1))
    done <"$table"
    if [[ $# -gt 0 && $n -ne $# ]]; then
        echo "$0: not all of these stand in $table: $*" >&2
        exit 2
    fi
}

# What is wrong with the tables and the patches, as far as that can be read.
check()
{
    local wrong

    wrong=$(
        missing 'run of the models without a row' <(runs_of_models) <(runs_of_rows)
        missing 'row with a run that is none' <(runs_of_rows) <(runs_of_models)
        missing 'patch without a row' <(patches) <(rows | cut -d' ' -f1 | sort)
        missing 'row without a patch' <(rows | cut -d' ' -f1 | sort) <(patches)
        missing 'row with a place that its patch does not change' <(places_of_rows) <(places_of_patches)
        missing 'patch of a place that its row does not name' <(places_of_patches) <(places_of_rows)
        tests/model/rules_patch.py --check || true
        untested
    )
    [[ -z $wrong ]] || { echo "$wrong" && return 1; }
}

# What stands in the first of two sorted files and not in the second.
missing()
{
    comm -23 "$2" "$3" | sed "s|^|$1: |"
}

# But for those of the lanes, see the table of what else there is; and of the line in a cluster, whose
# rules have rows without a run.
runs_of_models()
{
    awk '$1 !~ /^(#|(lane|cluster_line)$)/ && $2 ~ /^bad\./ { print $1 ": " $2 }' tests/model/runs | sort
}

# One in a row, and often one in many rows.
runs_of_rows()
{
    awk -F ' [|] ' '/^[|]/ && $2 ~ /^[a-z_]+: bad\./ { print $2 }' "$table" | sort -u
}

patches()
{
    find tests/model/rules -name '*.patch' -printf '%f\n' | sed 's/\.patch$//' | sort
}

# The third column of the tables, a name in a line: "rule: name".
places_of_rows()
{
    awk -F '|' '/^[|] `/ {
        rule = $2
        gsub(/[ `]/, "", rule)
        n = split($4, names, /[ ,]+/)
        for (i = 1; i <= n; i++)
            if (names[i] != "")
                print rule ": " names[i]
    }' "$table" | sort
}

places_of_patches()
{
    tests/model/rules_patch.py --places | sort
}

untested()
{
    local suite program case file

    while read -r _ suite program _ case; do
        program=${program/_fault/}.c
        file=$(find "tests/$suite" -name "$program")
        grep -qs "^static void ${case#*: }(void \*\*state)" "$file" || echo "no test in $suite/$program: $case"
    done < <(rows) | sort -u
}

# Only what is needed for these rules.
build_all()
{
    local programs

    mapfile -t programs < <(awk '{ print $2 "/" $3 }' <<<"$1" | sort -u)
    if ! meson setup --buildtype=debug -Dexamples=false "$work/build" "$work/tree" >"$work/log" 2>&1 ||
        ! ninja -C "$work/build" "${programs[@]/#/tests/}" >>"$work/log" 2>&1; then
        tail -n 20 "$work/log" >&2
        echo "$0: it does not build as it is" >&2
        exit 1
    fi
    snapshot whole "${programs[@]}"
}

# What a test needs to run, kept as it is now: the library and the programs that link it.
snapshot()
{
    local program

    mkdir -p "$work/run/$1/lib"
    cp -a "$work"/build/lib/librelock.so* "$work/run/$1/lib"
    for program in "${@:2}"; do
        mkdir -p "$work/run/$1/tests/${program%/*}"
        cp "$work/build/tests/$program" "$work/run/$1/tests/$program"
    done
}

take_out()
{
    local log="$work/log-$1" changed="$work/changed-$1"

    if ! tests/model/rules_patch.py "$work/tree" "$1" >"$changed"; then
        mv "$changed" "$log"
        : >"$changed"
        result "$1" 'NOT GUARDED: its patch does not apply any more'
    elif ! ninja -C "$work/build" "tests/$2" >"$log" 2>&1; then
        result "$1" 'NOT GUARDED: without it nothing builds'
    else
        snapshot "$1" "$2"
        return 0
    fi
    tail -n 5 "$log" >&2
    return 1
}

put_back()
{
    local file

    while read -r file; do
        cp "$file" "$work/tree/$file"
    done <"$work/changed-$1"
}

make_room()
{
    while [[ $(jobs -rp | wc -l) -ge $at_once ]]; do
        wait -n || true
    done
}

# Green as it is, and red without the rule.
is_guarded()
{
    local rule="$1" program="$2" argument="$3" case="$4" i seen

    seen=$(outcome "$work/run/whole" "$program" "$argument" "$case")
    if [[ $seen != green ]]; then
        result "$rule" "NOT GUARDED: with it $program $case is $seen"
        return
    fi
    for ((i = 0; i < runs; i++)); do
        seen=$(outcome "$work/run/$rule" "$program" "$argument" "$case")
        if [[ $seen != red* ]]; then
            result "$rule" "NOT GUARDED: without it $program $case is $seen"
            return
        fi
    done
    result "$rule" "$seen: $case"
    rm -rf "$work/run/$rule"
}

# One case of a program: green, red, or what else came of it.
outcome()
{
    local log at status=0
    local -x MALLOC_PERTURB_=165 # freed memory is overwritten, as under Meson
    local -x LD_LIBRARY_PATH="$1/lib"

    log=$(mktemp "$work/out.XXXXXX")
    [[ $3 != - ]] || set -- "$1" "$2" '' "$4"
    # shellcheck disable=SC2086 # no argument is none, not an empty one
    RELOCK_TEST_ONLY=$4 timeout "$limit_s" "$1/tests/$2" $3 >"$log" 2>&1 || status=$?
    if [[ $status -eq 0 ]] && grep -q "  OK \] $4\$" "$log"; then
        echo green
    elif grep -qE "(FAILED  |ERROR   )\] $4\$" "$log"; then
        at=$(grep -om1 'tests/[a-z_/]*\.c:[0-9]*' "$log" | head -n 1)
        echo "red at ${at:-?}"
    elif [[ $status -ge 124 ]] && grep '^\[ RUN ' "$log" | tail -n 1 | grep -q " $4\$"; then
        echo "red (ends with $status)"
    else
        echo "neither green nor red, the program ends with $status"
    fi
    rm -f "$log"
}

result()
{
    printf '%-34s %s\n' "$1" "$2" | tee "$work/results/$1"
}

summary()
{
    local n bad

    n=$(wc -l <<<"$1")
    bad=$((n - $(cat "$work"/results/* | grep -vc 'NOT GUARDED')))
    echo "$n rules, $bad not guarded"
    [[ $bad -eq 0 ]]
}

main "$@"
