#!/usr/bin/env python3
"""The check that every promise of the drop-in for MXNet has tests named after it."""
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/checks"))

import mxnet_contract

DRIVER = """PARTS = ("mxnet_store",)
class MXNet:
    def test_programs_end_in_order(self):
        pass
"""
STORE = """class Named:
    def test_a_rank_0s_value_is_everybodys(self):
"""
MORE = {}  # files, by name
LINES = {"what MXNet does": ("a rank 0's value is everybody's", "programs end in order")}


class MXNetContract(unittest.TestCase):
    def problems(self, lines=None, driver=DRIVER, store=STORE):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "test/python").mkdir(parents=True)
            (root / "test/python/test_mxnet.py").write_text(driver)
            (root / "test/python/mxnet_store.py").write_text(store)
            for name, text in MORE.items():
                (root / "test/python" / name).write_text(text)
            return list(mxnet_contract.problems_of(root, lines or LINES))

    def test_lines_whose_sentences_are_all_tested_are_no_problem(self):
        self.assertEqual(self.problems(), [])

    def test_a_sentence_that_no_test_says_is_named_with_its_line(self):
        [problem] = self.problems(store=STORE.replace("rank_0s", "rank_1s"))
        self.assertEqual(problem, '"what MXNet does": no test of test/python/mxnet_*.py says '
                         '"a rank 0\'s value is everybody\'s"')

    def test_a_line_has_one_sentence_at_least(self):
        self.assertEqual(self.problems({"what MXNet does": ()}), ['"what MXNet does": no test is named after it'])

    def test_a_file_that_is_not_run_tests_nothing(self):
        [problem] = self.problems(driver=DRIVER.replace("mxnet_store", "mxnet_other"))
        self.assertIn("mxnet_store.py says \"a rank 0's value is everybody's\", and test_mxnet.py does not run it",
                      problem)

    def test_a_file_that_is_only_spoken_of_is_not_run(self):
        other = DRIVER.replace("mxnet_store", "mxnet_other")
        for driver in (f"{other}        # as mxnet_store does\n", f'"""mxnet_store"""\n{other}',
                       DRIVER.replace("mxnet_store", "mxnet_store_2")):
            with self.subTest(driver):
                [problem] = self.problems(driver=driver)
                self.assertIn("does not run it", problem)

    def test_a_file_may_be_run_by_one_that_the_driver_imports(self):
        with mock.patch.dict(MORE, {"mxnet_hosts.py": 'WORDS = ["mxnet_store.py"]\n'}):
            self.assertEqual(self.problems(driver=f"import mxnet_hosts\n{DRIVER.replace('mxnet_store', '')}"), [])


if __name__ == "__main__":
    unittest.main()
