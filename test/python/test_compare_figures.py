#!/usr/bin/python3
"""benchmarks/compare/figures.py: medians over rounds, and ratios of them."""
import unittest

from comparing import row
from compare.figures import Figures


class Medians(unittest.TestCase):
    def test_a_time_is_the_median_over_rounds(self):
        figures = Figures([row("a", "tutti", us) for us in (9, 1, 2)])
        self.assertEqual(figures.time("a", "tutti", 2, 4), 2)
        self.assertEqual(figures.spread("a", "tutti", 2, 4), (1, 9))
        self.assertIsNone(figures.time("a", "tutti", 4, 4))

    def test_a_ratio_is_that_of_the_medians_not_the_median_of_ratios(self):
        own, peer = (1, 2, 10), (20, 4, 6)
        figures = Figures([row("a", who, us) for who, times in (("tutti", own), ("Open MPI", peer)) for us in times])
        self.assertEqual(figures.best("tutti", "Open MPI", 2, 4).value, 3)

    def test_the_best_of_a_peers_settings_counts_against_tutti_of_the_same_process(self):
        figures = Figures([row("default", "tutti", 10), row("default", "Open MPI", 40),
                           row("picked", "tutti", 20), row("picked", "Open MPI, picked", 30),
                           row("Intel MPI", "Intel MPI", 5)])
        ratio = figures.best("tutti", "Open MPI", 2, 4)
        self.assertEqual((ratio.peer_us, ratio.own_us, ratio.setting), (30, 20, "setting of picked"))

    def test_a_peers_setting_is_told_for_the_ranks_that_it_had(self):
        rows = [{**row("picked", who, 1, ranks), "setting": f"the one for {ranks}"}
                for ranks in (2, 8) for who in ("tutti", "Open MPI, picked")]
        figures = Figures(rows)
        self.assertEqual([figures.best("tutti", "Open MPI", n, 4).setting for n in (2, 8)],
                         ["the one for 2", "the one for 8"])

    def test_a_peer_without_tutti_in_its_process_is_held_against_the_first_that_has(self):
        figures = Figures([row("default", "tutti", 10), row("picked", "tutti", 20), row("Gloo", "Gloo", 50)])
        self.assertEqual(figures.best("tutti", "Gloo", 2, 4).value, 5)
        self.assertIsNone(figures.best("tutti", "Horovod", 2, 4))

    def test_tutti_stands_as_beside_open_mpi_as_it_comes_not_as_in_its_luckiest_race_and_a_peer_by_its_best_setting(
            self):
        rows = [row("picked", "tutti", 1), row("picked", "Open MPI, picked", 3), row("Open MPI", "tutti", 4),
                row("Open MPI", "Open MPI", 9),
                row("Open MPI", "tutti, shared", 2), row("Intel MPI", "Intel MPI", 8),
                row("Intel MPI, yielding", "Intel MPI", 7)]
        self.assertEqual(Figures(rows).shown(),
                         {("tutti", 2, 4): 4, ("Open MPI, picked", 2, 4): 3, ("Open MPI", 2, 4): 9,
                                                 ("tutti, shared", 2, 4): 2, ("Intel MPI", 2, 4): 7})


if __name__ == "__main__":
    unittest.main()
