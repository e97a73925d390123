#!/usr/bin/python3
"""benchmarks/compare/openmpi.py: Open MPI's settings, and the choice of the fastest."""
import pathlib
import tempfile
import unittest
from unittest import mock

from comparing import KIB, MIB, contest, row
from compare import openmpi
from compare.contest import BenchError, Contest


class Settings(unittest.TestCase):
    def test_screening_runs_each_candidate_once_and_keeps_each_sizes_quickest(self):
        ran, lost = [], {}
        times = {"3": {4: 2, 64: 30}, "4": {4: 3, 64: 20}}

        def race(one, ranks, sizes, _):
            number = one.env["OMPI_MCA_coll_tuned_allreduce_algorithm"]
            ran.append((number, sizes))
            if number == "6":
                raise BenchError("it fell")
            return [row("screening", "Open MPI", times[number][size], ranks, size) for size in sizes]
        with mock.patch.object(Contest, "race", race):
            choice = openmpi.screen(contest("x"), 8, (4, 64), openmpi.settings(True, 8), lost)
        self.assertEqual({size: setting.algorithm for size, setting in choice.items()}, {4: 3, 64: 4})
        self.assertEqual(ran, [(number, (4, 64)) for number in "346"])
        self.assertEqual(list(lost.values()), ["it fell"])

    def screened(self, ranks, sizes, candidates, wrong=()):
        """Returns ({setting: sizes for which it ran}, paces, the chosen settings)."""
        ran, paces = {}, set()

        def race(one, _, all_sizes, pace):
            name = next(setting.name for setting in candidates if dict(setting.env) == one.env)
            ran[name] = one.sizes_of(all_sizes)
            paces.add(pace)
            return [{**row("screening", "Open MPI", len(ran), ranks, size), "wrong": int(name in wrong)}
                    for size in ran[name]]
        with mock.patch.object(Contest, "race", race):
            choice = openmpi.screen(contest("x"), ranks, sizes, candidates, {})
        return ran, paces, choice

    def test_a_segmented_ring_has_segments_and_no_candidate_runs_what_it_cannot_be_best_for(self):
        ran, paces, _ = self.screened(8, (MIB, 16 * MIB), openmpi.on_hosts(False))
        self.assertEqual({name: sizes for name, sizes in ran.items() if "segment" in name or "doubling" in name},
                         {"coll_tuned recursive doubling": [MIB],
                          "coll_tuned segmented ring, segments of 32K": [MIB, 16 * MIB],
                          "coll_tuned segmented ring, segments of 128K": [MIB, 16 * MIB],
                          "coll_tuned segmented ring, segments of 1M": [16 * MIB]})
        self.assertIn("coll_tuned ring, eager limit of 512K", ran)
        pace, = paces
        self.assertEqual((pace.least, pace.warmup), (3, 1))
        self.assertEqual(self.screened(2, (16 * MIB,), openmpi.on_hosts(False))[0]["coll_tuned recursive doubling"],
                         [16 * MIB])

    def test_links_rest_while_candidates_are_compared_as_they_do_in_the_race(self):
        paces = []

        def race(_, __, ___, pace):
            paces.append(pace.words())
            return []
        with mock.patch.object(Contest, "race", race):
            openmpi.screen(contest("x"), 2, (4,), openmpi.on_hosts(True)[:1], {}, rest=2.0)
            openmpi.screen(contest("x"), 2, (4,), openmpi.on_hosts(True)[:1], {})
        self.assertEqual([words[words.index("--rest") + 1] for words in paces], ["2", "0"])

    def test_a_candidate_with_wrong_sums_is_not_picked(self):
        first, second = openmpi.on_hosts(True)[:2]
        self.assertEqual(self.screened(2, (4,), [first, second], wrong=(first.name,))[2], {4: second})

    def test_each_ranks_own_core_is_a_setting_where_there_are_as_many(self):
        with mock.patch("os.sched_getaffinity", return_value={0, 1}):
            self.assertEqual(
                [[setting.env for setting in openmpi.settings(True, ranks) if setting.name == "bound to cores"]
                 for ranks in (2, 4)], [[(("OMPI_MCA_hwloc_base_binding_policy", "core"),)], []])

    def test_a_rule_has_its_segment_and_the_setting_names_it(self):
        ring, segmented = openmpi.tuned(4), openmpi.tuned(openmpi.SEGMENTED, 128 * KIB)
        with tempfile.TemporaryDirectory() as folder:
            picked, = openmpi.picked(contest("x"), 4, {MIB: segmented, 4: ring}, pathlib.Path(folder))
            rules = pathlib.Path(folder, "coll_tuned-4.rules").read_text()
        self.assertEqual(rules.split("\n")[5:], ["0 4 0 0", f"{MIB} 5 0 {128 * KIB}", ""])
        self.assertEqual(picked.setting, "coll_tuned by size: ring, segmented ring, segments of 128K")
        self.assertEqual(dict(segmented.env)["OMPI_MCA_coll_tuned_allreduce_algorithm_segmentsize"], str(128 * KIB))

    def test_each_size_gets_the_algorithm_that_was_quickest_for_it(self):
        tuned, other = openmpi.tuned(3), openmpi.Setting("coll_sm", (("a", "b"),))
        choice = {4: other, 64: tuned, 4096: tuned}
        with tempfile.TemporaryDirectory() as folder:
            picked = openmpi.picked(contest("x"), 8, choice, pathlib.Path(folder))
            rules = pathlib.Path(folder, "coll_tuned-8.rules").read_text()
        self.assertEqual([one.sizes_of([4, 64, 4096]) for one in picked], [[64, 4096], [4]])
        self.assertEqual(rules.split("\n"), ["1", "2", "1", "8", "2", "0 3 0 0", "4096 3 0 0", ""])


if __name__ == "__main__":
    unittest.main()
