#!/usr/bin/env python3
"""The public functions are the same everywhere that they are listed.

usage: symbols_test.py NM MAP HEADER API_TEST DEBIAN_SYMBOLS [LIBRARY...]

The map exports what the header declares, and the api test and the Debian package name each. A shared library exports
exactly these; the archives define them together, and as they cannot hide others, every global name
there is relock_*. Symbols for a sanitizer and for the probes do not count, nor those of the compiler.
"""
import pathlib
import re
import subprocess
import sys


def differences(expected, found, where):
    return [f"{where}: {name} is missing" for name in sorted(expected - found)] + [
        f"{where}: {name} is too much" for name in sorted(found - expected)
    ]


def defined(nm, library):
    """Global names that the library defines, without their version."""
    dynamic = [] if library.endswith(".a") else ["--dynamic"]
    lines = subprocess.run(
        [nm, *dynamic, "--extern-only", "--defined-only", "--format=posix", library],
        check=True, capture_output=True, text=True,
    ).stdout.splitlines()
    rows = [line.split() for line in lines]
    # A is the version node itself; a line of one word names a member of the archive.
    names = {row[0].partition("@")[0] for row in rows if len(row) > 1 and row[1] != "A"}
    return {name for name in names
            if not re.match(r"__(odr_)?(a|l|m|t|ub)san|_\.stapsdt\.base$|__x86\.get_pc_thunk\.", name)}


def main(nm, map_path, header_path, api_path, debian_path, *libraries):
    map_text, header, api = (
        pathlib.Path(path).read_text() for path in (map_path, header_path, api_path)
    )
    declared = set(re.findall(r"^RELOCK_API [^;(]*?\b(relock_\w+)\(", header, re.M))
    wrong = differences(declared, set(re.findall(r"^\s+(relock_\w+);", map_text, re.M)), "map")
    wrong += differences(declared, set(re.findall(r"\bNAMED\((relock_\w+)\)", api)), "api test")
    if pathlib.Path(debian_path).exists():  # the archive of a release has no packages
        packaged = pathlib.Path(debian_path).read_text()
        wrong += differences(declared, set(re.findall(r"^ (relock_\w+)@", packaged, re.M)), "Debian")

    archives = [library for library in libraries if library.endswith(".a")]
    for library in set(libraries) - set(archives):
        wrong += differences(declared, defined(nm, library), pathlib.Path(library).name)
    if archives:
        found = set().union(*(defined(nm, archive) for archive in archives))
        hidden = {symbol for symbol in found - declared if symbol.startswith("relock_")}
        wrong += differences(declared, found - hidden, "archives")

    print("\n".join(wrong))
    return bool(wrong)


sys.exit(main(*sys.argv[1:]))
