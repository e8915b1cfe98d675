#!/usr/bin/env bash
# Runs every command of README.md and docs/*.md on a bare Debian: a system of its own in FOLDER, with
# nothing but the base system, git and sudo. The commands have to install all the rest.
#
#     run.sh FOLDER
#
# Ends with 77 where that is not possible. commands.py says how a page marks what is not run. The
# base system is kept in FOLDER and used again; the commands run in a copy of it.
set -euo pipefail
cd "$(dirname "$0")/../.."

release=bookworm
folder=$(realpath -m "$1")
base=$folder/base
root=$folder/root
home=$root/home/reader

skip()
{
    echo "$1"
    exit 77
}

make_base()
{
    rm -rf "$base"
    mkdir -p "$folder"
    nice -n 15 debootstrap --variant=minbase --include=git,sudo $release "$base" ||
        skip "debootstrap could not install Debian $release"
    rm -f "$base"/var/cache/apt/archives/*.deb
    touch "$folder/base.made"
}

make_root()
{
    rm -rf "$root"
    cp -a --reflink=auto "$base" "$root"
    cat >"$root/etc/apt/apt.conf.d/99pages" <<'END'
APT::Get::Assume-Yes "true";
Acquire::Retries "3";
DPkg::Options { "--force-unsafe-io"; };
END
    # Nothing starts a server but the commands, and prelude.sh.
    printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
    chmod +x "$root/usr/sbin/policy-rc.d"
    chroot "$root" useradd --create-home --shell /bin/bash reader
    echo 'reader ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/reader"

    # URL, which the README has for the address of the repository, leads to a copy of this tree.
    python3 - "$home/origin.git" <<'END'
import sys
sys.path.insert(0, "tests/consumer")
from steps import make_repository
make_repository(sys.argv[1])
END
    ln -s origin.git "$home/URL"
    tests/pages/commands.py . >"$home/commands.sh"
    chroot "$root" chown -R reader: /home/reader
}

# In namespaces of its own, which end with it: so no process and no mount outlives this script. CFLAGS is
# from us: three builds without optimisation take less than half of the time.
run_commands()
{
    timeout --kill-after=10 900 unshare --mount --pid --fork --kill-child bash -euc "
        mount -t proc proc '$root/proc'
        mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts '$root/dev/pts'
        rm -f '$root/dev/ptmx' && ln -s pts/ptmx '$root/dev/ptmx'
        cd /
        exec chroot --userspec=reader:reader '$root' env -i HOME=/home/reader USER=reader LANG=C.UTF-8 \
            CFLAGS='-O0 -g0' PATH=/usr/local/bin:/usr/bin:/bin bash -c 'cd && exec bash commands.sh'
    " </dev/null
}

command -v debootstrap >/dev/null || skip 'there is no debootstrap'
[[ $EUID -eq 0 ]] || skip 'only root can install a system in a folder'
unshare --mount --pid --fork --kill-child true 2>/dev/null || skip 'there are no namespaces here'
for port in 6379 7777; do
    ! (: >"/dev/tcp/127.0.0.1/$port") 2>/dev/null || skip "a server has port $port already"
done

[[ -e $folder/base.made ]] || make_base
make_root
run_commands
rm -rf "$root"
