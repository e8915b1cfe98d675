#!/usr/bin/env bash
# Builds the examples as a user does, by pkg-config against an installed relock, and runs one. Then
# does the same with CMake, and looks at what is installed beside the library.
#
#     installed.sh PREFIX [--static]
set -euo pipefail
cd "$(dirname "$0")/../.."

prefix=$1
static=("${@:2}")
scratch=$(mktemp -d "${TMPDIR:-/tmp}/relock.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

# The program with the sources and libraries that the command in its first comment names.
compile()
{
    local suffix=${1##*.} compiler=(cc) packages=(relock) sources=() libraries=() words word flags

    [[ $suffix == c ]] || compiler=(c++ -std=c++17)
    read -ra words < <(grep -m1 -E '^ \*     c(c|\+\+) ' "$1" || basename "$1")
    for word in "${words[@]}"; do
        case $word in
        *.c | *.cpp) sources+=("$(dirname "$1")/$word") ;;
        -l*) libraries+=("$word") ;;
        esac
    done
    ! grep -q "<hiredis/" "${1%.*}"* || packages+=(hiredis)
    flags=$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig \
        pkg-config --cflags --libs "${static[@]}" "${packages[@]}")
    # shellcheck disable=SC2086 # words
    "${compiler[@]}" -Wall -Wextra -Werror -o "$scratch/$(basename "${1%.*}")" "${sources[@]}" $flags "${libraries[@]}"
}

grep -lE '^int main' examples/*.c examples/*.cpp tests/consumer/*.c | while read -r program; do
    [[ $program != *.cpp ]] || command -v c++ >/dev/null || continue
    echo "$program ${static[*]}"
    compile "$program"
done
LD_LIBRARY_PATH=$prefix/lib "$scratch/consumer" "unix://$scratch/none.sock"

# A program that finds relock with CMake, and a version that is asked for in vain.
with_cmake()
{
    local configure=(cmake -S tests/consumer/cmake -DCMAKE_PREFIX_PATH="$prefix")
    local version

    version=$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --modversion relock)
    "${configure[@]}" -B "$scratch/cmake" -DRELOCK_VERSION="${version%.*}" >/dev/null
    cmake --build "$scratch/cmake" >/dev/null
    "$scratch/cmake/consumer" "unix://$scratch/none.sock"
    for version in 99.0 "${version%%.*}.999"; do
        ! "${configure[@]}" -B "$scratch/other" -DRELOCK_VERSION="$version" >"$scratch/log" 2>&1 ||
            { echo "CMake accepts this relock as version $version" && return 1; }
        grep -q 'requested version' "$scratch/log" ||
            { cat "$scratch/log" && return 1; }
    done
}

# Manual pages, and scripts as the library knows them: by their SHA1.
with_its_data()
{
    local page script

    for page in $(tools/man.py include/relock.h examples/pages.c 0 --list); do
        [[ -s $prefix/share/man/man${page##*.}/$page ]] || { echo "no $page" && return 1; }
    done
    for script in "$prefix"/share/relock/scripts/*.lua; do
        grep -qaF "$(sha1sum "$script" | cut -d ' ' -f 1)" "$prefix"/lib/librelock.* ||
            { echo "the library does not send $script" && return 1; }
    done
    cmp LICENSE "$prefix/share/doc/relock/LICENSE"
    cmp lib/relock.supp "$prefix/share/relock/relock.supp"
    diff -r -x meson.build docs "$prefix/share/doc/relock/docs"
    while read -r page; do
        cmp "$page" "$prefix/share/doc/relock/$page"
    done < <(find lib -name README.md)
}

with_its_data
if command -v cmake >/dev/null; then
    with_cmake
else
    echo "there is no cmake"
fi
