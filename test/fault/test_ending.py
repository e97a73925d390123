"""Programs that end as they should not: no hang, no crash without a word, and MPI is left in order where it can be.

    test_ending.py ENDING ON_HOSTS [unittest options]
"""
import os
import sys
import unittest

from jobs import NO_HOSTS, Job, mpirun

ENDING, ON_HOSTS = sys.argv[1:3]
RANKS = 3
# A forked child has none of its parent's threads: what only they held looks leaked there.
NO_LEAK_CHECK = {"ASAN_OPTIONS": ":".join([os.environ.get("ASAN_OPTIONS", ""), "detect_leaks=0"])}


class Endings(unittest.TestCase):
    def end(self, how, **env):
        return Job(mpirun(RANKS, ENDING, how), **env)

    def every_rank(self, job, pattern):
        for rank in range(RANKS):
            self.assertTrue(job.lines(rf"\brank {rank}\b.*{pattern}"), job)

    def test_a_store_that_is_open_when_main_returns_is_closed_and_every_rank_says_so(self):
        job = self.end("open")
        self.assertEqual(job.code, 0, job)
        self.every_rank(job, "a store was still open when the process ended with status 0: it is closed now")

    def test_a_rank_that_exits_in_the_middle_says_that_its_store_was_open_and_the_job_ends(self):
        job = self.end("exit")
        # Rank 1's status, or that of a survivor, which aborts: when mpirun finds several ended at once, it takes any.
        self.assertIn(job.code, (3, 134), job)
        self.assertTrue(job.lines("rank 1.*a store was still open when the process ended with status 3: it stays open"),
                        job)

    def test_a_store_that_dies_in_a_callback_is_named_as_the_reason_of_the_end(self):
        job = self.end("callback")
        self.assertNotEqual(job.code, 0, job)
        self.assertTrue(job.lines("critical: a callback or a deleter destroyed the last owner of this store"), job)
        self.assertFalse(job.lines("terminate called"), job)

    def test_a_rank_that_fails_by_itself_says_internal_and_to_the_others_it_is_lost(self):
        job = self.end("memory")
        self.assertTrue(job.lines("rank 1 caught internal: rank 1 failed: std::bad_alloc"), job)
        for rank in (0, 2):
            self.assertTrue(job.lines(rf"rank {rank} caught peer_lost: rank 1 is lost: std::bad_alloc.*'key'"), job)
        self.assertEqual(len(job.lines("error: rank 1 failed")), 1, job)

    def test_a_rank_that_fails_while_it_closes_its_store_and_a_tensor_moves_leaves_nobody_waiting(self):
        job = self.end("leaving")
        self.every_rank(job, "closed its store")
        self.assertTrue(job.lines("error: rank 1 failed: std::bad_alloc"), job)
        for rank in (0, 2):
            self.assertTrue(job.lines(rf"\brank {rank}\b.*rank 1 is lost: std::bad_alloc"), job)

    def test_mpi_may_be_finalised_beside_the_stores_destructor(self):
        job = self.end("finalise")
        self.assertEqual(job.code, 0, job)
        self.every_rank(job, "ended in order")
        self.assertFalse(job.lines("MPI is finalised while a store is open"), job)

    def test_a_forked_child_may_exit_and_drop_the_store_and_the_store_goes_on(self):
        job = self.end("fork", **NO_LEAK_CHECK)
        self.assertEqual(job.code, 0, job)
        self.every_rank(job, "ended in order")
        self.assertFalse(job.lines("has a child|a store was still open"), job)

    @unittest.skipIf(NO_HOSTS, NO_HOSTS)
    def test_a_forked_child_that_drops_the_store_leaves_what_its_parent_receives_alone(self):
        for _ in range(4):
            job = Job([ON_HOSTS, "--rate", "500mbit", "2x1", ENDING, "fork"], **NO_LEAK_CHECK)
            self.assertEqual(job.code, 0, job)
            self.assertEqual(len(job.lines("ended in order")), 2, job)
            self.assertFalse(job.lines("has a child"), job)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
