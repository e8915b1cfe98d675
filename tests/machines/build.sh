#!/usr/bin/env bash
# Makes this machine ready to build for another one, and to run what was built.
#
#     ./tests/machines/build.sh i386|arm64|s390x|musl FOLDER
#
# FOLDER/cross.ini is then the file for `meson setup --cross-file`, and FOLDER/run PROGRAM runs a
# program of that machine. The compiler is this system's: a cross compiler, or musl-gcc. The libraries
# are below FOLDER, and none is installed in the system: Debian's packages of that architecture,
# unpacked, or for musl, built from Debian's sources. i386 and musl run on this processor, the others in
# qemu. What is there already is not made again. Ends with 77, and says why, if that is impossible here.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
# shellcheck source=tests/versions/apt.sh
source "$here/../versions/apt.sh"

# machine | triplet of the compiler | of the libraries | processor family | order of bytes | emulator
machines='
i386   i686-linux-gnu     i386-linux-gnu     x86      little
arm64  aarch64-linux-gnu  aarch64-linux-gnu  aarch64  little  qemu-aarch64
s390x  s390x-linux-gnu    s390x-linux-gnu    s390x    big     qemu-s390x
'
libraries='libhiredis-dev libev-dev uthash-dev libssl-dev libcmocka-dev libc6 libgcc-s1'
sources='hiredis libev cmocka'

main()
{
    local row folder

    [[ $# -eq 2 ]] || usage
    row=$(grep "^$1 " <<<"$machines" || [[ $1 == musl ]]) || usage
    mkdir -p "$2"
    folder=$(cd "$2" && pwd)
    [[ ! -e $folder/cross.ini || $here/build.sh -nt $folder/cross.ini ]] || return 0
    rm -rf "${folder:?}"/{root,run,cross.ini,worker} # worker: of tests/run/variants.sh
    mkdir "$folder/root"
    if [[ $1 == musl ]]; then
        make_musl "$folder"
    else
        # shellcheck disable=SC2086 # words
        make_cross "$folder" $row
    fi
    chmod +x "$folder/run"
}

usage()
{
    echo "usage: $0 i386|arm64|s390x|musl FOLDER" >&2
    exit 2
}

skip()
{
    echo "$1"
    exit 77
}

needs()
{
    command -v "$1" >/dev/null || skip "there is no $1"
}

# The suite of this system, because its cross compiler fits the C library of that.
suite()
{
    # shellcheck disable=SC1091 # the system's
    (. /etc/os-release && [[ $ID == debian ]] && echo "$VERSION_CODENAME")
}

# ---- other processors ---------------------------------------------------------------------------

# folder, and a row of the table
make_cross()
{
    local folder=$1 machine=$2 compiler=$3 triplet=$4 family=$5 order=$6 emulator=${7:-}
    local root=$1/root lib=$1/root/usr/lib/$4 wrapper='' loader='' start='' suite

    needs "$compiler-gcc"
    [[ -z $emulator ]] || needs "$emulator"
    suite=$(suite) || skip 'this system is not Debian'
    # shellcheck disable=SC2086 # words
    (apt_use "$folder/apt" "$suite" "$machine" && apt_unpack_all "$root" $libraries) ||
        skip "Debian's packages for $machine cannot be had"
    # Before Debian 13, a part of the libraries is in /lib.
    [[ -e $root/lib ]] || ln -s usr/lib "$root/lib"

    if [[ -n $emulator ]]; then
        wrapper="exe_wrapper = ['$emulator', '-L', '$root']"
        start="start_program = '$folder/run '"
        echo "exec $emulator -L '$root' \"\$@\"" >"$folder/run"
    else
        loader=", '-Wl,--dynamic-linker=$root/lib/ld-linux.so.2'"
        echo 'exec "$@"' >"$folder/run"
    fi
    sed -i '1i #!/bin/sh' "$folder/run"
    chmod +x "$folder/run"
    if ! echo 'int main(void) { return 0; }' |
        "$compiler-gcc" -static -x c - -o "$folder/proof" || ! "$folder/run" "$folder/proof"; then
        skip "no program for $machine can be made and run here"
    fi
    cat >"$folder/cross.ini" <<END_OF_FILE
[binaries]
c = [$(ccache)'$compiler-gcc']
ar = '$compiler-ar'
nm = '$compiler-nm'
readelf = '$compiler-readelf'
strip = '$compiler-strip'
pkgconfig = 'pkg-config'
$wrapper

[built-in options]
c_args = ['-isystem', '$root/usr/include', '-isystem', '$root/usr/include/$triplet']
c_link_args = ['-L$lib', '-L$root/lib/$triplet',
    '-Wl,--disable-new-dtags,-rpath,$lib:$root/lib/$triplet'$loader]

[properties]
pkg_config_libdir = '$lib/pkgconfig'
sys_root = '$root'
$start

[host_machine]
system = 'linux'
cpu_family = '$family'
cpu = '$family'
endian = '$order'
END_OF_FILE
}

ccache()
{
    ! command -v ccache >/dev/null || printf "'ccache', "
}

# ---- another C library --------------------------------------------------------------------------

make_musl()
{
    local root=$1/root suite

    needs musl-gcc
    needs make
    suite=$(suite) || skip 'this system is not Debian'
    # shellcheck disable=SC2086 # words
    (apt_use "$1/apt" "$suite" "$(dpkg --print-architecture)" deb-src &&
        apt_unpack "$root" uthash-dev && cd "$root" &&
        apt-get -q --download-only source $sources) || skip "Debian's sources cannot be had"
    build_musl "$root"
    printf '#!/bin/sh\nexec "$@"\n' >"$1/run"
    cat >"$1/cross.ini" <<END_OF_FILE
[binaries]
c = [$(ccache)'musl-gcc']
ar = 'ar'
nm = 'nm'
readelf = 'readelf'
strip = 'strip'
pkgconfig = 'pkg-config'

[built-in options]
c_args = ['-isystem', '$root/usr/include', '-isystem', '$root/linux']
c_link_args = ['-L$root/usr/lib']

[properties]
pkg_config_libdir = '$root/usr/lib/pkgconfig'

[host_machine]
system = 'linux'
cpu_family = '$(uname -m)'
cpu = '$(uname -m)'
endian = 'little'
END_OF_FILE
}

# As archives, which need no path when a program is started.
build_musl()
(
    set -e
    usr=$1/usr
    cd "$1"
    for name in $sources; do
        mkdir "$name"
        tar -xf "$name"_*.orig.tar.?z -C "$name" --strip-components 1
    done
    # musl-gcc does not see the headers of the kernel, and the other headers beside them are not musl's.
    mkdir linux
    ln -s /usr/include/linux /usr/include/asm-generic "/usr/include/$(uname -m)-linux-gnu/asm" linux

    make -C hiredis static hiredis.pc CC=musl-gcc PREFIX="$usr"
    install -D -m 644 -t "$usr/include/hiredis" hiredis/*.h
    install -D -m 644 -t "$usr/lib" hiredis/libhiredis.a
    install -D -m 644 -t "$usr/lib/pkgconfig" hiredis/hiredis.pc

    (cd libev && CC=musl-gcc ./configure --disable-shared --with-pic --prefix="$usr")
    make -C libev install

    musl-gcc -O1 -g -fPIC -DHAVE_CLOCK_GETTIME_REALTIME -DHAVE_STRUCT_TIMESPEC \
        -DHAVE_INTTYPES_H -DHAVE_MALLOC_H -DHAVE_SIGNAL_H -DHAVE_STRINGS_H -DHAVE_UNISTD_H \
        -Icmocka/include -c cmocka/src/cmocka.c -o cmocka.o
    ar rcs "$usr/lib/libcmocka.a" cmocka.o
    install -m 644 -t "$usr/include" cmocka/include/cmocka.h
    printf '%s\n' 'Name: cmocka' 'Description: from the sources of Debian' \
        "Version: $(echo cmocka_*.orig.tar.?z | sed 's/cmocka_\(.*\)\.orig.*/\1/')" \
        "Libs: -L$usr/lib -lcmocka" "Cflags: -I$usr/include" >"$usr/lib/pkgconfig/cmocka.pc"
)

main "$@"
