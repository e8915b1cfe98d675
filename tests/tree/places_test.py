#!/usr/bin/env python3
"""Checks that the tests stand in the order of the library.

    places_test.py TOP_OF_THE_REPOSITORY

tests/unit/FOLDER and tests/server/FOLDER test lib/FOLDER; tests/server/scripts tests scripts/, and
tests/unit/common has what unit tests of several folders share. Each folder of the library has tests.
A unit test includes a header of the folder that it tests, unless it includes none of the library.
Each test program is built: its name stands in the meson.build of its suite. The table of
tests/README.md has each program of tests/faults.
"""
import pathlib
import re
import sys

FURTHER = {"unit": "common", "server": "scripts"}
FAULTS = re.compile(r"^\| [^|]+ \| (`\w+`, .*) \|$", re.M)


def folders_of(top):
    """Each folder below `top` that has sources, by its path there."""
    return {str(path.parent.relative_to(top)) for path in top.rglob("*.[ch]")} - {"."}


def check_folders(tests, library):
    """No folder of tests without one of the library, nor the reverse."""
    found = {suite: folders_of(tests / suite) for suite in FURTHER}
    wrong = [f"tests/{suite}/{folder} tests no folder of lib/"
             for suite, folders in found.items() for folder in sorted(folders - library - {FURTHER[suite]})]
    return wrong + [f"lib/{folder} has no tests in tests/unit/{folder}, nor in tests/server/{folder}"
                    for folder in sorted(library - set.union(*found.values()))]


def headers_of(path, tests, library):
    """The headers of lib/ that a unit test includes, also by headers of unit tests."""
    found = set()
    for name in re.findall(r'^#include "([^"]+)"', path.read_text(), re.M):
        if str(pathlib.PurePath(name).parent) in library:
            found.add(name)
        for header in (path.parent / name, tests / name):
            if header.exists() and header.is_relative_to(tests / "unit"):
                found |= headers_of(header, tests, library)
    return found


def check_includes(tests, library):
    wrong = []
    for path in sorted((tests / "unit").rglob("*_test.c")):
        folder = str(path.parent.relative_to(tests / "unit"))
        tested = {str(pathlib.PurePath(name).parent) for name in headers_of(path, tests, library)}
        if folder != "." and tested and folder not in tested:
            wrong.append(f"tests/unit/{folder}/{path.name} includes no header of lib/{folder}, "
                         f"but of: {', '.join(sorted(tested))}")
    return wrong


def check_built(tests):
    wrong = []
    for suite in FURTHER:
        build = (tests / suite / "meson.build").read_text()
        for path in sorted((tests / suite).rglob("*_test.c")):
            name = str(path.relative_to(tests / suite)).removesuffix("_test.c")
            if not re.search(rf"'(?:{name}|{name}_test\.c|{path.name.removesuffix('_test.c')})'", build):
                wrong.append(f"tests/{suite}/meson.build has no {name}")
    return wrong


def check_faults(tests):
    page = (tests / "README.md").read_text()
    listed = [name for row in FAULTS.findall(page) for name in re.findall(r"`(\w+)`", row)]
    programs = {path.name.removesuffix("_test.c") for path in (tests / "faults").glob("*_test.c")}
    return ([f"tests/README.md: the table of fault tests has no {name}" for name in sorted(programs - set(listed))] +
            [f"tests/README.md: there is no tests/faults/{name}_test.c" for name in sorted(set(listed) - programs)] +
            [f"tests/README.md has {name} twice" for name in sorted(set(listed)) if listed.count(name) > 1])


def main(top):
    tests, library = top / "tests", folders_of(top / "lib")
    wrong = check_folders(tests, library) + check_includes(tests, library) + check_built(tests) + check_faults(tests)
    if not library:
        wrong.append(f"no sources below {top}/lib")
    print("\n".join(wrong))
    return bool(wrong)


sys.exit(main(pathlib.Path(sys.argv[1])))
