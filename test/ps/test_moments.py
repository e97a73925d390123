#!/usr/bin/env python3
"""Jobs that begin with what servers left at different moments.

    test_moments.py TUTTI_SERVER STEPS
"""
import re
import shutil
import sys
import unittest

from processes import StateCase

SERVER, STEPS = sys.argv[1:3]
#: Elements of the larger key, which is on all servers.
LARGE = 20_000
DOUBT = "of different moments"


class Moments(StateCase):
    programs = SERVER, STEPS

    def run_job(self, phase, steps, *state, servers=2, large=LARGE):
        job = self.job(servers=servers)
        running = [job.start_server(rank, *state) for rank in range(servers)]
        workers = job.start_workers("dist_sync", phase, steps, large)
        self.check_all_ended_well(job, workers + running + [job.scheduler])
        return job, workers

    def of_server(self, rank):
        return [path for path in self.files(self.folder / "old", f"server-{rank}-of-2.") if "lock" not in path.name]

    def leave_different_moments(self):
        """Leaves the state of some steps on server 1, and the last state on server 0."""
        job = self.job(servers=2)
        state = ("--state", self.folder / "old", "--durable", "each")
        servers = [job.start_server(rank, *state) for rank in range(2)]
        workers = job.start_workers("dist_sync", "mixed", 60, LARGE, 20)
        self.assertTrue(workers[0].wait_for(r"step 10\b"), str(job))
        kept = self.folder / "kept"
        kept.mkdir()
        for path in self.of_server(1):
            shutil.copy(path, kept)
        self.check_all_ended_well(job, workers + servers + [job.scheduler])
        for path in self.of_server(1):
            path.unlink()
        for path in kept.iterdir():
            shutil.copy(path, self.folder / "old")

    def check_all_are_told(self, job, workers):
        for one in [job.scheduler, *workers]:
            self.assertEqual(one.text.count(DOUBT), 1, str(job))
            found = re.search(r"server 0: (\d+) \(its last\), server 1: (\d+)\.", one.text)
            self.assertTrue(found, str(job))
            # The init counts as a round, too.
            self.assertEqual(int(found[1]), 61, str(job))
            self.assertIn(int(found[2]), range(11, 60), str(job))

    def test_the_next_job_says_of_which(self):
        self.leave_different_moments()
        job, workers = self.run_job("pull", 1, "--state", self.folder / "old")
        self.check_all_are_told(job, workers)

    def test_who_restores_them_says_so_too(self):
        self.leave_different_moments()
        job, workers = self.run_job("pull", 1, "--state", self.folder / "new", "--restore", self.folder / "old",
                                    servers=1)
        self.check_all_are_told(job, workers)

    def test_nothing_is_said_where_the_job_before_ended_in_order(self):
        for durable in ((), ("--durable", "each")):
            with self.subTest(durable=durable):
                state = ("--state", self.folder / f"state{len(durable)}", *durable)
                self.run_job("mixed", 5, *state)
                job, _ = self.run_job("mixed-after-5", 5, *state)
                self.assertNotIn(DOUBT, str(job))
                job, _ = self.run_job("mixed-after-10", 1, "--state", f"{state[1]}-new", "--restore", state[1],
                                      servers=1)
                self.assertNotIn(DOUBT, str(job))

    def test_nor_where_its_keys_were_pushed_unequally_often(self):
        for durable in ((), ("--durable", "each")):
            with self.subTest(durable=durable):
                state = ("--state", self.folder / f"state{len(durable)}", *durable)
                # Neither key is split, and one alone is pushed.
                self.run_job("pushpull", 5, *state, large=500)
                job, _ = self.run_job("pull", 1, *state, large=500)
                self.assertNotIn(DOUBT, str(job))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
