#!/usr/bin/env bash
# Compares the ABI of this tree with that of a release.
#
#     abi.sh              the last release: the newest tag v*
#     abi.sh COMMIT       any commit
#
# Ends with 1 if anything changed for programs that were compiled against the older one, and with 77
# if there is no release or no abidiff (in Debian: abigail-tools). Functions that were added are
# listed; they break no program. tools/abi.ignore has the other changes that are permitted.
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
    meson setup "$scratch/$2" "$1" -Dbuildtype=debug -Dtests=disabled -Dexamples=false -Dtool=false \
        >"$scratch/log" 2>&1 &&
        ninja -C "$scratch/$2" >>"$scratch/log" 2>&1 && return
    cat "$scratch/log"
    exit 1
}

mkdir "$scratch/sources"
git archive "$old" | tar -x -C "$scratch/sources"
build "$scratch/sources" old
build . new

# In two minutes less, if this version has the option.
exported=$(abidiff --help | grep -o -m 1 -e --exported-interfaces-only || true)

compare()
{
    abidiff ${exported:+"$exported"} --suppressions tools/abi.ignore "$@" \
        --headers-dir1 "$scratch/sources/include" --headers-dir2 include \
        "$scratch/old/lib/librelock.so" "$scratch/new/lib/librelock.so"
}

compare || true # its result also tells of added functions
# It takes a changed struct for a change that may be harmless, so any result but 0 counts.
compare --no-added-syms >/dev/null || { echo "the ABI is not that of $old" && exit 1; }
echo "programs that use $old can use this"
