#!/usr/bin/env bash
# Compares the ABI of this tree with that of a release.
#
#     abi.sh              the last release: the newest tag v*
#     abi.sh COMMIT       any commit
#
# Ends with 1 if programs that were compiled against the older one may not run with this one, and
# with 77 if there is no release or no abidiff (in Debian: abigail-tools). Functions that were added
# are listed; they break no program.
set -euo pipefail
cd "$(dirname "$0")/.."

old=${1:-$(git describe --tags --match 'v*' --abbrev=0 HEAD 2>/dev/null || true)}
[[ -n $old ]] || { echo "there is no release to compare with" && exit 77; }
command -v abidiff >/dev/null || { echo "there is no abidiff" && exit 77; }
scratch=$(mktemp -d "${TMPDIR:-/tmp}/relock.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

# folder with the sources, name of the build
build()
{
    meson setup "$scratch/$2" "$1" -Dbuildtype=debugoptimized -Dtests=disabled -Dexamples=false \
        >"$scratch/log" 2>&1 &&
        ninja -C "$scratch/$2" >>"$scratch/log" 2>&1 && return
    cat "$scratch/log"
    exit 1
}

mkdir "$scratch/sources"
git archive "$old" | tar -x -C "$scratch/sources"
build "$scratch/sources" old
build . new

result=0
abidiff --headers-dir1 "$scratch/sources/include" --headers-dir2 include \
    "$scratch/old/lib/librelock.so" "$scratch/new/lib/librelock.so" || result=$?
# Its result is a set of bits: 1 and 2 are failures, 4 is any change, 8 one that breaks programs.
((result == 0)) && echo "the ABI is that of $old"
(((result & 11) == 0))
