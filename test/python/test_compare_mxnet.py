#!/usr/bin/python3
"""benchmarks/compare/mxnet.py: verdicts and record of suite mxnet, and the gradients that its programs exchange."""
import sys
import unittest
from unittest import mock

from comparing import MIB, row
from compare import cli, mxnet, peers, record
from compare.contest import BenchError, Contest

sys.path.insert(0, str(peers.PEERS))
from vgg16 import vgg16


def step(who, us, size=MIB):
    return row(who, who, us, mxnet.STEP_RANKS, size)


def both_ways(together, apart, size=MIB):
    return [row("overlap", who, us, mxnet.OVERLAP_RANKS, size)
            for who, us in ((mxnet.TOGETHER, together), (mxnet.APART, apart))]


class Verdicts(unittest.TestCase):
    def test_a_step_is_to_be_three_times_as_fast_as_mxnets_own(self):
        def found(own, native):
            figures = mxnet.Figures([step(mxnet.OURS, own), step(mxnet.NATIVE, native)])
            return [(v.reached, v.verdict) for v in mxnet.step_verdicts(figures, [MIB])]
        self.assertEqual(found(10, 30), [("3.00 x", "pass")])
        self.assertEqual(found(10, 29), [("2.90 x", "short")])

    def test_where_mxnets_own_failed_nothing_is_judged(self):
        found, = mxnet.step_verdicts(mxnet.Figures([step(mxnet.OURS, 10)]), [MIB])
        self.assertEqual((found.reached, found.verdict), ("-", "not measured"))

    def test_overlap_is_to_save_its_part(self):
        def found(together):
            return [(v.reached, v.verdict) for v in mxnet.overlap_verdicts(mxnet.Figures(both_ways(together, 100)),
                                                                          [MIB])]
        self.assertEqual(found(85), [("0.85 x", "pass")])
        self.assertEqual(found(86), [("0.86 x", "short")])

    def test_the_gradients_are_vgg_16s(self):
        self.assertEqual((len(vgg16()), 4 * sum(vgg16())), (32, mxnet.VGG16))


class Sizes(unittest.TestCase):
    def test_each_has_processes_of_its_own_for_mxnets_own_store_can_be_created_but_once(self):
        contest = mock.Mock(race=lambda ranks, sizes, pace: [(ranks, *sizes)])
        self.assertEqual(mxnet.steps_of_sizes(contest, (MIB, 2 * MIB), mxnet.PACE),
                         [(mxnet.STEP_RANKS, MIB), (mxnet.STEP_RANKS, 2 * MIB)])


class Suite(unittest.TestCase):
    def measured(self, *has, words=()):
        request = cli.parse(["--suite", "mxnet", "--quick", "--rounds", "2", "--mxnet-python", "/p", *words])

        def race(contest, ranks, sizes, pace):
            if contest.name == mxnet.NATIVE and "fails" in has:
                raise BenchError("its servers did not start")
            return [row(contest.name, who, 10, ranks, size) for who in contest.names.values() for size in sizes]
        with mock.patch.object(peers, "has_module", lambda python, name: python == "/p" and name in has), \
                mock.patch.object(Contest, "race", race):
            return request, mxnet.measure(request)

    def test_its_record_has_all_rows_and_says_why_horovod_is_not_beside_them(self):
        request, outcome = self.measured("mxnet", "tutti")
        kept = record.document(request, {}, outcome)
        self.assertEqual({one["who"] for one in kept["rows"]},
                         {mxnet.OURS, mxnet.NATIVE, mxnet.APART, mxnet.TOGETHER})
        self.assertEqual([one["target"] for one in kept["targets"]], ["P13", "P13"])
        self.assertIn("does not build", kept["skipped"][mxnet.HOROVOD])

    def test_servers_that_fail_are_told_and_the_rest_is_measured(self):
        _, outcome = self.measured("mxnet", "tutti", "fails")
        self.assertIn("its servers did not start", outcome.skipped[f"{mxnet.NATIVE}, 4 ranks"])
        self.assertEqual([v.verdict for v in outcome.verdicts], ["not measured", "short"])

    def test_sizes_may_be_chosen(self):
        _, outcome = self.measured("mxnet", "tutti", words=("--bytes", "2M,4M"))
        self.assertEqual({one["bytes"] for one in outcome.rows}, {2 * MIB, 4 * MIB})

    def test_without_mxnet_or_the_package_it_says_how_to_get_it(self):
        with self.assertRaisesRegex(BenchError, "/p has no module mxnet: pip install .*mxnet==1.9.1"):
            self.measured("tutti")
        with self.assertRaisesRegex(BenchError, "/p has no module tutti: pip install ."):
            self.measured("mxnet")


if __name__ == "__main__":
    unittest.main()
