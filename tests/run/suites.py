#!/usr/bin/env python3
"""Runs the tests of a step, says how far they are, and judges them.

usage: suites.py STEP FOLDER OUT ARGUMENT...

STEP names the step, FOLDER is a build below OUT, and the ARGUMENTs are those of `meson test`.
Prints a line for each suite that has ended, every minute, and for the step. Appends to these files
in OUT: the counts to `results`; a line for each failed test to `failures` and for each skipped test
to `skipped`; each test that is to run again to `again`, for tests/run/again.py.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import failures

ENDED = re.compile(
    r"^ *\d+/\d+ +(\S.*?) +(OK|FAIL|SKIP|TIMEOUT|ERROR|EXPECTEDFAIL|UNEXPECTEDPASS|INTERRUPT)\b"
)
NAMED = 5  # so many tests that still run are named
EVERY_S = 60
WITHOUT_VALUE = ["--print-errorlogs"]  # of the options that the steps give to `meson test`


class Progress:
    """The tests that have not ended. A test is "PROJECT:SUITE+MARK... / NAME"."""

    def __init__(self, step, tests):
        self.step = step
        self.began = self.said = time.monotonic()
        self.left = {}
        self.total = {}
        self.bad = {}
        for test in tests:
            self.left.setdefault(self.suite(test), []).append(test)
        for suite, its in self.left.items():
            self.total[suite] = len(its)

    @staticmethod
    def suite(test):
        return re.split(r"[+ ]", test.partition(":")[2])[0]

    def remaining(self):
        left = [test for its in self.left.values() for test in its]
        if len(left) <= NAMED:
            return ", ".join(test.partition(" / ")[2] for test in left)
        return ", ".join(
            f"{len(its)} of {self.total[suite]} in {suite}" for suite, its in self.left.items() if its
        )

    def line(self, text):
        self.said = time.monotonic()
        to_go = self.remaining()
        return f"         {self.step} {self.said - self.began:.0f} s: {text}" + (
            f"{'; ' if text else ''}to go: {to_go}" if to_go else ""
        )

    def ended(self, test, result):
        """A line, if there is something to say."""
        suite = self.suite(test)
        if test in self.left.get(suite, []):
            self.left[suite].remove(test)
            self.bad[suite] = self.bad.get(suite, 0) + (result not in failures.PASSED + ["SKIP"])
            if not self.left[suite]:
                bad = f", {self.bad[suite]} failed" if self.bad[suite] else ""
                return self.line(f"all {self.total[suite]} tests of {suite} have ended{bad}")
        return self.line("") if time.monotonic() - self.said >= EVERY_S else ""


def meson(folder, arguments):
    return ["meson", "test", "-C", str(folder), "--no-rebuild", *arguments]


def options(arguments):
    """Those of the arguments of `meson test` that name no test."""
    kept, is_value = [], False
    for argument in arguments:
        if is_value or argument.startswith("--"):
            kept.append(argument)
        is_value = not is_value and argument.startswith("--") and argument not in WITHOUT_VALUE
    return kept


def listed(folder, arguments):
    """The tests that these arguments choose."""
    listing = subprocess.run(
        meson(folder, ["--list", *arguments]), capture_output=True, text=True, check=False
    )
    return [line for line in listing.stdout.splitlines() if " / " in line]


def run(step, folder, log, arguments):
    """Runs them, with their output in the file `log`. Returns Meson's status."""
    progress = Progress(step, listed(folder, arguments))
    with open(log, "w", encoding="utf-8") as out:
        process = subprocess.Popen(
            meson(folder, arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        for line in process.stdout:
            out.write(line)
            ended = ENDED.match(line)
            said = progress.ended(ended[1], ended[2]) if ended else ""
            if said:
                print(said, flush=True)
        return process.wait()


def read_tests(folder, logbase):
    """The tests of that run. Meson appends the name of a wrapper to that of the log."""
    tests = []
    for path in (folder / "meson-logs").glob(f"{logbase}*.json"):
        with open(path, encoding="utf-8", errors="replace") as lines:
            tests += [json.loads(line) for line in lines]
    return tests


def append(path, lines):
    with open(path, "a", encoding="utf-8") as out:
        for line in lines:
            print(line, file=out)


def keep_output(out, step, test):
    name = re.sub(r"\W+", "-", test["name"])
    path = out / "logs" / f"{step}.{name}.again.log"
    path.write_text(failures.output(test), encoding="utf-8")
    return str(path)


def main(step, folder, out, *arguments):
    out = pathlib.Path(out)
    folder = out / folder
    log = out / "logs" / f"{step}.log"
    began = time.monotonic()
    for old in (folder / "meson-logs").glob(f"{step}*.json"):
        old.unlink()
    status = run(step, folder, log, ["--logbase", step, *arguments])
    took = time.monotonic() - began

    tests = read_tests(folder, step)
    of = {"passed": [], "failed": [], "skipped": [], "late": [], "wrong": []}
    for test in tests:
        of[failures.verdict(test)].append(test)
    again = of["late"] + of["wrong"]
    passed, failed, skipped = (len(of[v]) for v in ["passed", "failed", "skipped"])
    if status != 0 and failed + len(again) == 0:
        failed = 1  # it could not run them
        append(out / "failures", [f"FAILED   {step}"])
    append(out / "results", [f"{passed} {failed} {skipped}"])
    append(out / "failures", [f"FAILED   {step}: {failures.summary(test)}" for test in of["failed"]])
    append(
        out / "skipped",
        [f"{step}\t{failures.skip_reason(t)}\t{failures.bare_name(t)}" for t in of["skipped"]],
    )
    append(
        out / "again",
        [
            json.dumps(
                {
                    "step": step,
                    "folder": str(folder),
                    "arguments": arguments,
                    "env": dict(os.environ),
                    "name": failures.bare_name(test),
                    "full_name": test["name"],
                    "verdict": failures.verdict(test),
                    "cause": failures.late_cause(test) or failures.wrong_cause(test),
                    "log": keep_output(out, step, test),
                }
            )
            for test in again
        ],
    )
    counts = f"{took:.0f} s, {passed} passed, {skipped} skipped"
    if again:
        counts += f", {len(again)} to be run again"
    if failed:
        print(f"FAILED   {step}  {counts}, {failed} failed, log: {log}")
        print(failures.explain(of["failed"]) or failures.last(log.read_text("utf-8"), 40), end="")
    else:
        print(f"ok       {step}  {counts}")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    main(*sys.argv[1:])
