#!/usr/bin/env python3
"""The check that Python tests every promise that C++ tests."""
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/checks"))

import contract

CPP = """#include "store_fixture.h"
TEST_CASE("a rank's sum is right") {}
TEST_CASE(
    "a store left idle uses no more than "
    "1 % of a core, everywhere") {}
"""
PYTHON = """class Store:
    def test_a_ranks_sum_is_right(self):
    def test_a_store_left_idle_uses_no_more_than_1_of_a_core_everywhere(self):
"""


class Contract(unittest.TestCase):
    def problems(self, cpp=CPP, python=PYTHON, exempt=None):
        with tempfile.TemporaryDirectory() as folder, \
                mock.patch.object(contract, "EXEMPT", exempt or {}), \
                mock.patch.object(contract, "DEEPER", {}):
            root = pathlib.Path(folder)
            for name, text in (("test/mpi/store_test.cc", cpp), ("test/python/contract_store.py", python)):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
            return list(contract.problems_of(root))

    def test_sentences_that_both_languages_have_are_no_problem(self):
        self.assertEqual(self.problems(), [])

    def test_a_sentence_that_python_lacks_is_named_with_its_file(self):
        [problem] = self.problems(python=PYTHON.replace("_everywhere", "_here"))
        self.assertEqual(problem, 'test/mpi/store_test.cc: "a store left idle uses no more than 1 % of a core, '
                         'everywhere": no test of test/python/contract_*.py says so')

    def test_an_exempt_sentence_is_tested_nowhere_and_is_one_of_the_cpp_tests(self):
        exempt = {"a rank's sum is right": "no reason"}
        self.assertEqual(self.problems(python=PYTHON.replace("sum", "product"), exempt=exempt), [])
        [problem] = self.problems(exempt=exempt)
        self.assertIn("is tested and exempt", problem)
        [problem] = self.problems(exempt={"nobody says so": "no reason"})
        self.assertIn('exempt, and no C++ test says so: "nobody says so"', problem)

    def test_tests_without_a_store_of_the_fixture_promise_nothing(self):
        [problem] = self.problems(cpp=CPP.replace("store_fixture", "member"))
        self.assertIn("no test of the contract is there", problem)

    def test_the_sources_of_this_repository_agree(self):
        self.assertEqual(list(contract.problems_of(pathlib.Path(__file__).resolve().parents[2])), [])


if __name__ == "__main__":
    unittest.main()
