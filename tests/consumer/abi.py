#!/usr/bin/env python3
"""Checks that tools/abi.sh accepts what docs/abi.md permits, and nothing else.

usage: abi.py
"""
import pathlib
import subprocess
import tempfile

from steps import check, make_repository

END_OF_STATS = "};\n\n/**\n * Reads the counters."
END_OF_LOCK_INFO = "};\n\n/** Takes one lock that relock_locks() has found."


def insert(tree, before, field):
    """A field in relock.h, in a line before this one."""
    header = tree / "include/relock.h"
    text = header.read_text()
    check(text.count(before) == 1, "relock.h: not once:", before)
    header.write_text(text.replace(before, f"    uint64_t {field};\n{before}"))


def compare(tree):
    return subprocess.run([tree / "tools/abi.sh", "HEAD"], stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def main():
    with tempfile.TemporaryDirectory(prefix="relock.") as name:
        tree = pathlib.Path(name) / "relock"
        make_repository(tree)
        insert(tree, END_OF_STATS, "at_the_end")
        insert(tree, END_OF_LOCK_INFO, "at_its_end")
        done = compare(tree)
        check(done.returncode == 0, "these may grow at their ends:", done.stdout)
        insert(tree, "    uint64_t log_dropped;", "in_the_middle")
        done = compare(tree)
        check(done.returncode == 1 and "in_the_middle" in done.stdout,
              "a field in the middle of relock_stats:", done.returncode, done.stdout)
        print("ok: a struct that the library allocates, or whose size is passed, may grow at its end only")


main()
