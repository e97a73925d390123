#!/usr/bin/env python3
"""Messages that are lost, late or doubled on purpose: every value is right to the last bit.

    test_losses.py TUTTI_SERVER STEPS
"""
import re
import signal
import sys
import unittest

from processes import Job

SERVER, STEPS = sys.argv[1:3]
RESEND = {"PS_RESEND": "1", "PS_RESEND_TIMEOUT": "20"}
COUNTS = re.compile(r"(\S.*) to (.*): (\d+) messages lost, (\d+) delayed and (\d+) doubled on purpose .*; "
                    r"(\d+) sent again, (\d+) came again, (\d+) came early")
COUNTED = ("lost", "delayed", "doubled", "sent again", "came again", "came early")


class LossCase(unittest.TestCase):
    def job(self, **how):
        job = Job(SERVER, STEPS, **how)
        self.addCleanup(job.close)
        return job

    def run_well(self, job, *words):
        servers = [job.start_server(rank) for rank in range(job.servers)]
        workers = job.start_workers(*words)
        for one in workers + servers + [job.scheduler]:
            self.assertEqual(one.end(60), 0, str(job))
        for one in workers:
            self.assertIn("all values were right", one.text)
        return workers, servers


class Losses(LossCase):
    def sums(self, job):
        """The sums by kind, over all processes that count."""
        found = [list(map(int, match.groups()[2:])) for match in COUNTS.finditer(str(job))]
        self.assertTrue(found, str(job))
        return dict(zip(COUNTED, map(sum, zip(*found))))

    def test_sums_are_right_where_a_tenth_of_the_messages_is_lost(self):
        for kind in ("dist_sync", "dist_async"):
            with self.subTest(kind=kind):
                job = self.job(servers=2, PS_DROP_MSG="10", **RESEND)
                self.run_well(job, kind, "mixed", 100, 20_000)
                sums = self.sums(job)
                self.assertGreater(sums["lost"], 50, sums)
                self.assertGreater(sums["sent again"], 50, sums)

    def test_and_where_others_are_late_or_come_twice(self):
        job = self.job(servers=2, PS_DROP_MSG="5", PS_DELAY_MSG="5", PS_DUPLICATE_MSG="10", **RESEND)
        self.run_well(job, "dist_sync", "mixed", 100, 20_000)
        sums = self.sums(job)
        for what in COUNTED:
            self.assertGreater(sums[what], 10, sums)

    def test_a_barrier_and_the_end_bear_losses_too(self):
        job = self.job(servers=1, PS_DROP_MSG="30", **RESEND)
        self.run_well(job, "dist_sync", "barrier", 20, 10)

    def test_losing_messages_for_good_is_refused(self):
        job = self.job(PS_DROP_MSG="10")
        self.assertEqual(job.scheduler.end(), 2, str(job))
        self.assertIn("set PS_RESEND=1, too", job.scheduler.text)


class Verbose(LossCase):
    def test_each_process_logs_its_connections(self):
        job = self.job(servers=2, PS_VERBOSE="1")
        workers, servers = self.run_well(job, "dist_sync", "mixed", 2, 10)
        for rank, worker in enumerate(workers):
            self.assertRegex(worker.text, rf"worker {rank} is connected to the scheduler at \S+ at 127\.0\.0\.1:\d+")
            for server in range(2):
                self.assertIn(f"worker {rank} is connected to server {server} on this machine", worker.text)
        for rank, server in enumerate(servers):
            for worker in range(2):
                self.assertIn(f"server {rank} is connected to worker {worker} on this machine", server.text)
        # A worker's process has a connection of its own.
        self.assertEqual(len(re.findall("the scheduler is connected to node", job.scheduler.text)), 6)
        self.assertNotIn("a message of", str(job))

    def test_and_at_two_every_message(self):
        job = self.job(servers=1, PS_VERBOSE="2")
        workers, servers = self.run_well(job, "dist_sync", "mixed", 2, 10)
        self.assertRegex(workers[0].text, r"worker 0 to server 0: a message of \d+ bytes")
        self.assertRegex(servers[0].text, r"server 0 from worker 1: a message of \d+ bytes")


class Stopping(LossCase):
    def test_a_scheduler_that_is_told_to_end_says_so_to_all(self):
        job = self.job(servers=1)
        server = job.start_server(0)
        workers = job.start_workers("dist_sync", "mixed", 1_000_000, 10)
        self.assertTrue(workers[0].wait_for(r"step 10\b"), str(job))
        self.assertEqual(job.scheduler.kill(signal.SIGTERM), 1, str(job))
        for one in workers + [server]:
            self.assertIn(one.end(), (1, 42), str(job))
            self.assertIn("the scheduler is lost: it was ended by SIGTERM", one.text)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
