#!/usr/bin/python3
"""benchmarks/compare/outcome.py: curves from points."""
import unittest

import comparing  # for the way to the modules
from compare.outcome import Curve, curves


class Curves(unittest.TestCase):
    def test_points_are_drawn_in_their_order_along_x_whatever_order_they_were_measured_in(self):
        self.assertEqual(curves({("p", "tutti"): {8: 1, 2: 3}, ("q", "Gloo"): {4: 5}}),
                         [Curve("p", "tutti", [2, 8], [3, 1]), Curve("q", "Gloo", [4], [5])])

    def test_bounds_and_targets_are_no_ones_series(self):
        labels = ["tutti", "bound", "bound: payload of a link", "target", "Open MPI"]
        self.assertEqual([curve.bound for curve in curves({("p", label): {1: 1} for label in labels})],
                         [False, True, True, True, False])


if __name__ == "__main__":
    unittest.main()
