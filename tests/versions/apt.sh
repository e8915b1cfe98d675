# Debian packages of any suite and architecture, unpacked in a folder, without touching what apt knows
# about this system. To be sourced.
#
# shellcheck shell=bash

mirror=http://deb.debian.org/debian

# folder for the lists, suite, architecture, and "deb-src" if sources are wanted: apt-get uses these
# from now on, and takes nothing for installed
apt_use()
{
    local type

    mkdir -p "$1/lists/partial" "$1/cache/archives/partial"
    for type in deb ${4:-}; do
        echo "$type $mirror $2 main"
    done >"$1/sources.list"
    : >"$1/status"
    cat >"$1/apt.conf" <<END_OF_CONF
APT::Architecture "$3";
APT::Architectures { "$3"; };
APT::Sandbox::User "root";
Acquire::Languages "none";
Dir::Etc::sourcelist "$1/sources.list";
Dir::Etc::sourceparts "-";
Dir::State::status "$1/status";
Dir::State::lists "$1/lists";
Dir::Cache "$1/cache";
END_OF_CONF
    export APT_CONFIG=$1/apt.conf
    timeout --foreground 300 apt-get -q update
}

# where to unpack, packages
apt_unpack()
{
    (cd "$1" && apt-get -q download "${@:2}" && apt_unpack_files ./*.deb)
}

# The same with all that they depend on.
apt_unpack_all()
{
    (cd "$1" && apt-get -q --yes --no-install-recommends --download-only \
        -o Dir::Cache::archives="$1" install "${@:2}" && apt_unpack_files ./*.deb)
}

apt_unpack_files()
{
    local file

    for file in "$@"; do
        dpkg-deb -x "$file" . || return
        rm "$file"
    done
}
