#!/usr/bin/env python3
"""Prints what one half of a divided step runs, one name a line.

usage: half.py FOLDER FIRST|SECOND SUITES ARGUMENT...    of tests
       half.py FIRST|SECOND                              of the lines of standard input

FOLDER is a build, and the ARGUMENTs are those of `meson test`. SUITES, with commas between them, are
divided. The tests of other suites are in both halves, and so is a test with the name of one of these.

The halves change places from commit to commit, and a name stays with the same others. So of two commits
in a row, each test has run in one, even if the second half runs nowhere.
"""
import hashlib
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import suites


def git(*arguments):
    return subprocess.run(["git", *arguments], capture_output=True, text=True, check=False).stdout.strip()


def is_other_turn():
    if git("rev-parse", "--is-shallow-repository") == "true":
        return int(git("rev-parse", "HEAD")[-1:] or "0", 16) % 2 == 1  # at random
    return int(git("rev-list", "--count", "--first-parent", "HEAD") or 0) % 2 == 1


def half(names, which):
    """Those of the names, in their order."""
    wanted = (which == "first") != is_other_turn()
    return [name for name in names if hashlib.sha1(name.encode()).digest()[-1] % 2 == wanted]


def chosen_tests(folder, which, divided, arguments):
    # Lines of the list that Meson prints: "PROJECT:SUITE+MARK... / NAME". Meson chooses by the name alone,
    # runs the tests in the order in which they are named, and a test twice that is named twice.
    tests = suites.listed(folder, arguments)
    others = {name_of(test) for test in tests if suites.Progress.suite(test) not in divided}
    names = list(dict.fromkeys(map(name_of, tests)))
    kept = others.union(half(names, which))
    return [name for name in names if name in kept]


def name_of(test):
    return test.partition(" / ")[2]


def main(*arguments):
    if len(arguments) == 1:
        names = half(sys.stdin.read().splitlines(), arguments[0])
    else:
        folder, which, divided, *chosen = arguments
        names = chosen_tests(folder, which, divided.split(","), chosen)
    for name in names:
        print(name)


if __name__ == "__main__":
    main(*sys.argv[1:])
