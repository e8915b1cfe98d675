#!/usr/bin/env bash
# Builds the site of the documentation in FOLDER, and opens each of its pages in a browser.
#
#     run.sh FOLDER          --long: also the pages that show a source file
#
# Ends with 77 if MkDocs cannot be had. Without a browser, it builds the site and says so.
set -euo pipefail
cd "$(dirname "$0")/../.."

folder=$(realpath -m "$1")

mkdir -p "$folder"
if ! cmp -s tests/site/requirements.txt "$folder/requirements.txt"; then
    rm -rf "$folder/venv"
    if ! { python3 -m venv "$folder/venv" &&
        timeout --foreground 120 "$folder/venv/bin/pip" install --quiet \
            -r tests/site/requirements.txt; }; then
        echo "MkDocs could not be installed"
        exit 77
    fi
    cp tests/site/requirements.txt "$folder/requirements.txt"
fi

tools/site.py "$folder/venv/bin/mkdocs" "$folder/pages"
if chromium=$(command -v chromium || command -v google-chrome); then
    "$folder/venv/bin/python" tests/site/browser.py "$chromium" "$folder/pages/site" "${@:2}"
else
    echo "there is no chromium: the site is built, but no browser has shown it"
fi
