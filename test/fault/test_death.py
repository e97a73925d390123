"""When a rank goes wrong, in any way and at any stage: no hang, and an error that names the rank and the key.

    test_death.py VICTIM LAUNCHER ON_HOSTS quick|all|all@SEED|CASE [unittest options]

`quick` tries 30 cases, the same each time; `all` every stage in every way under mpirun and under the launcher,
with ranks drawn by a seed that it prints. A case that fails prints the command that tries it again.
"""
import collections
import os
import random
import shlex
import sys
import unittest

from deaths import MOST_EXCUSED, STAGES, WAYS, Case, Harness, all_cases, host_cases, quick_cases
from jobs import NO_HOSTS, each

TIER = sys.argv[4]
# The sanitizers slow everything down.
HARNESS = Harness(*sys.argv[1:4], slowness=3 if "ASAN_OPTIONS" in os.environ else 1)
# Open MPI 4.1's mpirun can itself die by SIGSEGV while it shows what other hosts' ranks say, and take last
# words along, the victim's or the survivors'; such a case is tried again.
OPEN_MPI_DIED = r"\borte_rml_oob_send_buffer_nb\b"
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
    return all_cases(seed), host_cases(seed, 24)


class Deaths(unittest.TestCase):
    outcomes = collections.defaultdict(list)  # verdict -> cases

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

    def attempt(self, case):
        again = shlex.join(["python3", *sys.argv[:4], str(case)])
        try:
            for _ in range(3):
                job = HARNESS.run(case)
                problem, excused = HARNESS.judge(case, job)
                if not problem or not job.lines(OPEN_MPI_DIED):
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
