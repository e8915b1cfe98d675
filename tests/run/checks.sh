# The checks: steps other than builds with their tests. tests/run.sh sources this file.
#
# shellcheck shell=bash disable=SC2034,SC2154 # shared with tests/run.sh

# One of these at a time, which use all processors, and beside it one of those that mostly wait. `tidy`
# and `install` share a build.
busy_checks='tidy unity install fuzz model'
quiet_checks='format shellcheck consumer pages examples debian site abi'
checks="$busy_checks $quiet_checks"
long_checks='rules' # only if named, or with all --long

# Their programs wait with time limits, so they do not stand behind the tests.
timed_checks='pages examples'

llvm=14 # version of clang-format and clang-tidy; other versions find other faults

check()
{
    local log=$out/logs/$1.log began=$SECONDS result=0

    # As a separate command, in which `set -e` holds.
    {
        [[ " $timed_checks " == *" $1 "* ]] || let_tests_go_first
        "check_$1"
    } >"$log" 2>&1 &
    wait $! || result=$?
    report_result "$result" "$1" "$log" "$began"
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

# Does this commit, or what is not committed, change a file there? Yes if that is unknown.
changed()
{
    ! git diff --quiet HEAD^ -- "$@" 2>/dev/null
}

# The files that check_tidy reads: a half in `all`, and those that this commit changes.
tidied()
{
    if [[ $halves == no ]]; then
        find lib -name '*.c'
    else
        {
            find lib -name '*.c' | tests/run/half.py first
            git diff --name-only --diff-filter=d HEAD^ -- 'lib/*.c' || true
        } | sort -u
    fi
}

# The analyzer takes most of the time, for ever more paths through a few functions. The long form lets
# it follow three times as many: clang's default.
check_tidy()
{
    local options=(--quiet -p "$out/gcc")

    needs clang-tidy-$llvm
    build gcc
    [[ $long == yes ]] || options+=(--extra-arg=-Xclang --extra-arg=-analyzer-config
        --extra-arg=-Xclang --extra-arg=max-nodes=75000)
    tidied | xargs -n 1 -P "$(nproc)" clang-tidy-$llvm "${options[@]}"
}

check_shellcheck()
{
    needs shellcheck
    shellcheck -x tools/*.sh examples/*.sh tests/*.sh tests/*/*.sh tests/*/*/*.sh .ci/run
}

# Does the library compile if Meson joins files (unity)? In the long form, tests and examples, too.
check_unity()
{
    local others=(-Dtests=disabled -Dexamples=false)

    [[ $long == no ]] || others=()
    export CCACHE_DEPEND=yes # as for the sanitizers
    build_with gcc unity -Dunity=on -Doptimization=0 -Ddebug=false "${others[@]}"
}

check_model()
{
    local options=()

    [[ $long == no ]] || options+=(--long)
    # Nothing else can change what comes of them.
    [[ $halves == no ]] || changed tests/model || options+=(--half)
    tests/model/run.sh "${options[@]}"
}

check_install()
{
    local folder

    build gcc
    build_with gcc without-tls -Dtls=disabled -Dtests=disabled
    build_with gcc archive -Ddefault_library=static -Dtests=disabled
    for folder in gcc without-tls archive; do
        rm -rf "$out/$folder-installed"
        meson install -C "$out/$folder" --no-rebuild
    done
    tests/consumer/installed.sh "$PWD/$out/gcc-installed"
    tests/consumer/installed.sh "$PWD/$out/archive-installed" --static
    tests/consumer/installed.sh "$PWD/$out/without-tls-installed"
}

check_consumer()
{
    tests/consumer/run.py
    tests/consumer/reader.py
}

check_debian()
{
    tests/consumer/debian.py
}

check_site()
{
    if [[ $long == yes ]]; then
        tests/site/run.sh "$out/site" --long
    else
        tests/site/run.sh "$out/site"
    fi
}

# Does the comparison find changes? Then against the last release, if there is one. Before 1.0, a
# release may break the ABI (docs/abi.md).
check_abi()
{
    local result=0

    needs abidiff
    tests/consumer/abi.py
    tools/abi.sh || result=$?
    [[ $result -ne 1 ]] || grep -q "version: '0\." meson.build || return 1
    [[ $result -ne 77 ]] || return 77
}

# Each command of the pages, on a bare Debian. The first runs the examples.
check_pages()
{
    tests/pages/run.sh "$out/pages"
    [[ $halves == no ]] || touch "$out/pages.passed"
}

check_examples()
{
    [[ ! -e $out/pages.passed ]] || { echo 'pages has run them' && exit 77; }
    ./examples/run.sh
}

check_fuzz()
{
    local seconds=12 fuzzers=()

    [[ $long == no ]] || seconds=600
    [[ $halves == no ]] || fuzzers=(--half)
    export CCACHE_DEPEND=yes # as for the sanitizers
    tests/fuzz/run.sh "$out/fuzz" $seconds "${fuzzers[@]}"
}

# Removes each rule from the library: is a test red without it?
check_rules()
{
    tests/model/rules.sh
}
