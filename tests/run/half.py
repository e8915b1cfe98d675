#!/usr/bin/env python3
"""Prints the tests that one of two variants runs, one name a line: each variant has one half of them.

usage: half.py FOLDER FIRST|SECOND ARGUMENT...

FOLDER is a build, and the ARGUMENTs are those of `meson test`. Which tests are the first half changes
from commit to commit, so after some changes each test has run in both variants.
"""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import suites

# Short, or about what the other half cannot show.
IN_BOTH = {"unit", "stress", "chaos"}


def is_other_turn():
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return int(head.stdout.strip()[-1:] or "0", 16) % 2 == 1


def half(tests, second):
    """`tests` are lines of the list that Meson prints: "PROJECT:SUITE+MARK... / NAME"."""
    divided = sorted(test for test in tests if suites.Progress.suite(test) not in IN_BOTH)
    both = [test for test in tests if suites.Progress.suite(test) in IN_BOTH]
    return both + divided[second::2]


def main(folder, which, *arguments):
    tests = suites.listed(folder, arguments)
    for test in half(tests, (which == "second") != is_other_turn()):
        print(test.partition(" / ")[2])


if __name__ == "__main__":
    main(*sys.argv[1:])
