# The variants: how each is built and tested. tests/run.sh sources this file.
#
# shellcheck shell=bash disable=SC2034,SC2154 # shared with tests/run.sh

# The tests wait more than they compute, so the next variant is built in the background meanwhile.
# The variants that fetch packages come last: a slow network then delays no other.
machines='i386 arm64 s390x musl'
variants='gcc tls no-tls asan tsan clang valgrind fleet newest oldest redisson interop'
long_variants="static servers proxies $machines" # only if named, or with all --long

at_once=10 # tests; they wait more than they compute
chosen=()

# A report needs functions and lines, and so the compiler takes half of the time. With UBSan, gcc takes
# numbers for possible that no caller passes.
for_asan=(-Doptimization=1 '-Dc_args=-g1 -Wno-error=format-truncation')
for_tsan=(-Doptimization=1 -Dc_args=-g1)

# Sets `chosen` to the suites of a variant, or of its long form, as arguments of meson test.
choose()
{
    local brief='' whole='' suite

    case $1 in
    asan | tsan)
        choose_for_sanitizer "$1"
        return
        ;;
    gcc)
        chosen=(--no-suite fleet --no-suite redisson --no-suite interop --no-suite proxies)
        choose_half gcc first chaos
        return
        ;;
    tls) brief='wire' whole='server faults' ;;
    clang) brief='unit wire stress' whole='unit server faults stress chaos bench' ;;
    valgrind) brief='unit wire' whole='unit server faults' ;;
    static | no-tls) brief='unit' whole='unit' ;;
    newest | oldest) brief='unit wire script' whole='unit server faults' ;;
    servers) brief='wire script' whole='server faults' ;;
    i386 | arm64 | s390x | musl) brief='unit machine' whole='unit machine' ;;
    esac
    [[ $long == no ]] || brief=$whole
    chosen=(--no-suite tree)
    for suite in $brief; do
        chosen+=(--suite "$suite")
    done
    case $1 in
    clang) choose_half clang first unit ;;
    newest) choose_half newest first unit ;;
    oldest) choose_half oldest second unit ;;
    valgrind) choose_half gcc second unit,server,faults ;; # asan has the first half of the last two
    esac
}

# What `all` runs is divided: a half of the tests for each sanitizer. gcc has the other half of chaos.
choose_for_sanitizer()
{
    local which=first

    chosen=(--no-suite tree --no-suite fleet --no-suite redisson --no-suite interop --no-suite proxies)
    [[ $long == no ]] || return 0
    chosen+=(--no-suite script --no-suite bench --no-suite long)
    # What chaos finds are schedules, and tsan has more of them.
    [[ $1 == tsan ]] || chosen+=(--no-suite chaos)
    [[ $1 == asan ]] || which=second
    choose_half "$1" "$which" server,faults,chaos
}

# Of these suites, `all` chooses only a half. Folder of the build, which half, suites.
choose_half()
{
    local name

    [[ $halves == yes ]] || return 0
    while read -r name; do
        chosen+=("$name")
    done < <(tests/run/half.py "$out/$1" "$2" "$3" "${chosen[@]}")
}

build()
{
    # No other build has objects like these, so the cache need not preprocess the files to find them.
    [[ $1 != asan && $1 != tsan && $1 != clang ]] || export CCACHE_DEPEND=yes
    case $1 in
    gcc | tls | valgrind) build_with gcc gcc ;;
    asan) build_for_tests gcc asan -Db_sanitize=address,undefined "${for_asan[@]}" ;;
    tsan) build_for_tests gcc tsan -Db_sanitize=thread "${for_tsan[@]}" ;;
    clang) build_for_tests clang clang -Dbuildtype=release -Db_ndebug=true -Db_lto=true ;;
    static) build_with gcc static -Ddefault_library=static ;;
    no-tls) build_for_tests gcc no-tls -Dtls=disabled -Dexamples=false ;;
    fleet | redisson | interop)
        local further=()
        [[ $1 != interop || $long == no ]] || further=(--long)
        build_with gcc gcc && { "tests/$1/build.sh" "$out/$1" "${further[@]}" || [[ $? == 77 ]]; }
        ;;
    newest | oldest) build_version "$1" ;;
    servers) build_with gcc gcc && tests/versions/servers.sh "$out/servers" ;;
    proxies) build_with gcc gcc && tests/proxies/build.sh "$out/proxies" ;;
    i386 | arm64 | s390x | musl) build_with gcc gcc && build_machine "$1" ;;
    esac
}

# compiler, folder, options
configure()
{
    local folder=$out/$2

    if [[ ! -f $folder/build.ninja ]]; then
        CC=$(relock_compiler "$1") meson setup "$folder" -Dwerror=true -Dtests=enabled \
            --prefix="$PWD/$folder-installed" --libdir=lib "${@:3}"
    fi
}

build_with()
{
    configure "$@" && meson compile -C "$out/$2"
}

# Builds only what the chosen tests need: Meson does that before it runs them, here as nothing.
build_for_tests()
{
    configure "$@" && choose "$2" && meson test -C "$out/$2" --logbase needed --wrapper true "${chosen[@]}"
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
    PKG_CONFIG_PATH=$PWD/$prefix/hiredis/lib/pkgconfig build_for_tests gcc "$1" -Dexamples=false
}

# For another machine: the chosen tests, and the programs that share locks with this one's.
build_machine()
{
    local folder=$out/machines/$1 result=0 options=()

    tests/machines/build.sh "$1" "$folder" || result=$?
    [[ $result != 77 ]] || return 0
    [[ $result == 0 ]] || return
    # Meson caches what it finds out about the libraries.
    [[ $out/$1/build.ninja -nt $folder/cross.ini ]] || rm -rf "${out:?}/$1"
    [[ $1 != musl ]] || options=(-Dtls=disabled)
    build_for_tests gcc "$1" --cross-file "$folder/cross.ini" "${options[@]}" &&
        meson compile -C "$out/$1" quickstart fleet-worker &&
        write_worker "$PWD/$folder" "$PWD/$out/$1/tests/fleet/fleet-worker"
}

# Without the path in which meson test has this machine's library: musl would load it.
write_worker()
{
    printf '#!/bin/sh\nunset LD_LIBRARY_PATH\nexec "%s" "%s" "$@"\n' "$1/run" "$2" >"$1/worker" &&
        chmod +x "$1/worker"
}

test_variant()
{
    # An old sanitizer cannot handle the address randomisation of today's kernels.
    local still=()

    [[ -e $out/$1.built || -e $out/$1.failed ]] || echo "         $1: it is being built"
    until [[ -e $out/$1.built || -e $out/$1.failed ]] || ! kill -0 "$background" 2>/dev/null; do
        sleep 0.2
    done
    if [[ ! -e $out/$1.built ]]; then
        report failed "$1" "$out/logs/$1-build.log"
        return
    fi

    choose "$1"
    ! setarch "$(uname -m)" -R true 2>/dev/null || still=(--wrapper "setarch $(uname -m) -R")
    case $1 in
    gcc) run_tests gcc gcc "${chosen[@]}" ;;
    tls)
        RELOCK_TEST_TLS=1 run_tests tls gcc "${chosen[@]}" --no-suite unit --no-suite script
        ;;
    fleet)
        if [[ -e $out/fleet/worker ]]; then
            RELOCK_TEST_FLEET=$PWD/$out/fleet run_tests fleet gcc --suite fleet
        else
            report skipped fleet "$out/logs/fleet-build.log"
        fi
        ;;
    redisson)
        if [[ -e $out/redisson/newest/built ]]; then
            RELOCK_TEST_REDISSON=$PWD/$out/redisson run_tests redisson gcc \
                --suite redisson --num-processes 8
        else
            report skipped redisson "$out/logs/redisson-build.log"
        fi
        ;;
    interop)
        local partners=(--no-suite partners)
        [[ $long == no ]] || partners=()
        report_parts interop "$out/logs/interop-build.log"
        RELOCK_TEST_INTEROP=$PWD/$out/interop run_tests interop gcc \
            --suite interop "${partners[@]}" --num-processes 8
        ;;
    newest | oldest) test_version "$1" ;;
    servers) test_servers ;;
    proxies)
        report_parts proxies "$out/logs/proxies-build.log"
        RELOCK_TEST_PROXIES=$PWD/$out/proxies run_tests proxies gcc --suite proxies
        ;;
    i386 | arm64 | s390x | musl) test_machine "$1" ;;
    clang)
        # Whether repeated use grows does not depend on the compiler.
        [[ $long == yes ]] || chosen+=(--no-suite heavy)
        run_tests clang clang "${chosen[@]}"
        ;;
    static | no-tls) run_tests "$1" "$1" "${chosen[@]}" ;;
    asan)
        export ASAN_OPTIONS=detect_leaks=1:detect_stack_use_after_return=1
        export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
        RELOCK_TEST_SLOW=2 run_tests asan asan "${chosen[@]}" --timeout-multiplier 3 "${still[@]}"
        ;;
    tsan)
        # After fork() the child still counts the threads of its parent.
        export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1:report_thread_leaks=0
        RELOCK_TEST_SLOW=2 run_tests tsan tsan "${chosen[@]}" --timeout-multiplier 5 "${still[@]}"
        ;;
    valgrind)
        RELOCK_TEST_SLOW=2 run_tests valgrind gcc "${chosen[@]}" \
            --no-suite heavy --timeout-multiplier 10 --num-processes 4 \
            --wrapper "valgrind --quiet --error-exitcode=99
            --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite
            --num-callers=30 --suppressions='$PWD/lib/relock.supp'
            --suppressions='$PWD/tests/valgrind.supp' --trace-children=no"
        ;;
    esac
}

test_version()
{
    local prefix=$PWD/$out/versions/$1

    if [[ ! -e $prefix/hiredis ]]; then
        report skipped "$1" "$out/logs/$1-build.log"
        return
    fi
    report_parts "$1" "$out/logs/$1-build.log"
    (
        [[ ! -e $prefix/server ]] || export RELOCK_TEST_SERVER=$prefix/server
        run_tests "$1" "$1" "${chosen[@]}"
    )
}

# With each further server that can be had.
test_servers()
{
    local server n=0

    report_parts servers "$out/logs/servers-build.log"
    for server in "$out"/servers/*[0-9]; do
        [[ -x $server ]] || continue
        RELOCK_TEST_SERVER=$PWD/$server run_tests "${server##*/}" gcc "${chosen[@]}" --no-suite unit
        n=$((n + 1))
    done
    [[ $n -gt 0 ]] || report skipped servers "$out/logs/servers-build.log"
}

# Its tests by themselves, and its programs and this machine's on the same locks.
test_machine()
{
    local folder=$PWD/$out/machines/$1 log=$out/logs/$1-quickstart.log slow=() began result=0

    if [[ ! -x $folder/worker ]]; then
        report skipped "$1" "$out/logs/$1-build.log"
        return
    fi
    [[ $1 != arm64 && $1 != s390x ]] || slow=(--timeout-multiplier 5 --num-processes 3)
    (
        [[ ${#slow[@]} == 0 ]] || export RELOCK_TEST_SLOW=3 RELOCK_TEST_EMULATED=1
        run_tests "$1" "$1" "${chosen[@]}" "${slow[@]}"
        RELOCK_TEST_FLEET=$folder run_tests "$1-fleet" gcc 'fleet server'
    )
    began=$SECONDS
    tests/machines/quickstart.sh "$out/gcc/examples/quickstart" "$folder/run" \
        "$out/$1/examples/quickstart" >"$log" 2>&1 || result=$?
    report_result "$result" "$1-quickstart" "$log" "$began"
}

# A folder in memory, if there is one with 256 MB. The nodes of a cluster write to the disk before they
# answer, and the builds keep it busy.
memory_folder()
{
    local free

    free=$(df --output=avail /dev/shm 2>/dev/null | tail -n 1)
    if [[ -w /dev/shm && ${free:-0} -ge 262144 ]]; then
        echo /dev/shm
    else
        echo "${TMPDIR:-/tmp}"
    fi
}

# name, folder, arguments of meson test
run_tests()
{
    local brief=()

    [[ $long == yes ]] || brief=(--no-suite long)
    TMPDIR=$(memory_folder) tests/run/suites.py "$1" "$2" "$out" \
        --num-processes "$at_once" --print-errorlogs "${@:3}" "${brief[@]}"
}
