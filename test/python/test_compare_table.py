#!/usr/bin/python3
"""benchmarks/compare/table.py: tables for a terminal."""
import unittest

from comparing import row
from compare import outcome, table


class Tables(unittest.TestCase):
    def test_columns_line_up(self):
        self.assertEqual(table.grid(["who", "µs"], [["tutti", "3"], ["x", "12"]]), "who    µs\ntutti   3\nx      12")

    def test_wrong_sums_have_lines_of_their_own(self):
        rows = [{**row("a", "tutti", 1), "round": 1, "wrong": wrong} for wrong in (0, 3)]
        shown = table.of_outcome(outcome.Outcome("t", rows, [], {}, ["who"], [["tutti"]], [], ("x", "y")))
        self.assertEqual([line for line in shown.splitlines() if line.startswith("wrong")],
                         ["wrong: tutti (setting of a), 2 ranks, 4 bytes, round 2: 3 elements"])


if __name__ == "__main__":
    unittest.main()
