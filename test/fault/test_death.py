"""When a rank dies in any phase: no hang, and an error that names the rank and the key.

    test_death.py VICTIM LAUNCHER ON_HOSTS quick|all [unittest options]

`all` tries every phase with 2 to 8 ranks, `quick` a choice of them.
"""
import itertools
import os
import sys
import unittest

from jobs import NO_HOSTS, Job, each, mpirun

VICTIM, LAUNCHER, ON_HOSTS, TIER = sys.argv[1:5]
# The sanitizers slow everything down.
OVER_WITHIN = 15.0 if "ASAN_OPTIONS" in os.environ else 5.0
# What is in flight when the rank goes wrong.
KEYS = {"idle": "", "late": "gradient", "submitted": "", "reading": "gradient",
        "writing": "gradient", "broadcast": "weight", "barrier": "", "close": "", "closing": ""}
# The others may have left in peace before.
LATE_PHASES = ("close", "closing")
# Open MPI 4.1's mpirun can itself die by SIGSEGV while it shows what other hosts' ranks say, and take last
# words along, the victim's or the survivors'; such a case is tried again.
OPEN_MPI_DIED = r"\borte_rml_oob_send_buffer_nb\b"
STATUS = {"kill": 137, "exit": 3}
QUICK = [
    (2, 1, "kill", "idle"), (2, 0, "kill", "reading"), (2, 0, "exit", "late"), (2, 1, "kill", "close"),
    (3, 2, "kill", "writing"), (3, 0, "kill", "broadcast"), (3, 1, "exit", "barrier"),
    (4, 3, "kill", "late"), (4, 0, "exit", "closing"), (5, 2, "exit", "reading"),
    (6, 0, "kill", "submitted"), (7, 6, "kill", "broadcast"), (8, 3, "kill", "reading"),
    (8, 7, "exit", "idle"),
]
QUICK_LAUNCHED = [
    (2, 0, "kill", "late"), (3, 2, "kill", "writing"), (3, 0, "kill", "close"), (4, 1, "exit", "reading"),
    (5, 0, "exit", "barrier"), (6, 5, "kill", "idle"), (8, 7, "kill", "broadcast"),
]
QUICK_ON_HOSTS = [
    ("2x1", 1, "kill", "writing"), ("2x2", 0, "kill", "reading"), ("2x2", 3, "exit", "broadcast"),
]


def cases(quick, sizes):
    if TIER == "quick":
        return quick
    return [(ranks, victim, how, phase)
            for ranks, how, phase in itertools.product(sizes, STATUS, KEYS)
            for victim in {0, ranks // 2, ranks - 1}]


class Deaths(unittest.TestCase):
    def check_end(self, job, victim, phase):
        """It was soon over, and a survivor logged the rank and the key."""
        self.assertRegex(job.output, rf"rank {victim} \(process \d+\) goes wrong", job)
        self.assertNotEqual(job.code, 0, job)
        self.assertLess(job.lived_on, OVER_WITHIN, job)
        self.assertFalse(job.lines("dead store"), job)
        if phase not in LATE_PHASES:
            self.assertTrue(job.lines(rf"error: rank {victim} is lost.*{KEYS[phase]}"), job)

    def under_mpirun(self, ranks, victim, how, phase):
        self.check_end(Job(mpirun(ranks, VICTIM, victim, how, phase)), victim, phase)

    def under_the_launcher(self, ranks, victim, how, phase):
        # One that had finished already may stand in MPI_Finalize, which never ends without the dead
        # rank: the launcher ends it after the grace.
        job = Job([sys.executable, LAUNCHER, "--mode", "mpi", "--launcher", "local", "-n", str(ranks),
                   "--grace", "2" if phase in LATE_PHASES else "30", VICTIM, str(victim), how, phase])
        self.check_end(job, victim, phase)
        self.assertTrue(phase in LATE_PHASES or not job.lines("ending worker"), job)
        self.assertEqual(job.code, STATUS[how], job)
        fate = (r"finished|caught peer_lost" if phase in LATE_PHASES
                else rf"caught peer_lost: rank {victim} is lost: .*{KEYS[phase]}")
        for rank in set(range(ranks)) - {victim}:
            self.assertTrue(job.lines(rf"\brank {rank} ({fate})"), job)

    def on_hosts(self, layout, victim, how, phase):
        for _ in range(3):
            job = Job([ON_HOSTS, layout, VICTIM, str(victim), how, phase])
            told = job.wrong_at is not None and job.lines(rf"error: rank {victim} is lost")
            if told or not job.lines(OPEN_MPI_DIED):
                break
        self.check_end(job, victim, phase)

    def test_under_mpirun_the_job_ends_and_a_survivor_names_rank_and_key(self):
        each(self, cases(QUICK, range(2, 9)), self.under_mpirun)

    def test_under_the_launcher_every_survivor_throws_peer_lost_and_the_status_is_the_victims(self):
        each(self, cases(QUICK_LAUNCHED, (2, 5, 8)), self.under_the_launcher)

    def test_who_creates_a_store_with_a_dead_rank_is_told_when_his_patience_ends(self):
        job = Job([sys.executable, LAUNCHER, "--mode", "mpi", "--launcher", "local", "-n", "3",
                   VICTIM, "2", "kill", "create"], TUTTI_CREATE_SECONDS="1.5")
        self.assertEqual(job.code, STATUS["kill"], job)
        self.assertLess(job.lived_on, OVER_WITHIN, job)
        for rank in (0, 1):
            self.assertTrue(job.lines(rf"rank {rank} caught timeout: .* every rank to create its store"), job)

    @unittest.skipIf(NO_HOSTS, NO_HOSTS)
    def test_between_hosts_the_job_ends_and_a_survivor_names_rank_and_key(self):
        every = [(layout, victim, how, phase)
                 for layout, how, phase in itertools.product(("2x1", "2x2"), STATUS, KEYS)
                 for victim in (0, 1)]
        each(self, QUICK_ON_HOSTS if TIER == "quick" else every, self.on_hosts)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]], verbosity=2)
