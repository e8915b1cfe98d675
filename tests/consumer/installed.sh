#!/usr/bin/env bash
# Builds the examples as a user does, by pkg-config against an installed relock, and runs one.
#
#     installed.sh PREFIX [--static]
set -euo pipefail
cd "$(dirname "$0")/../.."

prefix=$1
static=("${@:2}")
scratch=$(mktemp -d "${TMPDIR:-/tmp}/relock.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

# NAME.c with its parts, NAME_*.c, if it has any; or NAME.cpp.
compile()
{
    local suffix=${1##*.} compiler=(cc) packages=(relock) sources flags

    [[ $suffix == c ]] || compiler=(c++ -std=c++17)
    sources=("${1%.*}"*."$suffix")
    ! grep -q "<hiredis/" "${1%.*}"* || packages+=(hiredis)
    flags=$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig \
        pkg-config --cflags --libs "${static[@]}" "${packages[@]}")
    # shellcheck disable=SC2086 # words
    "${compiler[@]}" -Wall -Wextra -Werror -o "$scratch/$(basename "${1%.*}")" "${sources[@]}" $flags
}

grep -lE '^int main' examples/*.c examples/*.cpp tests/consumer/*.c | while read -r program; do
    [[ $program != *.cpp ]] || command -v c++ >/dev/null || continue
    echo "$program ${static[*]}"
    compile "$program"
done
LD_LIBRARY_PATH=$prefix/lib "$scratch/consumer" "unix://$scratch/none.sock"
