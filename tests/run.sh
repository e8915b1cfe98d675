#!/usr/bin/env bash
# Installs what the tests need, builds the library and runs the tests.
#
#     ./tests/run.sh                  quick: one build, all tests that need only a server
#     ./tests/run.sh all              all steps, as for each change
#     ./tests/run.sh all --long       all steps in their long forms, and those only for this
#     ./tests/run.sh asan format      these steps; --long is their long form
#
# A step runs the suites that can find more than the gcc build: tests/meson.build has the suites
# and the marks. In its long form a step runs all suites.
#
# Builds and logs are below build-tests/. The last lines list the failures and the counts: each test
# of each variant, and each check as one.
set -euo pipefail
cd "$(dirname "$0")/.."
source tools/packages.sh

# The tests wait more than they compute, so the next variant is built in the background meanwhile.
# The variants that fetch packages come last: a slow network then delays no other.
variants='gcc tls no-tls asan tsan clang static valgrind newest oldest redisson interop'
checks='format tidy shellcheck unity model install consumer examples fuzz'
long_variants='servers' # only if named, or with all --long
long_checks='rules'     # the same

out='build-tests'
at_once=8 # tests
long=no
llvm=14 # version of clang-format and clang-tidy; other versions find other faults
background=
chosen=()

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
    rm -f "$out"/*.built "$out"/*.failed
    : >"$out/results"
    : >"$out/failures"
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
    local step

    renice -n 15 "$BASHPID" >/dev/null || true
    for step in $variants $long_variants; do
        if [[ $1 == *" $step "* ]]; then
            if build "$step" >"$out/logs/$step-build.log" 2>&1; then
                touch "$out/$step.built"
            else
                touch "$out/$step.failed"
            fi
        fi
    done
    for step in $checks $long_checks; do
        [[ $1 != *" $step "* ]] || check "$step"
    done
}

# The groups of tools/packages.sh that this step needs in addition.
packages_for()
{
    case $1 in
    clang | valgrind | format | tidy | shellcheck | model | consumer) echo "$1" ;;
    fuzz) echo clang fuzz ;;
    esac
}

stop_background()
{
    trap '' INT TERM
    [[ -z $background ]] || kill -- "-$background" 2>/dev/null || true
}

# ---- variants -----------------------------------------------------------------------------------

build()
{
    case $1 in
    gcc | tls | valgrind) build_with gcc gcc ;;
    clang) build_with clang clang -Dbuildtype=release -Db_ndebug=true -Db_lto=true ;;
    asan) build_with gcc asan -Db_sanitize=address,undefined ;;
    tsan) build_with gcc tsan -Db_sanitize=thread ;;
    static) build_with gcc static -Ddefault_library=static ;;
    no-tls) build_with gcc no-tls -Dtls=disabled ;;
    redisson | interop)
        build_with gcc gcc && { "tests/$1/build.sh" "$out/$1" || [[ $? == 77 ]]; }
        ;;
    newest | oldest) build_version "$1" ;;
    servers) build_with gcc gcc && tests/versions/servers.sh "$out/servers" ;;
    esac
}

build_with()
{
    local folder=$out/$2

    if [[ ! -f $folder/build.ninja ]]; then
        CC=$1 meson setup "$folder" -Dwerror=true -Dtests=enabled \
            --prefix="$PWD/$folder-installed" --libdir=lib "${@:3}" || return
    fi
    meson compile -C "$folder"
}

# With another hiredis, and a server of the same age.
build_version()
{
    local prefix=$out/versions/$1 result=0

    mkdir -p "$out/versions"
    tests/versions/build.sh "$1" "$prefix" || result=$?
    [[ $result != 77 ]] || return 0
    [[ $result == 0 ]] || return
    # Meson caches what it finds out about hiredis.
    [[ $out/$1/build.ninja -nt $prefix/built ]] || rm -rf "${out:?}/$1"
    PKG_CONFIG_PATH=$PWD/$prefix/hiredis/lib/pkgconfig build_with gcc "$1" -Dexamples=false
}

test_variant()
{
    # An old sanitizer cannot handle the address randomisation of today's kernels.
    local still=() without=(--no-suite tree --no-suite redisson --no-suite interop)

    [[ $long == yes ]] || without+=(--no-suite script --no-suite bench)

    until [[ -e $out/$1.built || -e $out/$1.failed ]] || ! kill -0 "$background" 2>/dev/null; do
        sleep 0.2
    done
    if [[ ! -e $out/$1.built ]]; then
        report failed "$1" "$out/logs/$1-build.log"
        return
    fi

    ! setarch "$(uname -m)" -R true 2>/dev/null || still=(--wrapper "setarch $(uname -m) -R")
    case $1 in
    gcc) run_tests gcc gcc --no-suite redisson --no-suite interop ;;
    tls)
        choose 'wire' 'server faults'
        RELOCK_TEST_TLS=1 run_tests tls gcc "${chosen[@]}" --no-suite unit --no-suite tree \
            --no-suite script
        ;;
    redisson)
        if [[ -e $out/redisson/newest/built ]]; then
            RELOCK_TEST_REDISSON=$PWD/$out/redisson run_tests redisson gcc --suite redisson
        else
            report skipped redisson "$out/logs/redisson-build.log"
        fi
        ;;
    interop)
        grep '^skipped' "$out/logs/interop-build.log" || true # one line per library
        RELOCK_TEST_INTEROP=$PWD/$out/interop run_tests interop gcc --suite interop
        ;;
    newest | oldest) test_version "$1" ;;
    servers) test_servers ;;
    clang)
        choose 'unit wire stress' 'unit server faults stress chaos bench'
        run_tests clang clang "${chosen[@]}"
        ;;
    static | no-tls) run_tests "$1" "$1" --suite unit ;;
    asan)
        export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1
        export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
        # What chaos finds are schedules, and tsan has more of them.
        [[ $long == yes ]] || without+=(--no-suite chaos)
        RELOCK_TEST_SLOW=2 run_tests asan asan "${without[@]}" --timeout-multiplier 3 "${still[@]}"
        ;;
    tsan)
        # After fork() the child still counts the threads of its parent.
        export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:report_thread_leaks=0
        RELOCK_TEST_SLOW=2 run_tests tsan tsan "${without[@]}" --timeout-multiplier 5 "${still[@]}"
        ;;
    valgrind)
        choose 'unit wire' 'unit server faults'
        RELOCK_TEST_SLOW=2 run_tests valgrind gcc "${chosen[@]}" \
            --no-suite tree --no-suite heavy --timeout-multiplier 10 --num-processes 4 \
            --wrapper "valgrind --quiet --error-exitcode=99
            --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite
            --num-callers=30 --suppressions='$PWD/tests/valgrind.supp' --trace-children=no"
        ;;
    esac
}

test_version()
{
    local prefix=$PWD/$out/versions/$1

    grep '^skipped' "$out/logs/$1-build.log" || true
    if [[ ! -e $prefix/hiredis ]]; then
        report skipped "$1" "$out/logs/$1-build.log"
        return
    fi
    (
        [[ ! -e $prefix/server ]] || export RELOCK_TEST_SERVER=$prefix/server
        choose 'unit wire script' 'unit server faults'
        run_tests "$1" "$1" "${chosen[@]}" --no-suite tree
    )
}

# With each further server that can be had.
test_servers()
{
    local server n=0

    grep '^skipped' "$out/logs/servers-build.log" || true
    choose 'wire script' 'server faults'
    for server in "$out"/servers/*[0-9]; do
        [[ -x $server ]] || continue
        RELOCK_TEST_SERVER=$PWD/$server run_tests "${server##*/}" gcc "${chosen[@]}" \
            --no-suite unit --no-suite tree
        n=$((n + 1))
    done
    [[ $n -gt 0 ]] || report skipped servers "$out/logs/servers-build.log"
}

# Sets `chosen` to the suites of a step, or of its long form, as arguments of meson test.
choose()
{
    local suite

    [[ $long == no ]] || shift
    chosen=()
    for suite in $1; do
        chosen+=(--suite "$suite")
    done
}

# name, folder, arguments of meson test
run_tests()
{
    local log=$out/logs/$1.log json=$out/$2/meson-logs/$1 began=$SECONDS result=ok

    rm -f "$json"*.json # Meson appends the name of the wrapper
    meson test -C "$out/$2" --no-rebuild --num-processes $at_once --print-errorlogs \
        --logbase "$1" "${@:3}" >"$log" 2>&1 || result=failed
    report "$result" "$1" "$log" "$began" "$json"*.json
}

# ---- checks -------------------------------------------------------------------------------------

check()
{
    local log=$out/logs/$1.log began=$SECONDS result=0

    "check_$1" >"$log" 2>&1 & # as a separate command, in which `set -e` holds
    wait $! || result=$?
    case $result in
    0) report ok "$1" "$log" "$began" ;;
    77) report skipped "$1" "$log" ;;
    *) report failed "$1" "$log" "$began" ;;
    esac
}

# Skips the check unless there is this command.
needs()
{
    command -v "$1" >/dev/null || { echo "there is no $1" && exit 77; }
}

sources()
{
    find "$@" -name '*.[ch]' -print0
}

check_format()
{
    needs clang-format-$llvm
    sources lib include tests examples tools | xargs -0 clang-format-$llvm --dry-run -Werror
}

check_tidy()
{
    needs clang-tidy-$llvm
    build gcc
    find lib -name '*.c' -print0 | xargs -0 -n 1 -P "$(nproc)" clang-tidy-$llvm --quiet -p "$out/gcc"
}

check_shellcheck()
{
    needs shellcheck
    shellcheck -x tools/*.sh examples/*.sh tests/*.sh tests/*/*.sh tests/*/*/*.sh .ci/run
}

# Do the library and the tests compile if Meson joins files (unity)?
check_unity()
{
    build_with gcc unity -Dunity=on
}

check_model()
{
    if [[ $long == yes ]]; then
        tests/model/run.sh --long
    else
        tests/model/run.sh
    fi
}

check_install()
{
    local variant

    for variant in gcc static no-tls; do
        build "$variant"
        rm -rf "$out/$variant-installed"
        meson install -C "$out/$variant" --no-rebuild
    done
    tests/consumer/installed.sh "$PWD/$out/gcc-installed"
    tests/consumer/installed.sh "$PWD/$out/static-installed" --static
    tests/consumer/installed.sh "$PWD/$out/no-tls-installed"
}

check_consumer()
{
    tests/consumer/run.py
    tests/consumer/reader.py
}

check_examples()
{
    ./examples/run.sh
}

check_fuzz()
{
    local seconds=30

    [[ $long == no ]] || seconds=600
    tests/fuzz/run.sh "$out/fuzz" $seconds
}

# Removes each rule from the library: is a test red without it?
check_rules()
{
    tests/model/rules.sh
}

# ---- report -------------------------------------------------------------------------------------

# ok, failed or skipped; name; log; beginning; file with one line per test
report()
{
    local passed=0 failed=0 skipped=0 took=$((SECONDS - ${4:-$SECONDS}))

    if [[ -s ${5:-} ]]; then
        passed=$(grep -cE '"result": "(OK|EXPECTEDFAIL)"' "$5" || true)
        skipped=$(grep -c '"result": "SKIP"' "$5" || true)
        failed=$(($(wc -l <"$5") - passed - skipped))
    fi
    case $1 in
    ok) [[ $passed -gt 0 || $skipped -gt 0 ]] || passed=1 ;;
    failed) [[ $failed -gt 0 ]] || failed=1 ;;
    skipped) skipped=1 ;;
    esac
    echo "$passed $failed $skipped" >>"$out/results"

    case $1 in
    ok) echo "ok       $2  $took s, $passed passed, $skipped skipped" ;;
    failed) printf 'FAILED   %s  %d s, %d passed, %d failed, log: %s\n%s\n' \
        "$2" "$took" "$passed" "$failed" "$3" "$(explain "$2" "$3" "${5:-}")" ;;
    skipped) echo "skipped  $2: $(tail -n 1 "$3")" ;;
    esac
}

# Why the step failed; a log may be cut, so this is short. Step, its log, Meson's lines.
explain()
{
    local names=$out/logs/$1.failures

    rm -f "$names"
    [[ ! -s $3 ]] || tests/failures.py "$3" "$names" || true
    if [[ -s $names ]]; then
        sed "s/^/FAILED   $1: /" "$names" >>"$out/failures"
    else
        # If a check continues after a fault, its last lines may be about successes.
        grep -E 'error|Error|ERROR|FAILED' "$2" | head -n 20 | sed 's/^/    /' || true
        tail -n 40 "$2" | sed 's/^/    /'
        echo "FAILED   $1" >>"$out/failures"
    fi
}

summary()
{
    cat "$out/failures"
    awk '{ passed += $1; failed += $2; skipped += $3 }
        END {
            printf "%d passed, %d failed, %d skipped\n", passed, failed, skipped
            exit failed > 0 || passed == 0
        }' "$out/results"
}

main "$@"
