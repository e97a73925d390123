#!/usr/bin/env python3
"""Jobs that are ended while their servers begin, of which one has made ready what it begins with and the other has not.

    test_interrupted_starts.py TUTTI_SERVER STEPS
"""
import os
import re
import signal
import sys
import time
import unittest

from processes import StateCase, stopped_writer_of

SERVER, STEPS = sys.argv[1:3]
#: The number of elements of the larger key. A server takes so long to write them that the test catches it at work.
LARGE = 4_000_000


class InterruptedStarts(StateCase):
    programs = SERVER, STEPS

    def setUp(self):
        super().setUp()
        self.before = set()

    def run_job(self, phase, *state, servers=2):
        job = self.job(servers=servers)
        running = [job.start_server(rank, *state) for rank in range(servers)]
        workers = job.start_workers("dist_sync", phase, 2, LARGE)
        self.check_all_ended_well(job, workers + running + [job.scheduler])

    def interrupted(self, *state):
        """Server 0 is ready, and server 1 writes: then all is ended."""
        job = self.job(servers=2)
        servers = [job.start_server(rank, *state) for rank in (1, 0)]
        workers = job.start_workers("dist_sync", "mixed-after-2", 2, LARGE)
        stopped_writer_of(servers[0])
        self.wait_until(lambda: self.ready(0), job)
        self.end_all(job, servers + workers)

    def wait_until(self, holds, job):
        deadline = time.monotonic() + 30
        while not holds() and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertTrue(holds(), str(job))

    def end_all(self, job, processes):
        for one in processes:
            one.kill()
        job.close()

    def ready(self, rank):
        """The states of a server that it had not when the job began."""
        return [path for path in self.files(self.folder / "new", f"server-{rank}-of-2.")
                if path.name not in self.before and re.search(r"\.(checkpoint-\d+|prepared)$", path.name)]

    def check_next_start(self, *state):
        self.run_job("mixed-after-2", *state)
        self.assertEqual(self.files(self.folder / "new", "prepared"), [])

    def first_job(self, name):
        self.run_job("mixed", "--state", self.folder / name)
        (self.folder / "new").mkdir(exist_ok=True)
        self.before = {path.name for path in self.files(self.folder / "new")}

    def test_a_restore_is_begun_again_and_no_value_begins_anew(self):
        self.first_job("old")
        for durable in ((), ("--durable", "each")):
            with self.subTest(durable=durable):
                state = ("--state", self.folder / "new", "--restore", self.folder / "old", *durable)
                self.interrupted(*state)
                self.check_next_start(*state)
                for path in self.files(self.folder / "new"):
                    path.unlink()

    def test_the_state_of_the_job_before_is_begun_with_again(self):
        for durable in ((), ("--durable", "each")):
            with self.subTest(durable=durable):
                self.first_job("new")
                state = ("--state", self.folder / "new", *durable)
                self.interrupted(*state)
                self.check_next_start(*state)
                for path in self.files(self.folder / "new"):
                    path.unlink()

    def test_the_state_of_the_job_before_may_be_restored(self):
        self.first_job("new")
        self.interrupted("--state", self.folder / "new")
        self.run_job("mixed-after-2", "--state", self.folder / "other", "--restore", self.folder / "new", servers=1)

    def test_what_all_have_made_ready_counts_where_one_has_nothing_else_any_more(self):
        self.first_job("new")
        job = self.job(servers=2)
        state = ("--state", self.folder / "new")
        servers = [job.start_server(rank, *state) for rank in range(2)]
        workers = job.start_workers("dist_sync", "mixed-after-2", 2, LARGE)
        writer = stopped_writer_of(servers[0])
        self.wait_until(lambda: self.ready(1), job)
        time.sleep(0.5)
        # It does not hear that all are ready.
        servers[1].send(signal.SIGSTOP)
        os.kill(writer, signal.SIGCONT)
        self.wait_until(lambda: any("checkpoint" in path.name for path in self.ready(0)), job)
        self.assertTrue(any("prepared" in path.name for path in self.ready(1)), str(job))
        self.end_all(job, servers + workers)
        self.run_job("mixed-after-2", "--state", self.folder / "other", "--restore", self.folder / "new", servers=1)
        self.check_next_start(*state)

    def test_a_durable_server_that_is_killed_when_it_is_welcomed_may_come_again(self):
        self.first_job("new")
        for folder, phase in (("new", "mixed-after-2"), ("empty", "mixed")):
            with self.subTest(folder=folder):
                job = self.job(servers=2, PS_VERBOSE="1")
                state = ("--state", self.folder / folder, "--durable", "each")
                servers = [job.start_server(rank, *state) for rank in range(2)]
                self.assertTrue(servers[1].wait_for("is connected to the scheduler"), str(job))
                time.sleep(0.5)
                servers[1].send(signal.SIGSTOP)
                workers = job.start_workers("dist_sync", phase, 2, LARGE)
                for one in workers:
                    self.assertTrue(one.wait_for("is connected to the scheduler"), str(job))
                time.sleep(0.5)
                servers[1].kill()
                servers[1] = job.start_server(1, *state)
                self.check_all_ended_well(job, workers + servers + [job.scheduler])

    def test_a_server_that_is_ended_while_it_begins_tells_the_others_why(self):
        self.first_job("new")
        job = self.job(servers=2)
        servers = [job.start_server(rank, "--state", self.folder / "new") for rank in range(2)]
        workers = job.start_workers("dist_sync", "mixed-after-2", 2, LARGE)
        stopped_writer_of(servers[1])
        self.assertEqual(servers[1].kill(signal.SIGTERM), 143, str(job))
        for one in workers:
            self.assertEqual(one.end(), 42, str(job))
            self.assertRegex(one.text, "caught peer_lost: server 1 is lost: it was ended by SIGTERM")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
