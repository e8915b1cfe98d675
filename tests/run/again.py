#!/usr/bin/env python3
"""Runs some tests that failed again, each by itself.

usage: again.py OUT

OUT/again has them: tests/run/suites.py. A test that was late runs twice, one with a wrong result five
times. One that passes each time is unsteady: it is listed with its cause and the log of its failure,
and does not count as passed. More than three, or more than one with a wrong result, fail the whole,
because something may be wrong that is not seen each time; then none is run again.
"""
import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import suites  # this makes `failures` known
import failures

MOST = {"late": 3, "wrong": 1}
TIMES = {"late": 2, "wrong": 5}


def failure(test, time):
    """Of the test alone: "" if it passes."""
    logbase = f"again-{test['step']}-{time}"
    folder = pathlib.Path(test["folder"])
    for old in (folder / "meson-logs").glob(f"{logbase}*.json"):
        old.unlink()
    options = [*suites.options(test["arguments"]), "--num-processes", "1", "--logbase", logbase]
    subprocess.run(
        suites.meson(folder, [*options, test["name"]]),
        env=test["env"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    # Other suites may have a test of that name.
    runs = [run for run in suites.read_tests(folder, logbase) if run["name"] == test["full_name"]]
    if [run["result"] for run in runs] == ["OK"]:
        return ""
    if not runs:
        return "it could not be run again"
    with open(test["log"], "a", encoding="utf-8") as out:
        out.write(f"\n---- alone, time {time}\n{failures.output(runs[0])}")
    return f"alone, time {time}: {failures.complaint(runs[0])}"


def too_many(tests):
    """Says which there are too many of, or ""."""
    for verdict, most in MOST.items():
        if sum(test["verdict"] == verdict for test in tests) > most:
            return f"more than {most} of the tests were {verdict}"
    return ""


def judge(tests, failure_of):
    """Returns the lines of unsteady tests and those of failures."""
    unsteady, failed = [], []
    for test in tests:
        name = f"{test['step']}: {test['name']}"
        what = too_many(tests)
        for time in range(1, TIMES[test["verdict"]] + 1):
            what = what or failure_of(test, time)
        if what:
            failed.append(f"FAILED   {name}  {test['cause']}; {what}; log: {test['log']}")
        else:
            unsteady.append(f"unsteady {name}  {test['cause']}; log: {test['log']}")
    return unsteady, failed


def main(out):
    out = pathlib.Path(out)
    with open(out / "again", encoding="utf-8") as lines:
        tests = [json.loads(line) for line in lines]
    if not tests:
        return
    if not too_many(tests):
        print(f"         running tests again, each by itself: {len(tests)}", flush=True)
    unsteady, failed = judge(tests, failure)
    suites.append(out / "unsteady", unsteady)
    suites.append(out / "failures", failed)
    suites.append(out / "results", [f"0 {len(failed)} 0"])


if __name__ == "__main__":
    main(*sys.argv[1:])
