#!/usr/bin/env python3
"""Servers, the scheduler and workers that have nothing to do leave the processors alone.

    test_idle_jobs.py TUTTI_SERVER STEPS
"""
import pathlib
import sys
import tempfile
import time
import unittest

from processes import Job

SERVER, STEPS = sys.argv[1:3]
#: For how long they are watched, and how much of it each may use.
SECONDS, MOST = 2, 0.02


def seconds_used(process):
    """The processor time of all its threads. The file of the process itself counts only the first thread."""
    tasks = pathlib.Path("/proc", str(process.process.pid), "task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


class Idle(unittest.TestCase):
    def used_by(self, server_words=(), **env):
        """{title: seconds} of a job in which worker 1 sleeps for long, and worker 0 waits for it in a round."""
        job = Job(SERVER, STEPS, servers=2, **env)
        self.addCleanup(job.close)
        for rank in range(job.servers):
            job.start_server(rank, *server_words)
        workers = [job.start("worker", [STEPS, "dist_sync", "mixed", 1000, 1000, pause], rank)
                   for rank, pause in enumerate((0, 600_000))]
        for worker in workers:
            self.assertTrue(worker.wait_for("step 0"), str(job))
        time.sleep(1)  # what the first step has begun is over
        before = list(map(seconds_used, job.started))
        time.sleep(SECONDS)
        used = [seconds_used(one) - start for one, start in zip(job.started, before)]
        self.assertEqual({one.process.poll() for one in job.started}, {None}, str(job))
        return {one.title: seconds for one, seconds in zip(job.started, used)}

    def test_waiting_uses_no_more_than_a_hundredth_of_a_core(self):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        for how, words, env in (("as they are", (), {}), ("sending again what is lost", (), {"PS_RESEND": "1"}),
                                ("durable", ("--state", folder, "--durable", "each"), {})):
            with self.subTest(how):
                used = self.used_by(words, **env)
                self.assertEqual(len(used), 5)
                for title, seconds in used.items():
                    self.assertLess(seconds, MOST, f"{title} of {used}")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
