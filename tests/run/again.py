#!/usr/bin/env python3
"""Runs the tests again that failed by a time limit alone: each by itself, twice.

usage: again.py OUT

OUT/late has them: tests/run/suites.py. One that passes both times is unsteady. It is listed with its
cause and the log of its failure, and does not count as passed. Too many unsteady tests fail the
whole, because something may be wrong that time limits hide; then none is run again.
"""
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import suites  # this makes `failures` known
import failures

MOST = 3
TIMES = 2


def failure(late, time):
    """Of the test alone: "" if it passes."""
    logbase = f"again-{late['step']}-{time}"
    folder = pathlib.Path(late["folder"])
    for old in (folder / "meson-logs").glob(f"{logbase}*.json"):
        old.unlink()
    subprocess.run(
        suites.meson(
            folder,
            [*late["arguments"], "--num-processes", "1", "--logbase", logbase, late["name"]],
        ),
        env=late["env"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    tests = suites.read_tests(folder, logbase)
    if [test["result"] for test in tests] == ["OK"]:
        return ""
    if not tests:
        return "it could not be run again"
    with open(late["log"], "a", encoding="utf-8") as out:
        out.write(f"\n---- alone, time {time}\n{failures.output(tests[0])}")
    return f"alone, time {time}: {failures.complaint(tests[0])}"


def judge(lates, failure_of):
    """Returns the lines that say so, the lines of failures."""
    unsteady, failed = [], []
    for late in lates:
        name = f"{late['step']}: {late['name']}"
        what = "" if len(lates) <= MOST else f"more than {MOST} tests were late"
        for time in range(1, TIMES + 1):
            what = what or failure_of(late, time)
        if what:
            failed.append(f"FAILED   {name}  {late['cause']}; {what}; log: {late['log']}")
        else:
            unsteady.append(f"unsteady {name}  {late['cause']}; log: {late['log']}")
    return unsteady, failed


def main(out):
    out = pathlib.Path(out)
    with open(out / "late", encoding="utf-8") as lines:
        lates = [json.loads(line) for line in lines]
    if not lates:
        return
    if len(lates) <= MOST:
        print(f"         running late tests again, each by itself: {len(lates)}", flush=True)
    unsteady, failed = judge(lates, failure)
    suites.append(out / "unsteady", unsteady)
    suites.append(out / "failures", failed)
    suites.append(out / "results", [f"0 {len(failed)} 0"])


if __name__ == "__main__":
    main(*sys.argv[1:])
