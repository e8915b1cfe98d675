#!/usr/bin/env python3
"""The two halves of a divided step together run every test.

usage: half_test.py TESTS BUILD

TESTS is the folder tests/, BUILD this build.
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TESTS, BUILD = sys.argv[1:]
sys.path.insert(0, str(pathlib.Path(TESTS) / "run"))
import half
import suites

DIVIDED = ["server", "faults"]
TESTS_OF_BUILD = suites.listed(BUILD, [])
suites.listed = lambda folder, arguments: TESTS_OF_BUILD  # it takes seconds
is_other_turn = half.is_other_turn
NAMES = [half.name_of(test) for test in TESTS_OF_BUILD]


class HalfTest(unittest.TestCase):
    def names(self, which, other_turn):
        half.is_other_turn = lambda: other_turn
        return half.chosen_tests(BUILD, which, DIVIDED, [])

    def test_a_divided_test_is_in_one_half_and_any_other_in_both(self):
        both = {
            half.name_of(test)
            for test in TESTS_OF_BUILD
            if suites.Progress.suite(test) not in DIVIDED
        }
        first, second = self.names("first", False), self.names("second", False)
        self.assertEqual(set(first) | set(second), set(NAMES))
        self.assertEqual(set(first) & set(second), both)
        self.assertLess(abs(len(first) - len(second)), len(NAMES) / 5)

    def test_a_name_is_there_once_and_in_mesons_order(self):
        for which in ["first", "second"]:
            names = self.names(which, False)
            self.assertEqual(len(names), len(set(names)))
            self.assertEqual(names, sorted(names, key=NAMES.index))

    def test_the_halves_change_places(self):
        self.assertEqual(self.names("first", True), self.names("second", False))
        self.assertEqual(self.names("second", True), self.names("first", False))
        self.assertNotEqual(self.names("first", True), self.names("first", False))

    def test_the_turn_changes_with_each_commit_and_each_merge(self):
        turns = []
        with tempfile.TemporaryDirectory() as folder:
            def git(*arguments):
                subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x", *arguments],
                               cwd=folder, check=True, stdout=subprocess.DEVNULL)

            def turn():
                here = os.getcwd()
                os.chdir(folder)
                turns.append(is_other_turn())
                os.chdir(here)

            git("init", "--quiet", "--initial-branch=main")
            for _ in range(3):
                git("commit", "--quiet", "--allow-empty", "--message=x")
                turn()
            git("checkout", "--quiet", "-b", "other", "HEAD^")
            git("commit", "--quiet", "--allow-empty", "--message=y")
            git("checkout", "--quiet", "main")
            git("merge", "--quiet", "--message=m", "other")
            turn()
        self.assertEqual(turns, [True, False, True, False])


unittest.main(argv=sys.argv[:1])
