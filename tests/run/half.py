#!/usr/bin/env python3
"""Prints the tests that one half of a divided step runs, one name a line.

usage: half.py FOLDER FIRST|SECOND SUITES ARGUMENT...

FOLDER is a build, and the ARGUMENTs are those of `meson test`. SUITES, with commas between them, are
divided. The tests of other suites are in both halves, and so is a test with the name of one of these.
Which tests are the first half changes from commit to commit, so after some changes each test has run,
even if the second half runs nowhere.
"""
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import suites


def is_other_turn():
    head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return int(head.stdout.strip()[-1:] or "0", 16) % 2 == 1


def names(folder, which, divided, arguments):
    # Lines of the list that Meson prints: "PROJECT:SUITE+MARK... / NAME". Meson chooses by the name alone,
    # runs the tests in the order in which they are named, and a test twice that is named twice.
    tests = suites.listed(folder, arguments)
    others = {name_of(test) for test in tests if suites.Progress.suite(test) not in divided}
    some = sorted({name_of(test) for test in tests} - others)
    left_out = set(some[(which == "first") != is_other_turn() :: 2])
    return [name for name in dict.fromkeys(map(name_of, tests)) if name not in left_out]


def name_of(test):
    return test.partition(" / ")[2]


def main(folder, which, divided, *arguments):
    for name in names(folder, which, divided.split(","), arguments):
        print(name)


if __name__ == "__main__":
    main(*sys.argv[1:])
