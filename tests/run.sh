#!/usr/bin/env bash
# Installs what the tests need, builds the library and runs the tests.
#
#     ./tests/run.sh                  quick: one build, all tests that need only a server
#     ./tests/run.sh all              all steps, as for each change
#     ./tests/run.sh all --long       all steps in their long forms, and those only for this
#     ./tests/run.sh asan format      these steps; --long is their long form
#
# A step runs the suites that can find more than the gcc build: tests/meson.build has the suites
# and the marks. In its long form a step runs all suites. `all` divides the tests of the library between
# the sanitizers, chaos between gcc and tsan, and the unit tests between clang and valgrind, and between
# newest and oldest. valgrind runs a half of its other tests, tidy of the files, model of the short runs,
# and fuzz of the fuzzers.
# The halves change places with each commit (tests/run/half.py). tidy also checks the files that the commit
# changes, and model runs all if it changes tests/model.
#
# Builds and logs are below build-tests/. The last lines list the skipped tests with the reasons, the
# unsteady tests, the failures and the counts: each test of each variant, and each check as one.
#
# A test that fails by a time limit alone runs again at the end, twice, by itself; one with nothing but
# a wrong result five times (tests/failures.py). If it passes each time, it is unsteady: neither passed
# nor failed. More than three, or more than one with a wrong result, fail the whole.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/packages.sh
source tests/run/variants.sh
source tests/run/checks.sh
source tests/run/report.sh

out='build-tests'
export CCACHE_NOHASHDIR=yes # the folder of the clone is in no file but in debug information
long=no
halves=no
background=

main()
{
    local steps=' ' step groups

    for step in "$@"; do
        case $step in
        --long) long=yes ;;
        all) steps+="$variants $checks " ;;
        *) steps+="$step " ;;
        esac
    done
    if [[ $steps == ' ' ]]; then
        steps=' gcc '
    fi
    [[ " $* " != *' all '* || $long == no ]] || steps+="$long_variants $long_checks "
    [[ " $* " != *' all '* || $long == yes ]] || halves=yes
    for step in $steps; do
        if [[ " $variants $long_variants $checks $long_checks " != *" $step "* ]]; then
            echo "$0: no step $step; there are: all $variants $long_variants $checks $long_checks" >&2
            exit 2
        fi
    done

    groups=$(for step in $steps; do packages_for "$step"; done)
    # shellcheck disable=SC2086 # words
    relock_packages build redis tests $groups
    mkdir -p "$out/logs"
    rm -f "$out"/*.built "$out"/*.failed "$out/pages.passed"
    : >"$out/results" # counts: "PASSED FAILED SKIPPED", a line for each step
    : >"$out/failures"
    : >"$out/skipped" # step, reason and test, separated by tabs
    : >"$out/again"   # tests that are to run again
    : >"$out/unsteady"
    trap stop_background EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM

    set -m # a separate process group, which can be stopped as one
    build_and_check "$steps" </dev/null &
    background=$!
    set +m
    for step in $variants $long_variants; do
        [[ $steps != *" $step "* ]] || test_variant "$step"
    done
    wait "$background"
    background=
    summary
}

build_and_check()
{
    local busy step first=yes # no test waits for the processors before the first build has ended

    for step in $variants $long_variants; do
        if [[ $1 == *" $step "* ]]; then
            if ({ [[ $first == yes ]] || let_tests_go_first; } && build "$step") \
                >"$out/logs/$step-build.log" 2>&1; then
                touch "$out/$step.built"
            else
                touch "$out/$step.failed"
            fi
            first=no
        fi
    done
    # shellcheck disable=SC2086 # words
    run_checks "$1" $busy_checks $long_checks &
    busy=$!
    # shellcheck disable=SC2086 # words
    run_checks "$1" $quiet_checks
    wait "$busy"
}

# Those of the named checks that are among the steps.
run_checks()
{
    local name

    for name in "${@:2}"; do
        [[ $1 != *" $name "* ]] || check "$name"
    done
}

# For this shell and what it starts. A larger value would stop them where others keep the machine busy.
let_tests_go_first()
{
    renice -n 5 "$BASHPID" >/dev/null || true
}

# The groups of tools/packages.sh that this step needs in addition.
packages_for()
{
    case $1 in
    clang | valgrind | format | tidy | shellcheck | model) echo "$1" ;;
    consumer | install | debian | site | abi | pages) echo "$1" ;;
    fuzz) echo clang fuzz ;;
    proxies | i386 | arm64 | s390x | musl) echo "$1" ;;
    esac
}

stop_background()
{
    trap '' INT TERM
    [[ -z $background ]] || kill -- "-$background" 2>/dev/null || true
}

main "$@"
