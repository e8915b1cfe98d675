#!/usr/bin/env bash
# Builds the earlier version of the library, from the history of this repository, and the worker of
# the tests with it.
#
#     ./tests/fleet/build.sh FOLDER
#
# What is there already is not built again. Ends with 77 if there is no git, or if the history does
# not reach back so far, as in a tarball or in a shallow clone.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
top=$(cd "$here/../.." && pwd)

# Its clients know no line in a cluster.
commit=d54e755b1b0e1210684635a8b622c6ea007069e3

main()
{
    local out

    [[ $# -eq 1 ]] || {
        echo "usage: $0 FOLDER" >&2
        exit 2
    }
    git -C "$top" cat-file -e "$commit^{commit}" 2>/dev/null || {
        echo "there is no git, or its history has no commit ${commit:0:7}"
        exit 77
    }
    mkdir -p "$1"
    out=$(cd "$1" && pwd)
    [[ -e $out/library/lib/librelock.a ]] || build_library "$out"
    build_worker "$out"
}

# In a new folder, so that a build that was interrupted leaves nothing.
build_library()
{
    rm -rf "$1/source" "$1/library"
    mkdir "$1/source"
    git -C "$top" archive "$commit" | tar -x -C "$1/source"
    meson setup "$1/library" "$1/source" -Ddefault_library=static -Dtests=disabled \
        -Dexamples=false -Dtool=false -Dwerror=false
    meson compile -C "$1/library" relock:static_library
}

# The library is in the program, because the loader would prefer one in LD_LIBRARY_PATH, where meson
# test has that of this tree.
build_worker()
{
    local flags

    flags=$(PKG_CONFIG_PATH=$1/library/meson-uninstalled:${PKG_CONFIG_PATH:-} \
        pkg-config --static --cflags --libs relock)
    # shellcheck disable=SC2086 # words
    ${CC:-cc} -std=c11 -D_GNU_SOURCE -O1 -g -Wall -Wextra -Werror "$here/worker.c" -o "$1/worker" \
        $flags -pthread
}

main "$@"
