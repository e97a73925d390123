#!/usr/bin/python3
"""benchmarks/compare/lanes.py: the facts that programs print about themselves."""
import unittest

from comparing import row
from compare import lanes


class Lanes(unittest.TestCase):
    def test_programs_that_say_the_same_share_a_line_and_what_is_not_said_is_not_made_up(self):
        rows = [{**row("a", "tutti", 1, ranks), "version": "1", "facts": facts} for ranks, facts in (
            (2, {"MPI": "Open MPI 4", "single copy in a node": "cma"}),
            (4, {"MPI": "Open MPI 4", "single copy in a node": "cma"}), (8, {}))]
        self.assertEqual([line.split(" (setting of a): ") for line in lanes.describe(rows)],
                         [["# 2, 4 ranks, a",
                           "Open MPI 4; yields when idle: not said; single copy: cma; processors of rank 0: not said"],
                          ["# 8 ranks, a",
                           "1; yields when idle: not said; single copy: not said; processors of rank 0: not said"]])


if __name__ == "__main__":
    unittest.main()
