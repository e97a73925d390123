#!/usr/bin/python3
"""benchmarks/compare/negotiation.py: verdicts, lines and options of suite negotiation."""
import unittest

import comparing  # for the way to the modules
from compare import negotiation


class Steps(unittest.TestCase):
    def test_negotiation_wants_no_message_while_replaying_and_some_without(self):
        def steps(who, sent):
            return {"who": who, "ranks": 2, "time_us": {"p50": 30}, "control_messages": sent, "idle_cores": 0.001,
                    "iters": 9, "wrong": 0}
        rows = [steps(negotiation.REPLAYED, 0), steps(negotiation.REPLAYED, 1), steps(negotiation.ASKED, 4)]
        self.assertEqual([v.verdict for v in negotiation.verdicts(rows, [2])],
                         ["pass", "short", "pass", "pass", "not measured"])
        self.assertEqual([v.verdict for v in negotiation.verdicts(rows[::2], [2])][1], "pass")

    def test_a_step_is_held_against_the_best_of_horovods_with_as_many_ranks(self):
        rows = [{"who": who, "ranks": ranks, "time_us": {"p50": us}} for who, ranks, us in (
            (negotiation.REPLAYED, 2, 30), ("Horovod", 2, 5000), ("Horovod, 0 ms, grouped", 2, 597),
            ("DDP, Gloo", 2, 1),
            ("Horovod, 0.1 ms", 2, 600), (negotiation.REPLAYED, 8, 100), ("Horovod", 8, 2000),
            ("Horovod, 0 ms, grouped", 8, 9000))]
        found = [negotiation.against_horovod(rows, ranks) for ranks in (2, 8)]
        self.assertEqual([(v.reached, v.verdict) for v in found], [("19.90 x", "short"), ("20.00 x", "pass")])
        self.assertEqual(found[0].detail, "30 µs : 597 µs (Horovod, 0 ms, grouped)")

    def test_steps_of_peers_stand_in_the_table_without_what_only_tutti_counts(self):
        own = {"who": negotiation.REPLAYED, "ranks": 2, "time_us": {"p50": 30}, "control_messages": 3, "idle_cores": 0,
               "iters": 9}
        peer = {"who": "Horovod", "ranks": 2, "time_us": {"p50": 600}, "idle_cores": 0.3, "iters": 2}
        lines = negotiation.table_lines([{**one, "setting": "x"} for one in (own, peer)], [2])
        self.assertEqual([line[4:] for line in lines], [["30 µs-30 µs", "1.00", "3", 9, "0.00 %"],
                                                        ["600 µs-600 µs", "20.00", "-", 2, "30.00 %"]])
        self.assertEqual([curve.label for curve in negotiation.drawn([own, peer], [2])],
                         [negotiation.REPLAYED, "Horovod", "target"])

    def test_everyones_steps_have_the_same_part_before_them(self):
        warmup = [int(words[words.index("--warmup") + 1]) for words in
                  (negotiation.options(steps, 1)
                   for steps in (negotiation.STEPS, negotiation.STEPS // negotiation.PEERS_PART))]
        self.assertEqual(warmup, [1000, 25])


if __name__ == "__main__":
    unittest.main()
