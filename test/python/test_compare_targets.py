#!/usr/bin/python3
"""benchmarks/compare/targets.py: the verdicts, and the texts of figures."""
import unittest

from comparing import KIB, MIB, row
from compare import node_targets, targets
from compare.figures import Figures


class Verdicts(unittest.TestCase):
    def test_the_wanted_value_itself_passes_and_what_is_printed_decides(self):
        self.assertEqual([targets.judge(value, 1.8) for value in (1.8, 1.796, 1.794)], ["pass", "pass", "short"])
        self.assertEqual([targets.judge(value, 3, at_most=True) for value in (3, 3.01)], ["pass", "short"])

    def test_per_cents_and_what_is_near_0_or_1_are_not_rounded_to_whole_per_cents(self):
        self.assertEqual([targets.judge_share(share, 0.95) for share in (0.946, 0.9494, 0.9496)],
                         ["short", "short", "pass"])
        self.assertEqual(
            [targets.at_most("P8", "", idle, 0.01, "of a core", targets.FINE).verdict for idle in (0.0149, 0.0104)],
            ["short", "pass"])
        self.assertEqual(targets.at_most("P8", "", 0.0149, 0.01, "of a core", targets.FINE).reached, "0.015 of a core")
        figures = Figures([row("Open MPI", "tutti", 100, 2, 64 * MIB)])
        floor, = node_targets.of_floor(figures, 2, [64 * MIB], {(2, 64 * MIB): 59.6})
        self.assertEqual((floor.reached, floor.verdict), ("59.6 %", "short"))

    def test_nothing_passes_where_sums_are_wrong(self):
        verdicts = [targets.Verdict("P1", "", "", "", "", verdict) for verdict in ("pass", "short", "not measured")]
        wrong = [{"wrong": 0}, {"wrong": 2}]
        self.assertEqual([v.verdict for v in targets.trusted(verdicts, wrong)], ["wrong sums", "short", "not measured"])
        self.assertEqual(targets.trusted(verdicts, wrong[:1]), verdicts)

    def test_times_and_sizes_are_said_in_fitting_units(self):
        self.assertEqual([targets.times(us) for us in (0.5, 999, 2500, 3e6)], ["0.5 µs", "999 µs", "2.5 ms", "3 s"])
        self.assertEqual([targets.size_text(size) for size in (4, 16 * KIB, 64 * MIB)], ["4 B", "16 KiB", "64 MiB"])


if __name__ == "__main__":
    unittest.main()
