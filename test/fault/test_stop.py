"""A rank that is stopped for a while, or is late, is waited for: the others say whom and what they wait
for, and when it goes on so does the job, with the right sums. One that stays stopped is lost.

    test_stop.py VICTIM ON_HOSTS quick|all [unittest options]
"""
import itertools
import sys
import unittest

from jobs import NO_HOSTS, Job, each, mpirun

VICTIM, ON_HOSTS, TIER = sys.argv[1:4]
STOPPED_FOR = 1.5
PATIENT = {"TUTTI_STALL_SECONDS": "0.4", "TUTTI_HEARTBEAT_SECONDS": "30"}
IMPATIENT = {"TUTTI_STALL_SECONDS": "0.4", "TUTTI_HEARTBEAT_SECONDS": "2"}
# The words in another rank's line while the rank is stopped.
WAITS = {"idle": "gradient", "late": "gradient", "submitted": "", "reading": "gradient",
         "writing": "gradient", "broadcast": "weight", "barrier": "barrier"}
QUICK = [(2, 1, "idle"), (3, 0, "late"), (3, 2, "late"), (4, 1, "reading"), (5, 0, "writing"),
         (8, 5, "broadcast"), (4, 0, "barrier"), (4, 3, "barrier")]
EVERY = [*dict.fromkeys([*QUICK, *((ranks, victim, phase) for ranks, phase in itertools.product(range(2, 9), WAITS)
                                   for victim in (0, ranks - 1))])]


class Stops(unittest.TestCase):
    def check_went_on(self, job, ranks, victim, phase):
        self.assertEqual(job.code, 0, job)
        for rank in range(ranks):
            self.assertTrue(job.lines(rf"\brank {rank} finished, and its sums were right"), job)
        if WAITS[phase]:
            said = job.lines(rf"warning: .*{WAITS[phase]}")
            self.assertTrue([line for line in said if f"rank {victim}" in line.split("warning:")[1]], job)

    def goes_on(self, ranks, victim, phase):
        job = Job(mpirun(ranks, VICTIM, victim, "stop", phase), continue_after=STOPPED_FOR, **PATIENT)
        self.check_went_on(job, ranks, victim, phase)

    def is_reported_late(self, ranks, victim, phase, said):
        job = Job(mpirun(ranks, VICTIM, victim, "nap", phase), **PATIENT)
        self.assertEqual(job.code, 0, job)
        # First after the stall time, then at doubling intervals.
        reports = job.lines(rf"tutti\[rank 0\] warning: waiting for rank {victim} {said}: [\d.]+ s so far")
        self.assertIn(len(reports), (2, 3), job)

    def goes_on_between_hosts(self, layout, ranks, victim, phase):
        words = [ON_HOSTS, *(f"--env={name}={value}" for name, value in PATIENT.items()), layout]
        job = Job([*words, VICTIM, str(victim), "stop", phase], continue_after=STOPPED_FOR)
        self.check_went_on(job, ranks, victim, phase)

    def is_lost(self, ranks, victim, phase):
        job = Job(mpirun(ranks, VICTIM, victim, "stop", phase), continue_after=6, **IMPATIENT)
        self.assertNotEqual(job.code, 0, job)
        self.assertTrue(job.lines(rf"error: rank {victim} is lost: \d+ heartbeats of it are missing: its "
                                  rf"process is stopped .*{WAITS[phase]}"), job)

    def test_a_rank_that_goes_on_is_named_while_it_stands_and_nothing_is_lost(self):
        each(self, QUICK if TIER == "quick" else EVERY, self.goes_on)

    def test_a_late_rank_and_what_it_lacks_are_named_at_doubling_intervals(self):
        each(self, [(3, 2, "late", "to submit 'gradient'"), (2, 0, "late", "to submit 'gradient'"),
                    (4, 1, "barrier", "at the barrier")], self.is_reported_late)

    @unittest.skipIf(NO_HOSTS, NO_HOSTS)
    def test_between_hosts_too(self):
        quick = [("2x1", 2, 1, "writing"), ("2x2", 4, 0, "late")]
        every = [quick[0], *(("2x2", 4, victim, phase) for victim in (0, 3) for phase in WAITS)]
        each(self, quick if TIER == "quick" else every, self.goes_on_between_hosts)

    def test_a_rank_that_stays_stopped_is_lost_by_its_heartbeats(self):
        each(self, [(3, 1, "late"), (2, 0, "reading")], self.is_lost)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
