#!/usr/bin/env python3
"""Why tests failed, short enough for the end of a log.

usage: failures.py TESTLOG NAMES

TESTLOG is Meson's log, a line of JSON for each test. Prints the last lines of each failing test's
output. Appends one line for each to the file NAMES: its name, its result and its first complaint.
"""
import json
import re
import sys

NOT_FAILED = ["OK", "EXPECTEDFAIL", "SKIP"]
LINES = 60  # for all failed tests of a step together
COMPLAINT = r"error: |ERROR: |ThreadSanitizer: |runtime error|^==\d+== \S|Assertion"


def complaint(test):
    """The most telling line; for a test that hung, its position."""
    lines = test.get("stderr", "").splitlines()
    found = [line for line in lines if re.search(COMPLAINT, line)]
    began = re.findall(r"^\[ RUN      \].*", test.get("stdout", ""), re.M)
    if test["result"] == "TIMEOUT":
        return (began or lines or [""])[-1]
    return (found or lines[-1:] or began[-1:] or [""])[0]


def last(text, count):
    return "".join(f"        {line}\n" for line in text.splitlines()[-count:])


def main(testlog, names):
    with open(testlog) as lines:
        tests = [json.loads(line) for line in lines]
    failed = [test for test in tests if test["result"] not in NOT_FAILED]
    for test in failed:
        count = max(LINES // len(failed), 12)
        name = f"{test['name']}  {test['result']}"
        print(f"    {name} after {test['duration']:.1f} s")
        print(last(test.get("stdout", ""), count // 3), end="")
        print(last(test.get("stderr", ""), count - count // 3), end="")
        with open(names, "a") as out:
            print(f"{name}  {complaint(test).strip()}", file=out)


main(*sys.argv[1:])
