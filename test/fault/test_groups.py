"""Stores over some of a job's ranks: what goes wrong in one reaches no other.

    test_groups.py GROUPED LAUNCHER ON_HOSTS Groups|Times [unittest options]

The class Times compares times and expects warnings soon, so it runs alone.
"""
import re
import sys
import unittest

from jobs import NO_HOSTS, Job, mpirun

GROUPED, LAUNCHER, ON_HOSTS = sys.argv[1:4]


def launched(way, *options):
    """Under the launcher, for mpirun ends the survivors."""
    return [sys.executable, LAUNCHER, "-n", "4", "--mode", "mpi", "--launcher", "local", *options, GROUPED, way]


class Case(unittest.TestCase):
    def says(self, job, pattern):
        self.assertTrue(job.lines(pattern), f"nobody says: {pattern}\n{job}")


class Groups(Case):
    def reaches_its_stores_alone(self, job):
        for rank in range(3):
            self.says(job, rf"rank {rank}: all: peer_lost, ranks 3: rank 3 is lost")
        for rank, store in ((0, "0-1"), (1, "0-1"), (1, "1-2"), (2, "1-2")):
            self.says(job, rf"rank {rank}: {store}: lives")
        # In its store the rank is the second one. The message adds which rank of the job that is.
        self.says(job, r"rank 2: 2-3: peer_lost, ranks 1: rank 1 is lost.*the job's ranks 2-3")
        # The log has the job's rank alone.
        self.assertFalse(job.lines(r"error: .*is lost.*is lost"), job)

    def test_a_death_reaches_the_stores_that_have_the_rank_and_no_other(self):
        for way, code in (("kill", 137), ("exit", 3)):
            with self.subTest(way):
                job = Job(launched(way))
                self.assertEqual(job.code, code, job)
                self.reaches_its_stores_alone(job)

    @unittest.skipIf(NO_HOSTS, NO_HOSTS)
    def test_between_hosts_too(self):
        """On 2x2 one store of the dead rank lies on one host and one on both. The same holds for stores that live on.
        """
        for layout in ("2x2", "3+1"):
            with self.subTest(layout):
                # With this option mpirun leaves the survivors their time. In some runs mpirun 4.1.4 crashes when it
                # reads Open MPI's own text about the rank that has gone, and ends the job. Then the test tries again.
                for _ in range(5):
                    job = Job([ON_HOSTS, layout, GROUPED, "exit"], OMPI_MCA_orte_abort_on_non_zero_status="0")
                    if not job.lines(r"\(pmix_server_log_fn\+"):
                        break
                self.reaches_its_stores_alone(job)

    def test_ranks_that_never_agree_on_a_store_are_told_and_the_job_ends_in_order(self):
        job = Job(mpirun(3, GROUPED, "apart"), TUTTI_CREATE_SECONDS="5")
        self.assertEqual(job.code, 0, job)
        some, all_ranks = "store 1 over ranks 0-1", "store 1 over all ranks"
        self.says(job, rf"rank 0: timeout, ranks 1: waited 5 s .*, rank 1 (creates|has given up) {all_ranks}")
        for rank in (1, 2):
            self.says(job, rf"rank {rank}: timeout, ranks 0: waited 5 s .*, rank 0 (creates|has given up) {some}")

    def test_a_create_that_no_other_rank_came_to_is_the_reason_of_an_end_without_finalize(self):
        # Without the job's folder no rank sees which stores the others create, so the ranks ask MPI at once.
        job = Job(mpirun(3, "env", "PMIX_SERVER_TMPDIR=/nonexistent", GROUPED, "apart"), TUTTI_CREATE_SECONDS="5")
        self.assertNotEqual(job.code, 0, job)
        self.says(job, "error: a create that was given up has left a call of MPI open, .* without MPI_Finalize")

    def test_ranks_that_create_their_stores_in_two_orders_are_told_both_at_the_deadline(self):
        job = Job(mpirun(4, GROUPED, "order"), TUTTI_CREATE_SECONDS="5")
        self.assertEqual(job.code, 0, job)
        two, three = "store 1 over ranks 0-1", "store 1 over ranks 0-2"
        for first, second in ((two, three), (three, two)):
            self.says(job, rf"rank 0: timeout, ranks 1.*: waited 5 s .*, rank 0 creates {first}, .*rank 1 "
                           rf"(creates|has given up) {second}")
            self.says(job, rf"rank 1: timeout, ranks 0.*: waited 5 s .*, rank 1 creates {second}, .*rank 0 "
                           rf"(creates|has given up) {first}")
        self.says(job, rf"rank 2: timeout, ranks 1: waited 5 s .*, rank 2 creates {three}")

    def test_it_comes_up_where_the_others_start_mpi_and_create_nothing(self):
        job = Job(mpirun(3, GROUPED, "starts"))
        self.assertEqual(job.code, 0, job)
        for rank in (0, 1):
            self.says(job, rf"rank {rank}: it sums")

    def test_stores_that_are_open_when_main_returns_are_closed_whatever_ranks_they_are_over(self):
        job = Job(mpirun(3, GROUPED, "open"))
        self.assertEqual(job.code, 0, job)
        said = job.lines("a store was still open when the process ended with status 0: it is closed now")
        self.assertEqual(len(said), 3, job)


class Times(Case):
    def test_ranks_whose_lists_differ_are_told_what_each_creates_soon_and_at_the_deadline(self):
        job = Job(mpirun(4, GROUPED, "differ"), TUTTI_CREATE_SECONDS="4", TUTTI_STALL_SECONDS="30")
        self.assertEqual(job.code, 0, job)
        three, two = "store 1 over ranks 0-2", "store 1 over ranks 0-1"
        for rank in (0, 2):
            self.says(job, rf"rank {rank}: timeout, ranks 1: waited 4 s .*, rank {rank} creates {three}, .*rank 1 "
                           rf"(creates|has given up) {two}")
        self.says(job, rf"rank 1: timeout, ranks 0: waited 4 s .*, rank 1 creates {two}, rank 0 (creates|has given "
                       rf"up) {three}")
        # This line comes before it in the log.
        self.says(job, r"warning: waiting for other ranks to create their store for 2\.\d s: "
                       rf".*rank 0 creates {three}, .*rank 1 creates {two}.*in the same order")
        for rank in range(3):
            self.says(job, rf"rank {rank}: then it sums")

    def test_the_first_store_over_some_ranks_waits_for_the_others_to_start_mpi_and_says_what_they_must_do(self):
        job = Job(mpirun(3, GROUPED, "absent"), TUTTI_CREATE_SECONDS="3", TUTTI_STALL_SECONDS="1")
        self.assertEqual(job.code, 1, job)
        what = (r"rank 2 has not called create; MPI starts on all ranks of the job together: .*over itself alone.* "
                r"calls MPI_Init instead \(Python: import mpi4py\.MPI\)")
        for rank in (0, 1):
            self.says(job, rf"warning: rank {rank} has been in MPI_Init for 1\.\d s, .*: {what}")
            self.says(job, rf"critical: rank {rank} has waited 3 s .* MPI_Init, .*status 1: {what}")

    def test_a_rank_that_keeps_a_store_open_holds_up_none_but_the_first_rank_of_it(self):
        job = Job(mpirun(3, GROUPED, "keep"))
        self.assertEqual(job.code, 0, job)
        took = {(int(rank), store): float(seconds) for rank, store, seconds in
                re.findall(r"rank (\d): (\d-\d): closed in (\S+) s", job.output)}
        self.assertGreater(took[0, "0-1"], 1.5, job)
        for others in ((1, "0-1"), (1, "1-2"), (2, "1-2")):
            self.assertLess(took[others], 1, job)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
