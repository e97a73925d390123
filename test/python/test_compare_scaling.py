#!/usr/bin/python3
"""benchmarks/compare/scaling.py: the settings of the study, and the ideal line."""
import unittest

import comparing  # pylint: disable=unused-import
from compare import cli, emulated, scaling
from compare.scaling import ALONE, APART, BESIDE, Setting

MB = 10**6


def row(setting, *rates):
    return {"who": str(setting), "steps_per_second": list(rates)}


class Scaling(unittest.TestCase):
    def test_all_that_the_study_asks_for_is_there(self):
        found = {(one.store, one.workers, one.servers, one.where) for one in scaling.SETTINGS}
        self.assertEqual(found, {
            ("local", 1, 0, ""), ("dist_sync", 1, 1, BESIDE), ("dist_sync_mpi", 2, 0, ""), ("dist_sync_mpi", 3, 0, ""),
            *((*one, where) for where in (BESIDE, APART) for one in (
                ("dist_sync", 2, 1), ("dist_sync", 2, 2), ("dist_async", 2, 2), ("dist_async", 3, 3)))})
        self.assertEqual(len({str(one) for one in scaling.SETTINGS}), len(scaling.SETTINGS))

    def test_the_ideal_line_is_what_one_worker_alone_does_times_the_workers(self):
        two = Setting("dist_sync", 2, 2, BESIDE)
        found = scaling.cells([row(ALONE, 10), row(two, 8, 9), row(two, 8, 7), row(two, 8, 8)])
        self.assertEqual(scaling.ideal(found, two), 20 * scaling.BATCH)
        _, verdict = scaling.verdicts(found)
        self.assertEqual(verdict.reached, "80.0 %")
        drawn = {(curve.panel, curve.label): curve.ys for curve in scaling.drawn(found)}
        self.assertEqual(drawn["together", "bound: ideal line"], [640, 1280, 1920])
        self.assertEqual(drawn["the first worker", two.series()], [512])

    def test_the_slowest_worker_is_told_beside_the_first(self):
        two = Setting("dist_async", 2, 2, APART)
        _, line = scaling.lines(scaling.cells([row(ALONE, 10), row(two, 9, 5)]))
        self.assertEqual(line[4:7], ["576", "320", "896"])

    def test_workers_are_on_the_first_hosts_and_servers_beside_them_or_behind(self):
        request = cli.parse(["--suite", "scaling"])
        job = emulated.OnHosts(lab=emulated.hosts.Lab("x", (1,) * 6))
        for where, names in ((BESIDE, "x-h0,x-h1"), (APART, "x-h3,x-h4")):
            one = scaling.contest(request, job, Setting("dist_async", 2, 2, where))
            line = one.launcher.line(2, one.program)
            self.assertEqual(line[line.index("--hosts") + 1], names)
            self.assertIn("x-h0:1,x-h1:1 ", line[-1])
            self.assertEqual(one.program[-2:], ("--optimizer", "sgd"))
        alone = scaling.contest(request, job, ALONE)
        self.assertEqual(alone.launcher.apart, 5)

    def test_computing_takes_longer_than_a_link_by_the_studys_factor(self):
        words = scaling.words_for(cli.parse(["--suite", "scaling"]), 100 * MB)
        of = lambda option: float(words[words.index(option) + 1])
        self.assertAlmostEqual(of("--compute-ms") + of("--forward-ms"),
                               scaling.COMPUTE * 4 * 25.557032e6 * scaling.SCALE / 100e6 * 1e3, places=1)


if __name__ == "__main__":
    unittest.main()
