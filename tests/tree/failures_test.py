#!/usr/bin/env python3
"""Only a failure by a time limit is late, only one of assertions alone is wrong, and only such a test
that then passes each time is unsteady.

usage: failures_test.py TESTS PROGRAM

TESTS is the folder tests/, PROGRAM the program of late_cases.c.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TESTS, PROGRAM = sys.argv[1:]
sys.path.insert(0, str(pathlib.Path(TESTS) / "run"))
import suites  # this makes `failures` known
import again
import failures

TIMEOUT = {
    "name": "relock:faults+wire / cut faults",
    "result": "TIMEOUT",
    "duration": 120.0,
    "returncode": -15,
    "stdout": "[ RUN      ] a_waiter_goes_on\n",
    "stderr": "",
}


def run(*cases):
    """What Meson's log says of a run of these cases."""
    ended = subprocess.run([PROGRAM, *cases], capture_output=True, text=True, check=False)
    return {
        "name": "relock:unit / late",
        "result": "FAIL" if ended.returncode != 0 else "OK",
        "duration": 0.1,
        "returncode": ended.returncode,
        "stdout": ended.stdout,
        "stderr": ended.stderr,
    }


class ProgramTest(unittest.TestCase):
    def assert_verdict(self, verdict, *cases):
        test = run(*cases)
        self.assertEqual(failures.verdict(test), verdict, f"{cases}: {test}")

    def test_an_assertion_of_a_wait_whose_deadline_passed_is_late(self):
        self.assert_verdict("late", "late_wait")
        self.assertIn("wait_until(never", failures.late_cause(run("late_wait")))

    def test_a_duration_that_is_too_long_is_late(self):
        self.assert_verdict("late", "late_duration")
        self.assert_verdict("late", "late_wait", "late_duration")

    def test_a_wrong_result_is_not_late(self):
        self.assert_verdict("wrong", "wrong_value")
        self.assert_verdict("wrong", "wrong_value_after_a_late_wait")
        self.assert_verdict("wrong", "wrong_answer_after_a_wait_that_was_to_be_late")
        self.assert_verdict("wrong", "wrong_answer_after_a_wait_in_time")
        self.assert_verdict("wrong", "a_wait_that_should_have_been_in_vain")
        self.assertIn("late_cases.c:", failures.wrong_cause(run("wrong_value")))

    def test_a_late_case_excuses_no_other(self):
        self.assert_verdict("wrong", "late_wait", "wrong_value")
        self.assert_verdict("wrong", "wrong_value", "late_wait")
        self.assert_verdict("failed", "crash", "late_wait")
        self.assert_verdict("failed", "crash", "wrong_value")
        self.assert_verdict("failed", "late_wait_that_leaves_something")

    def test_a_leak_is_not_late(self):
        self.assert_verdict("failed", "leak")

    def test_a_crash_is_not_late(self):
        self.assert_verdict("failed", "crash")
        self.assert_verdict("failed", "abort")


class LogTest(unittest.TestCase):
    def assert_verdict(self, verdict, **changes):
        test = TIMEOUT | changes
        self.assertEqual(failures.verdict(test), verdict, str(test))

    def test_a_program_that_meson_ended_is_late(self):
        self.assert_verdict("late")
        self.assertIn("a_waiter_goes_on", failures.late_cause(TIMEOUT))

    def test_a_report_before_it_is_not_late(self):
        for report in [
            "==12==ERROR: AddressSanitizer: heap-use-after-free",
            "WARNING: ThreadSanitizer: data race (pid=12)",
            "../lib/lock/state/hold.c:12:3: runtime error: signed integer overflow",
            "==12== Invalid read of size 8",
            "t: ../lib/client.c:7: relock_client_free: Assertion `!client' failed.",
            "../tests/faults/line_test.c:12: child: held",
            "FAILED with seed 12; histories and logs are in /tmp/relock-chaos-1",
            "[   LINE   ] --- ../tests/a_test.c:3: error: Failure!",
        ]:
            self.assert_verdict("failed", stderr=f"{report}\n")
            for late in ["", "late: x at ../tests/b_test.c:3\n"]:
                self.assert_verdict(
                    "failed",
                    result="FAIL",
                    returncode=1,
                    stderr=f"{report}\n{late}[   LINE   ] --- ../tests/b_test.c:3: error: Failure!",
                )

    def test_a_status_that_is_not_the_number_of_late_cases_is_not_late(self):
        late = (
            "late: x at ../tests/b_test.c:3\n"
            "[   LINE   ] --- ../tests/b_test.c:3: error: Failure!\n"
        )
        self.assert_verdict("late", result="FAIL", returncode=1, stderr=late)
        for status in [2, 23, 66, 70, 99, -6, -9, -11, 139]:
            self.assert_verdict("failed", result="FAIL", returncode=status, stderr=late)

    def test_what_a_checker_finds_is_not_late(self):
        self.assert_verdict(
            "failed", result="FAIL", returncode=1, stdout="two certain holders of orders\n"
        )

    def test_meson_could_not_run_it(self):
        self.assert_verdict("failed", result="ERROR", returncode=None)

    def test_a_skipped_test_says_why(self):
        test = TIMEOUT | {"result": "SKIP", "stderr": "there is no haproxy: skipped\n"}
        self.assertEqual(failures.verdict(test), "skipped")
        self.assertEqual(failures.skip_reason(test), "there is no haproxy")


class AgainTest(unittest.TestCase):
    def judge(self, n, bad=(), wrong=0):
        """Of `n` tests, of which the first `wrong` are wrong and the others late, and those named
        fail in these runs."""
        self.runs = []

        def failure(late, time):
            self.runs.append((late["name"], time))
            return "wrong" if (late["name"], time) in bad else ""

        lates = [
            {
                "step": "gcc",
                "name": f"t{i}",
                "verdict": "wrong" if i < wrong else "late",
                "cause": "not in time",
                "log": f"t{i}.log",
            }
            for i in range(n)
        ]
        return again.judge(lates, failure)

    def test_one_that_passes_twice_is_unsteady(self):
        unsteady, failed = self.judge(3)
        self.assertEqual(len(self.runs), 6)
        self.assertEqual(len(unsteady), 3)
        self.assertEqual(unsteady[0], "unsteady gcc: t0  not in time; log: t0.log")
        self.assertEqual(failed, [])

    def test_one_that_fails_once_more_has_failed(self):
        for time in [1, 2]:
            unsteady, failed = self.judge(2, bad=[("t1", time)])
            self.assertEqual(len(unsteady), 1)
            self.assertEqual(len(failed), 1)
            self.assertIn("gcc: t1", failed[0])

    def test_more_than_three_fail(self):
        unsteady, failed = self.judge(4)
        self.assertEqual((unsteady, len(failed), self.runs), ([], 4, []))

    def test_a_wrong_one_has_to_pass_five_times(self):
        unsteady, failed = self.judge(1, wrong=1)
        self.assertEqual((len(unsteady), failed, len(self.runs)), (1, [], 5))
        unsteady, failed = self.judge(1, bad=[("t0", 5)], wrong=1)
        self.assertEqual((unsteady, len(failed)), ([], 1))

    def test_two_wrong_ones_fail(self):
        unsteady, failed = self.judge(3, wrong=2)
        self.assertEqual((unsteady, len(failed), self.runs), ([], 3, []))


class RunAgainTest(unittest.TestCase):
    """Of two tests of one name, the one of the suite server fails."""

    PROJECT = """project('relock')
foreach suite : ['unit', 'server']
    test('line', find_program('./program'), args: suite, suite: suite)
endforeach
test('two words', find_program('./program'), args: 'unit', suite: 'unit')
"""
    PROGRAM = """#!/bin/sh
[ "$1" = unit ]
"""

    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.folder = pathlib.Path(temporary.name)
        (self.folder / "meson.build").write_text(self.PROJECT)
        (self.folder / "program").write_text(self.PROGRAM)
        (self.folder / "program").chmod(0o755)
        subprocess.run(
            ["meson", "setup", "build"], cwd=self.folder, stdout=subprocess.DEVNULL, check=True
        )

    def failure(self, suite, *arguments):
        test = {
            "step": "gcc",
            "folder": str(self.folder / "build"),
            "arguments": arguments,
            "env": dict(os.environ),
            "name": "line",
            "full_name": f"relock:{suite} / line",
            "log": str(self.folder / "log"),
        }
        return again.failure(test, 1)

    def test_a_test_is_judged_by_itself(self):
        self.assertEqual(self.failure("unit"), "")
        self.assertIn("alone, time 1", self.failure("server"))
        self.assertEqual(self.failure("faults"), "it could not be run again")

    def test_one_of_a_half_runs_without_the_others(self):
        named = ["--print-errorlogs", "--no-suite", "faults", "line", "two words", "--wrapper", "env"]
        self.assertEqual(self.failure("unit", *named), "")
        log = next((self.folder / "build" / "meson-logs").glob("again-gcc-1*.json"))
        self.assertNotIn("two words", log.read_text("utf-8"))


class ProgressTest(unittest.TestCase):
    def test_a_suite_that_has_ended_is_one_line(self):
        tests = [f"relock:unit{marks} / {name}" for marks, name in [("", "a"), ("+tree", "b c")]]
        tests += [f"relock:server+wire / {i}" for i in range(9)]
        progress = suites.Progress("gcc", tests)
        self.assertEqual(progress.ended(tests[0], "OK"), "")
        self.assertIn(
            "all 2 tests of unit have ended, 1 failed; to go: 9 of 9 in server",
            progress.ended(tests[1], "FAIL"),
        )
        for test in tests[2:7]:
            progress.ended(test, "SKIP")
        progress.said -= suites.EVERY_S
        self.assertIn("to go: 6, 7, 8", progress.ended(tests[7], "OK"))

    def test_mesons_lines_are_understood(self):
        ended = suites.ENDED.match(
            "  2/368 relock:unit+tree / the header is good c++11   TIMEOUT        0.12s   exit 1"
        )
        self.assertEqual(ended.groups(), ("relock:unit+tree / the header is good c++11", "TIMEOUT"))


unittest.main(argv=sys.argv[:1])
