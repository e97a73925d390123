#!/usr/bin/python3
"""benchmarks/compare/node_targets.py: verdicts on suite node."""
import unittest

from comparing import KIB, MIB, row
from compare import node_targets
from compare.figures import Figures


class Verdicts(unittest.TestCase):
    def found(self, rows, sizes=(64 * MIB,), ranks=(8,), floor=None):
        return {verdict.what: verdict for verdict in node_targets.verdicts(Figures(rows), ranks, sizes, floor or {})}

    def test_large_private_buffers_are_held_against_open_mpi_intel_mpi_and_the_floor(self):
        rows = [row("picked", who, us, 8, 64 * MIB) for who, us in (("tutti", 100), ("Open MPI, picked", 349))]
        rows.append(row("Intel MPI", "Intel MPI", 105, 8, 64 * MIB))
        found = self.found(rows, floor={(8, 64 * MIB): 60})
        self.assertEqual(found["8 ranks, 64 MiB, tutti : Open MPI"].verdict, "short")
        self.assertEqual(found["8 ranks, 64 MiB, tutti : Open MPI"].reached, "3.49 x")
        self.assertEqual(found["8 ranks, 64 MiB, tutti : Intel MPI"].verdict, "pass")
        self.assertEqual(found["8 ranks, 64 MiB, part of the memory floor"].verdict, "pass")
        self.assertEqual(found["8 ranks, 64 MiB, tutti, shared : Open MPI"].verdict, "not measured")

    def test_both_medians_and_the_peers_setting_are_told(self):
        rows = [row("picked", "tutti", 2, 8, 64 * KIB), row("picked", "Open MPI, picked", 2500, 8, 64 * KIB)]
        found = self.found(rows, (64 * KIB,))
        self.assertEqual(found["8 ranks, 64 KiB, tutti : Open MPI"].detail, "2 µs : 2.5 ms (setting of picked)")

    def test_two_ranks_are_held_against_the_quickest_of_all_peers_up_to_a_mib(self):
        rows = [row("Open MPI", who, us, 2, size) for who, us in (("tutti", 10), ("Open MPI", 12))
                for size in (4, MIB, 4 * MIB)]
        rows += [row("Intel MPI", "Intel MPI", us, 2, size) for size, us in ((4, 9), (MIB, 11))]
        found = {what: v for what, v in self.found(rows, (4, MIB, 4 * MIB), (2,)).items() if "quickest" in what}
        self.assertEqual([(what, v.reached, v.verdict) for what, v in found.items()],
                         [("2 ranks, 4 B, tutti : quickest peer", "0.90 x", "short"),
                          ("2 ranks, 1 MiB, tutti : quickest peer", "1.10 x", "pass")])
        self.assertEqual(found["2 ranks, 4 B, tutti : quickest peer"].detail,
                         "10 µs : 9 µs (Intel MPI, setting of Intel MPI)")
        self.assertEqual(self.found([], (4,), (2,))["2 ranks, 4 B, tutti : quickest peer"].verdict, "not measured")

    def test_the_best_of_open_mpis_settings_counts_and_its_default_is_told(self):
        rows = [row("Open MPI", "tutti", 20, 8, 4), row("Open MPI", "Open MPI", 25, 8, 4),
                row("picked", "tutti", 20, 8, 4), row("picked", "Open MPI, picked", 22, 8, 4)]
        found = self.found(rows, (4,))["8 ranks, 4 B, tutti : Open MPI"]
        self.assertEqual((found.wanted, found.reached, found.verdict), (">= 1.2 x", "1.10 x", "short"))
        self.assertEqual(found.detail, "20 µs : 22 µs (setting of picked); default 25 µs, 1.25 x")

    def test_where_the_default_is_open_mpis_best_it_counts(self):
        rows = [row("Open MPI", "tutti", 20, 8, 4), row("Open MPI", "Open MPI", 25, 8, 4),
                row("picked", "tutti", 20, 8, 4), row("picked", "Open MPI, picked", 30, 8, 4)]
        found = self.found(rows, (4,))["8 ranks, 4 B, tutti : Open MPI"]
        self.assertEqual((found.reached, found.detail), ("1.25 x", "20 µs : 25 µs (setting of Open MPI)"))

    def test_without_a_picked_setting_open_mpis_best_is_not_known(self):
        rows = [row("Open MPI", who, us, 8, size) for who, us in (("tutti", 1), ("tutti, shared", 1), ("Open MPI", 900))
                for size in (4, 16 * KIB, 16 * MIB, 64 * MIB)]
        found = [v for v in self.found(rows, (4, 16 * KIB, 16 * MIB, 64 * MIB)).values() if "Open MPI" in v.what]
        self.assertEqual([v.verdict for v in found], ["not measured"] * 7)
        self.assertIn("default 900 µs, 900.00 x", found[0].detail)

    def test_each_number_of_ranks_has_its_own_factor_at_16_mib_and_from_64_mib(self):
        wanted = [found.wanted for n in (2, 4, 8) for size in (16 * MIB, 64 * MIB)
                  for found in node_targets.large(Figures([]), n, [size]) if "Open MPI" in found.what]
        self.assertEqual([text.split()[1] for text in wanted],
                         ["1.6", "3", "1.8", "4", "1.7", "3.3", "2.5", "5", "2.1", "4", "3.5", "6"])

    def test_horovods_default_counts_for_small_sizes_and_its_best_is_told(self):
        rows = [row("Open MPI", "tutti", 10, 2, size) for size in (4, 64 * KIB, 64 * MIB)]
        rows += [row(who, who, us, 2, size)
                 for who, us in (("Horovod", 200), ("Horovod, 0 ms", 25), ("Horovod, 0.1 ms", 30))
                 for size in (4, 64 * MIB)]
        rows.append(row("Horovod", "Horovod", 199, 2, 64 * KIB))
        found = {v.what: v for v in node_targets.verdicts(Figures(rows), (2,), (4, 64 * KIB, 64 * MIB), {})
                 if "Horovod" in v.what}
        self.assertEqual([(what, v.verdict) for what, v in found.items()],
                         [("2 ranks, 4 B, tutti : Horovod", "pass"), ("2 ranks, 64 KiB, tutti : Horovod", "short")])
        self.assertEqual(found["2 ranks, 4 B, tutti : Horovod"].detail,
                         "10 µs : 200 µs (setting of Horovod); best 25 µs, 2.50 x (setting of Horovod, 0 ms)")

    def test_without_horovods_default_small_sizes_are_not_measured_against_it(self):
        rows = [row("Open MPI", "tutti", 10), row("Horovod, 0 ms", "Horovod, 0 ms", 900)]
        verdicts = {
            sizes: [v.verdict for v in node_targets.verdicts(Figures(rows), (2,), sizes, {}) if "Horovod" in v.what]
            for sizes in ((4,), (MIB,))}
        self.assertEqual(verdicts, {(4,): ["not measured"], (MIB,): []})


if __name__ == "__main__":
    unittest.main()
