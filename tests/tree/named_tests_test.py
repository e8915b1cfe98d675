#!/usr/bin/env python3
"""Checks that the tests which docs/testing.md names exist.

A table of the page names the files of tests, and after each the functions in it:

    | a promise | `server/lock/hold/loss_test.c` a_deleted_key_*, another_case; `unit/lock/state/hold_test.c` |

    named_tests_test.py TOP_OF_THE_REPOSITORY
"""
import fnmatch
import pathlib
import re
import sys

FILE = re.compile(r"`((?:\w+/)+\w+_test\.c)`([^`|;]*)")
FUNCTION = re.compile(r"\b[a-z]\w*_[\w*]+")
DEFINITION = re.compile(r"^static void (\w+)\(void \*\*state\)", re.MULTILINE)


def missing(top, file, functions):
    """The faults of one file and of the functions named after it."""
    path = top / "tests" / file
    if not path.exists():
        return [f"there is no tests/{file}"]
    defined = DEFINITION.findall(path.read_text())
    return [f"tests/{file} has no {name}" for name in functions if not fnmatch.filter(defined, name)]


def main(top):
    page = (top / "docs" / "testing.md").read_text()
    named = [(file, FUNCTION.findall(rest)) for file, rest in FILE.findall(page)]
    wrong = [line for file, functions in named for line in missing(top, file, functions)]
    n_functions = sum(len(functions) for _, functions in named)
    print("\n".join(wrong) or f"{len(named)} files and {n_functions} functions")
    return 1 if wrong or n_functions == 0 else 0


sys.exit(main(pathlib.Path(sys.argv[1])))
