"""If a rank goes wrong, in any way and at any stage, nothing hangs, and an error names the rank and the key.

    test_death.py VICTIM LAUNCHER ON_HOSTS quick|all|all@SEED|CASE [unittest options]

`quick` tries 30 cases, the same each time; `all` every stage in every way under mpirun and under the launcher,
with ranks drawn by a seed that it prints. A case that fails prints the command that tries it again.
"""
import collections
import os
import random
import shlex
import signal
import sys
import unittest

from deaths import MOST_EXCUSED, STAGES, WAYS, Case, Harness, all_cases, host_cases, quick_cases, unseen_cases
from jobs import NO_HOSTS, Job, each

TIER = sys.argv[4]
# The sanitizers slow everything down.
HARNESS = Harness(*sys.argv[1:4], slowness=3 if "ASAN_OPTIONS" in os.environ or "TSAN_OPTIONS" in os.environ else 1)
# Open MPI 4.1's mpirun can itself die by SIGSEGV, in a thread of PMIx while it ends a job, or while it shows what other
# hosts' ranks say, and take last words along, the victim's or the survivors'; and a rank whose connection to the victim
# is just being made may be ended by Open MPI without a word. Such a case is tried again.
# What is a victim's is 128 higher; on_hosts.py hands mpirun's on as it is, and exit codes are bytes.
MPIRUN_DIED = (-signal.SIGSEGV, 256 - signal.SIGSEGV)
OPEN_MPI_DIED = r"\borte_rml_oob_send_buffer_nb\b|btl_tcp_recv_blocking\] recv.* failed"
QUICK_SEED = 1


def chosen():
    """Cases of one machine, and of several."""
    if ":" in TIER:
        case = Case.parse(TIER)
        return ([case], []) if case.runner in ("mpirun", "launcher") else ([], [case])
    if TIER == "quick":
        return quick_cases(QUICK_SEED), host_cases(QUICK_SEED, 3)
    seed = int(TIER.partition("@")[2] or random.randrange(1 << 32))
    print(f"all@{seed}", file=sys.stderr)
    return all_cases(seed), [*unseen_cases(), *host_cases(seed, 24)]


class Told:
    """A job as the judge sees it: rank 1 was killed, others said these lines, and SIGTERM ended some of them."""
    code, lived_on = 1, 0.5
    lines = Job.lines

    def __init__(self, ended, *said):
        self.output = "\n".join(["rank 1 (process 7) goes wrong: kill", *said,
                                 *(f"rank {rank} was ended by SIGTERM" for rank in ended)])


class Judgement(unittest.TestCase):
    """Each pair: whether there is a problem, and whether it is excused."""

    def judge(self, runner, stage, *said, ended=(0, 2, 3), how="kill"):
        case = Case(runner, 4 if runner == "2x2" else 3, 1, how, stage)
        problem, excused = HARNESS.judge(case, Told(case.survivors() & set(ended), *said))
        return bool(problem), excused

    def test_ranks_that_mpirun_ended_in_silence_are_excused(self):
        self.assertEqual(self.judge("mpirun", "idle"), (True, True))

    def test_a_rank_that_had_not_begun_when_mpirun_ended_another_is_excused_at_the_start_alone(self):
        self.assertEqual(self.judge("mpirun", "start", ended=[2]), (True, True))
        self.assertEqual(self.judge("mpirun", "start", ended=[]), (True, False))
        self.assertEqual(self.judge("mpirun", "idle", ended=[2]), (True, False))

    def test_a_rank_that_said_something_else_first_is_not(self):
        self.assertEqual(self.judge("mpirun", "idle", "tutti[rank 0] error: the store is dead"), (True, False))

    def test_a_survivor_that_blames_another_is_a_problem_though_a_second_is_right(self):
        right = "tutti[rank 0] error: rank 1 is lost: its process ended; no key is in flight on rank 0"
        wrong = "tutti[rank 2] error: rank 0 is lost: its process ended; no key is in flight on rank 2"
        self.assertEqual(self.judge("mpirun", "idle", right, ended=[2]), (False, False))
        self.assertEqual(self.judge("mpirun", "idle", right, wrong, ended=[2]), (True, False))

    def test_who_has_gone_because_a_rank_is_stopped_may_be_lost_to_that_one_when_it_is_woken_and_to_whom_it_tells(self):
        right = "rank 2 caught peer_lost: rank 1 is lost: 4 heartbeats are missing; in flight on rank 2: 'gradient'"
        woken, told = (f"tutti[rank {rank}] error: rank 2 is lost: it was closed; in flight on rank {rank}: 'gradient'"
                       for rank in (1, 0))
        self.assertEqual(self.judge("2x2", "late", right, woken, told, ended=[], how="stop"), (False, False))
        self.assertEqual(self.judge("2x2", "late", right, told, ended=[], how="stop"), (True, False))
        self.assertEqual(self.judge("2x2", "late", woken, told, ended=[], how="stop"), (True, False))
        self.assertEqual(self.judge("2x2", "late", right, woken, told, ended=[]), (True, False))

    def test_that_another_is_lost_which_mpirun_has_ended_is_true_but_names_nobody(self):
        right = "tutti[rank 0] error: rank 1 is lost: its process ended; no key is in flight on rank 0"
        late = "tutti[rank 2] error: rank 0 is lost: its process ended; no key is in flight on rank 2"
        self.assertEqual(self.judge("mpirun", "idle", right, late), (False, False))
        self.assertEqual(self.judge("mpirun", "idle", late), (True, False))

    def test_a_line_says_that_no_key_was_in_flight_when_a_store_is_created_or_mpi_starts(self):
        for stage, line in (("compare", "rank 1 is lost: it ended; it happened while a store was created"),
                            ("start", "rank 1 is lost: it ended while rank 0 was in MPI_Init")):
            line = f"tutti[rank 0] critical: {line}"
            self.assertEqual(self.judge("mpirun", stage, line), (True, False))
            self.assertEqual(self.judge("mpirun", stage, f"{line}, so no key was in flight"), (False, False))

    def test_on_hosts_who_cannot_see_the_rank_says_how_many_of_a_machine_are_missing(self):
        line = "tutti[rank 0] critical: no key was in flight: {} ranks have called create on this machine"
        self.assertEqual(self.judge("2x2", "start", line.format("1 of 2")), (False, False))
        self.assertEqual(self.judge("2x2", "start", line.format("2 of 2")), (True, False))
        self.assertEqual(self.judge("mpirun", "start", line.format("2 of 3")), (True, False))

    def test_who_is_on_another_machine_may_miss_nobody_where_mpirun_ended_those_who_do(self):
        line = "tutti[rank {}] critical: no key was in flight: {} ranks have called create on this machine"
        self.assertEqual(self.judge("2x2", "start", line.format(3, "2 of 2"), ended=[0, 2]), (True, True))
        self.assertEqual(self.judge("2x2", "start", line.format(2, "2 of 2"), line.format(3, "2 of 2"), ended=[0]),
                         (True, True))
        self.assertEqual(self.judge("2x2", "start", line.format(3, "2 of 2"), ended=[]), (True, False))
        self.assertEqual(self.judge("2x2", "start", line.format(0, "2 of 2"), ended=[2, 3]), (True, False))
        self.assertEqual(self.judge("2x2", "idle", line.format(3, "2 of 2"), ended=[0, 2]), (True, False))
        self.assertEqual(self.judge("2x2", "start", line.format(3, "2 of 2"), "tutti[rank 3] error: a wrong sum",
                                    ended=[0, 2]), (True, False))


class Deaths(unittest.TestCase):
    outcomes = collections.defaultdict(list)  # verdict -> cases
    again = collections.Counter()  # case -> how often it was tried again, after Open MPI itself had failed

    @classmethod
    def tearDownClass(cls):
        rows = [f"{'':10}" + "".join(f"{how:>10}" for how in WAYS)]
        for stage in STAGES:
            counts = ["/".join(str(sum((case.how, case.stage) == (how, stage) for case in cls.outcomes[verdict]))
                               for verdict in ("clean", "excused", "unclean")) for how in WAYS]
            rows.append(f"{stage:10}" + "".join(f"{count.replace('0/0/0', ''):>10}" for count in counts))
        print("\n".join(rows), file=sys.stderr)
        total = sum(map(len, cls.outcomes.values()))
        print(f"{total} tries: {len(cls.outcomes['clean'])} clean, {len(cls.outcomes['unclean'])} not; in "
              f"{len(cls.outcomes['excused'])} mpirun ended the survivors before they could say a word:",
              *cls.outcomes["excused"], file=sys.stderr)
        print(f"{cls.again.total()} more tries, after one in which Open MPI itself had failed:", *+cls.again,
              file=sys.stderr)

    def attempt(self, case):
        again = shlex.join(["python3", *sys.argv[:4], str(case)])
        try:
            for tries_before in range(3):
                self.again[case] = tries_before
                job = HARNESS.run(case)
                problem, excused = HARNESS.judge(case, job)
                if not problem or not (job.code in MPIRUN_DIED or job.lines(OPEN_MPI_DIED)):
                    break
        except AssertionError as hung:
            job, problem, excused = hung, "it hung", False
        self.outcomes["clean" if not problem else "excused" if excused else "unclean"].append(case)
        print(f"{'ok' if not problem else 'excused' if excused else 'FAILED'} {case} {problem or ''}", file=sys.stderr,
              flush=True)
        self.assertTrue(not problem or excused, f"{problem}; again: {again}\n{job}")

    def test_the_job_is_soon_over_and_a_survivor_names_the_rank_and_the_key(self):
        cases = chosen()[0]
        each(self, [(case,) for case in cases], self.attempt)
        under_mpirun = sum(case.runner == "mpirun" for case in cases)
        self.assertLessEqual(len(self.outcomes["excused"]), max(2, MOST_EXCUSED * under_mpirun))

    @unittest.skipIf(NO_HOSTS, NO_HOSTS)
    def test_between_hosts_too(self):
        each(self, [(case,) for case in chosen()[1]], self.attempt)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]], verbosity=2)
