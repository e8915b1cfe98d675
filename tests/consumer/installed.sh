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

# NAME.c with its parts, NAME_*.c, if it has any.
compile()
{
    local sources=("${1%.c}"*.c) packages=(relock) flags

    ! grep -q "<hiredis/" "${1%.c}"*.[ch] || packages+=(hiredis)
    flags=$(PKG_CONFIG_PATH=$prefix/lib/pkgconfig \
        pkg-config --cflags --libs "${static[@]}" "${packages[@]}")
    # shellcheck disable=SC2086 # words
    cc -Wall -Wextra -Werror -o "$scratch/$(basename "$1" .c)" "${sources[@]}" $flags
}

grep -l '^int main' examples/*.c tests/consumer/*.c | while read -r program; do
    echo "$program ${static[*]}"
    compile "$program"
done
LD_LIBRARY_PATH=$prefix/lib "$scratch/consumer" "unix://$scratch/none.sock"
