#!/usr/bin/env python3
"""Parts of the full tier: each test of g++'s build is in one of them, and a part that has passed is not run again.

    test_parts.py BUILD
"""
import collections
import contextlib
import io
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import run_tests
import test_parts as parts

BUILD = sys.argv.pop(1)
NOTHING = (("true",),)


class Covered(unittest.TestCase):
    def listed(self, *words):
        done = subprocess.run(["meson", "test", "-C", BUILD, "--list", "--no-rebuild", *words], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def test_each_test_but_the_excerpts_is_in_one_part(self):
        found = collections.Counter()
        for part in parts.PARTS:
            for chosen in part.selections:
                if chosen.build is parts.GCC:
                    found.update(self.listed(*chosen.words))
        self.assertEqual(found, collections.Counter(self.listed("--no-suite", "excerpt")))


class Stamped(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.inputs, self.outcome, self.ran = "these", "ok", []
        for where, name, stand_in in (
                (parts, "PASSED", pathlib.Path(folder.name)), (parts, "inputs", lambda: self.inputs),
                (run_tests, "meson_tests", self.meson_tests), (run_tests, "checks_by_clang", lambda *_: [self.step()]),
                (run_tests, "planted", self.step), (run_tests, "build", lambda *_: self.step()),
                (run_tests, "house_rules", lambda: [self.step()])):
            patch = mock.patch.object(where, name, stand_in)
            patch.start()
            self.addCleanup(patch.stop)

    @staticmethod
    def step():
        return run_tests.Step("a step", NOTHING)

    def meson_tests(self, tally, where, *_):
        self.ran.append(where.folder)
        tally.record("a test", self.outcome)

    def run_parts(self, chosen=parts.PARTS):
        """The number of tests that have passed, as a run of the parts says."""
        tally = run_tests.Tally()
        with contextlib.redirect_stdout(io.StringIO()):
            run_tests.run_parts(tally, list(chosen))
        return tally.passed

    def test_a_part_that_passed_on_these_inputs_is_not_run_again_and_its_tests_count(self):
        passed = self.run_parts()
        ran = len(self.ran)
        self.assertEqual(ran, sum(len(part.selections) for part in parts.PARTS))
        self.assertEqual((self.run_parts(), len(self.ran)), (passed, ran))

    def test_on_other_inputs_it_is_run_again(self):
        self.run_parts()
        ran, self.inputs = len(self.ran), "others"
        self.run_parts()
        self.assertEqual(len(self.ran), 2 * ran)

    def test_a_part_that_failed_is_run_again(self):
        self.outcome = "FAILED"
        self.run_parts()
        ran = len(self.ran)
        self.run_parts()
        self.assertEqual(len(self.ran), 2 * ran)

    def test_one_part_can_be_run_alone(self):
        part, = (part for part in parts.PARTS if part.name == "threads")
        self.run_parts([part])
        self.assertEqual(self.ran, ["build-tsan"])


if __name__ == "__main__":
    unittest.main()
