# Installs what a script of this repository needs and this system lacks. To be sourced, from the
# top of the repository.
#
#     relock_packages build redis        groups of the table below
#
# Looks for a command or a header, or, after a colon, for a sanitizer of the compiler. If nothing is
# missing, it uses no network. It installs missing packages with apt-get, by sudo if not root. If
# that is impossible, it names the packages and ends the script.
#
# shellcheck shell=bash

# group | commands or header to look for | Debian packages: the first available one; after "?",
# packages that a test can do without; it then says so
relock_package_table='
build  cc                          build-essential
build  pkg-config                  pkgconf pkg-config
build  python3                     python3
build  meson                       meson
build  ninja                       ninja-build
build  hiredis/hiredis.h           libhiredis-dev
build  ev.h                        libev-dev
build  uthash.h                    uthash-dev
build  openssl/ssl.h               ? libssl-dev
redis  redis-server,valkey-server  redis-server valkey-server
tests  cmocka.h                    libcmocka-dev
tests  ccache                      ? ccache
tests  zsh                         ? zsh
tests  openssl                     ? openssl
tests  sys/sdt.h                   ? systemtap-sdt-dev
tests  /usr/sbin/haproxy           ? haproxy
clang  clang                       clang
fuzz   clang:fuzzer                ? libclang-rt-14-dev libclang-rt-dev
valgrind  valgrind                 valgrind
format  clang-format-14            ? clang-format-14
tidy   clang-tidy-14               ? clang-tidy-14
shellcheck  shellcheck             ? shellcheck
model  spin                        ? spin
model  tcc                         ? tcc
consumer  git                      ? git
install  cmake                     ? cmake
debian  dpkg-buildpackage          ? dpkg-dev
debian  dh                         ? debhelper
debian  lintian                    ? lintian
abi    abidiff                    ? abigail-tools
site   chromium,google-chrome      ? chromium
pages  debootstrap                 ? debootstrap
i386   i686-linux-gnu-gcc          ? gcc-i686-linux-gnu
i386   /usr/i686-linux-gnu/include/stdio.h  ? libc6-dev-i386-cross
arm64  aarch64-linux-gnu-gcc       ? gcc-aarch64-linux-gnu
arm64  /usr/aarch64-linux-gnu/include/stdio.h  ? libc6-dev-arm64-cross
arm64  qemu-aarch64                ? qemu-user
s390x  s390x-linux-gnu-gcc         ? gcc-s390x-linux-gnu
s390x  /usr/s390x-linux-gnu/include/stdio.h  ? libc6-dev-s390x-cross
s390x  qemu-s390x                  ? qemu-user
musl   musl-gcc                    ? musl-tools
proxies  /usr/bin/stunnel          ? stunnel4
'

relock_packages()
{
    local missing packages package wanted=()

    missing=$(relock_missing "$@")
    if relock_can_install; then
        [[ -z $missing ]] || relock_apt update || echo "apt-get update failed, going on" >&2
        while read -r packages; do
            package=$(relock_first_to_be_had "${packages#\?}")
            [[ -z $package ]] || wanted+=("$package")
            [[ -n $package || -z $packages || $packages == \?* ]] || relock_stop "$packages"
        done <<<"$missing"
        if [[ ${#wanted[@]} -gt 0 ]]; then
            echo "installing ${wanted[*]}"
            relock_apt install --yes --no-install-recommends --no-remove "${wanted[@]}" ||
                relock_stop "${wanted[*]}"
        fi
    else
        missing=$(grep -v '^?' <<<"$missing" || true)
        [[ -z $missing ]] || relock_stop "$missing"
    fi
    relock_new_meson
}

# The packages for each missing thing of these groups, one line each.
relock_missing()
{
    local group proof packages

    while read -r group proof packages; do
        [[ -n $group && " $* " == *" $group "* ]] || continue
        relock_is_there "$proof" || echo "$packages"
    done <<<"$relock_package_table"
}

relock_is_there()
{
    local name

    case $1 in
    *.h)
        # cmocka.h needs these before it.
        printf '#include <%s>\n' setjmp.h stdarg.h stddef.h stdint.h "$1" |
            cc -E -x c - >/dev/null 2>&1
        ;;
    *:*)
        echo 'int LLVMFuzzerTestOneInput(void) { return 0; }' |
            "${1%:*}" "-fsanitize=${1#*:}" -x c - -o /dev/null 2>/dev/null
        ;;
    *)
        for name in ${1//,/ }; do
            ! command -v "$name" >/dev/null || return 0
        done
        return 1
        ;;
    esac
}

# How to call this compiler. With ccache, a build in another clone takes little time.
relock_compiler()
{
    ! command -v ccache >/dev/null || printf 'ccache '
    echo "$1"
}

relock_can_install()
{
    command -v apt-get >/dev/null && { [[ $EUID -eq 0 ]] || command -v sudo >/dev/null; }
}

relock_apt()
{
    local root=()

    [[ $EUID -eq 0 ]] || root=(sudo)
    "${root[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get -q -o Acquire::Retries=3 -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@" \
        </dev/null >/dev/null
}

# Only one that removes no other: a cross compiler and gcc-multilib do not go together.
relock_first_to_be_had()
{
    local package

    for package in $1; do
        if [[ -n $(apt-cache madison "$package" 2>/dev/null) ]] &&
            apt-get --simulate --no-remove install "$package" >/dev/null 2>&1; then
            echo "$package"
            return
        fi
    done
}

relock_stop()
{
    {
        echo "$0: these could not be installed here; install them (the names are Debian's), then"
        echo "run this again:"
        sed 's/^/    /; s/\([^ ]\) /\1 or /g' <<<"$1"
    } >&2
    exit 1
}

# Some systems package a Meson that is too old for meson.build.
relock_new_meson()
{
    local here=$PWD/build-meson

    [[ $(meson --version) != 0.* ]] && return
    if [[ ! -x $here/bin/meson ]]; then
        echo "installing meson >= 1.0 into build-meson/"
        python3 -c 'import ensurepip' 2>/dev/null || relock_apt install --yes --no-remove python3-venv
        python3 -m venv "$here" || relock_stop python3-venv
        "$here/bin/pip" install --quiet 'meson >= 1.0' || relock_stop 'meson (1.0 or newer)'
    fi
    PATH=$here/bin:$PATH
}
