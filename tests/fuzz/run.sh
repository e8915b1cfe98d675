#!/usr/bin/env bash
# Runs the fuzzers on a copy of the corpus, as many at once as there are processors.
#
#     tests/fuzz/run.sh [folder of the build [seconds each [fuzzers]]]
#
#     tests/fuzz/run.sh build-tests/fuzz 600 url reply
#
# --half as the only fuzzer: one half of them, the other after the next commit.
#
# One line for each says what it reached. It leaves its findings in the folder of the build, with the
# inputs that it kept: a bug's input goes into the corpus, with its correction. Exits with 77,
# and says why, where there is no clang with libFuzzer.
set -euo pipefail
cd "$(dirname "$0")/../.."
source tools/packages.sh

out=${1:-build-tests/fuzz}
seconds=${2:-60}
fuzzers=("${@:3}")

main()
{
    local name running=0 failed=0

    relock_is_there clang:fuzzer || { echo 'there is no clang with libFuzzer' && exit 77; }
    build
    for name in "${fuzzers[@]}"; do
        if [[ $running -eq $(nproc) ]]; then
            wait -n || failed=1
            running=$((running - 1))
        fi
        fuzz "$name" &
        running=$((running + 1))
    done
    for (( ; running > 0; running--)); do
        wait -n || failed=1
    done
    exit $failed
}

build()
{
    if [[ ! -f $out/build.ninja ]]; then
        CC=$(relock_compiler clang) meson setup "$out" -Dwerror=true -Dfuzz=true -Dexamples=false \
            -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 -Dc_args=-g1
    fi
    case ${fuzzers[*]} in
    '') find_all ;;
    --half)
        find_all
        mapfile -t fuzzers < <(printf '%s\n' "${fuzzers[@]}" | tests/run/half.py first)
        ;;
    esac
    meson compile -C "$out" "${fuzzers[@]/%/_fuzz}"
}

# There is none for TLS in a build without OpenSSL.
find_all()
{
    local name

    fuzzers=()
    for name in url reply pubsub pipeline map switches tls; do
        ! grep -q "^build tests/fuzz/${name}_fuzz:" "$out/build.ninja" || fuzzers+=("$name")
    done
}

fuzz()
{
    local folder=$PWD/$out/$1 log=$PWD/$out/$1.log options=()

    rm -rf "$folder"
    mkdir -p "$folder"
    cp -r "tests/fuzz/corpus/$1" "$folder/corpus"
    [[ ! -f tests/fuzz/$1.dict ]] || options=(-dict="tests/fuzz/$1.dict")

    # More memory than there is, for what a server says: then the library has to do without.
    if ASAN_OPTIONS=detect_leaks=1:allocator_may_return_null=1 \
        UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1 \
        "$out/tests/fuzz/$1_fuzz" -max_total_time="$seconds" -max_len=2048 -timeout=30 \
        -rss_limit_mb=1024 -malloc_limit_mb=100 -entropic=0 \
        "${options[@]}" -artifact_prefix="$folder/found-" "$folder/corpus" >"$log" 2>&1; then
        echo "$1: $(grep -o 'Done .*' "$log"), $(grep DONE "$log" | grep -o 'cov: [0-9]*') edges"
    else
        echo "$1: FAILED"
        grep -A 24 -m 1 -E 'not so: |ERROR: ' "$log" || tail -n 25 "$log"
        ls "$folder"/found-* 2>/dev/null || true
        return 1
    fi
}

main
