#!/usr/bin/python3
"""benchmarks/compare/machine.py: the description of the machine."""
import os
import pathlib
import tempfile
import unittest
from unittest import mock

import comparing  # for the way to the modules
from compare import machine


class Machine(unittest.TestCase):
    def test_a_folder_that_meson_did_not_make_has_no_known_build_type(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(machine.build_type(pathlib.Path(folder)), "unknown")
        self.assertIn("unknown build", machine.build_text("unknown"))
        self.assertEqual(machine.build_text("release"), "")

    def test_what_others_and_the_host_take_is_told_of_the_time_that_has_passed(self):
        with tempfile.TemporaryDirectory() as folder:
            files = [pathlib.Path(folder, name) for name in ("before", "after")]
            for file, line in zip(files, ("cpu  10 20 30 400 40 5 6 7 0 0", "cpu  60 30 50 700 90 15 16 57 0 0")):
                file.write_text(line + "\ncpu0 1 2 3 4 5 6 7 8 0 0\n")
            passed = machine.times(files[0]).since(machine.times(files[1]))
        self.assertEqual((passed.busy, passed.stolen), (100 / 500, 50 / 500))

    def look(self, processors, busy):
        """The text for a second in which this many processors are busy."""
        with tempfile.TemporaryDirectory() as folder:
            looks = []
            for ran, rested in ((0, 0), (round(100 * busy), round(100 * (processors - busy)))):
                stat = pathlib.Path(folder, "stat")
                stat.write_text(f"cpu {ran} 0 0 {rested} 0 0 0 0 0 0\n"
                                + "".join(f"cpu{n} 0 0 0 0\n" for n in range(processors)) + "intr 1\n")
                looks.append(machine.times(stat))
        with mock.patch.object(machine, "times", side_effect=looks), mock.patch.object(machine, "LOOK", 0):
            return machine.busy_text(machine.busy_processors())

    def test_a_process_that_runs_is_said_so_on_a_machine_of_any_size(self):
        for processors in (1, 2, 64, 512):
            self.assertTrue(self.look(processors, 0.09).endswith("before the run: 0.09"))
            self.assertIn("before the run: 1.00 - something else is running", self.look(processors, 1))

    def test_work_that_takes_longer_than_at_best_tells_of_others_on_the_same_cores(self):
        self.assertEqual(machine.sharing([20, 10, 20, 10]), 1.5)
        self.assertTrue(machine.shared_text(1.05).endswith("took 1.05 times as long as at best"))
        self.assertIn("took 1.50 times as long as at best - somebody else computes on the same cores",
                      machine.shared_text(1.5))

    def test_each_processor_is_looked_at_and_all_may_be_used_afterwards(self):
        allowed, looked = os.sched_getaffinity(0), []
        with mock.patch.object(machine, "loop", lambda: looked.append(os.sched_getaffinity(0)) or len(looked)), \
                mock.patch.object(machine, "LEAST", 1), \
                mock.patch.object(machine, "LOOPS", 1):
            self.assertEqual(machine.shared_cores(), 1)
        self.assertEqual(looked, [{processor} for processor in sorted(allowed)])
        self.assertEqual(os.sched_getaffinity(0), allowed)


if __name__ == "__main__":
    unittest.main()
