"""If a rank ends before or during `create`, the others soon learn which one, where and how.

    test_early_ends.py CREATING LAUNCHER SERVER quick|all [unittest options]
"""
import os
import pathlib
import random
import re
import shlex
import sys
import tempfile
import unittest

from jobs import NO_HOSTS, Job, each, mpirun

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import hosts
from launching import add_ssh
from registry import made

# An ssh begins in another folder.
CREATING, LAUNCHER, SERVER = map(os.path.abspath, sys.argv[1:4])
TIER = sys.argv[4]
SLOW = "ASAN_OPTIONS" in os.environ or "TSAN_OPTIONS" in os.environ
OVER_WITHIN = 15.0 if SLOW else 5.0
RANKS = 3
# The times at which the victim and the last rank call create; the others wait there from the start.
COMES_MS, LAST_MS = 500, 1500
# The last words of an mpirun that ends a job.
MPIRUN_SAID = re.compile(r"\nmpirun (detected that one or more|noticed that process rank|has exited due to)")
# (the exit code that the launcher reports, its text about the victim)
WAYS = {"kill": (137, r"was ended by signal 9 \(SIGKILL\), exit code 137"), "exit": (3, "ended with exit code 3"),
        "leave": (0, "ended with exit code 0"), "throw": (134, r"was ended by signal 6 \(SIGABRT\), exit code 134")}


def words_of(runner, victim, how, at):
    own = [CREATING, str(victim), how, "time", str(at)]
    if runner == "mpirun":
        return mpirun(RANKS, *own)
    return [sys.executable, LAUNCHER, "--mode", runner, "--launcher", "local", "-n", str(RANKS),
            *(("-s", "2") if runner == "ps" else ()), *own]


def cases_at_random(seed):
    """(runner, victim, how, milliseconds after its start): half of them before its create, half during it."""
    chance = random.Random(seed)
    cases = []
    for runner, count in (("ps", 14), ("mpi", 14), ("mpirun", 12)):
        for i in range(count):
            at = chance.randrange(0, COMES_MS - 100) if i % 2 else chance.randrange(COMES_MS + 100, LAST_MS - 200)
            cases.append((runner, i % RANKS, list(WAYS)[(i // 2) % len(WAYS)], at))
    return cases


def chosen():
    cases = cases_at_random(20261127)
    return cases if TIER == "all" else cases[0:5:4] + cases[14:18:3] + cases[29:31]


class Ends(unittest.TestCase):
    def test_the_others_name_who_ended_and_the_job_is_soon_over(self):
        each(self, chosen(), self.ends)

    def run_case(self, *case):
        return Job(words_of(*case), COMES_MS=str(COMES_MS), LAST_MS=str(LAST_MS), limit_when_wrong=3 * OVER_WITHIN,
                   STORE="dist_sync" if case[0] == "ps" else "dist_sync_mpi",
                   PATH=f"{pathlib.Path(SERVER).absolute().parent}:{os.environ['PATH']}")

    def run_under_mpirun(self, *case):
        """Runs the job again if mpirun hangs. In one of eight runs, even of programs without tutti, mpirun 4.1.4 says
        which rank ended the job, its ranks end, and it waits for itself for ever."""
        for _ in range(4):
            try:
                return self.run_case(*case)
            except AssertionError as hung:
                if not MPIRUN_SAID.search(str(hung)):
                    raise
        return self.run_case(*case)

    def ends(self, runner, victim, how, at):
        run = self.run_under_mpirun if runner == "mpirun" else self.run_case
        job = run(runner, victim, how, at)
        self.assertIsNotNone(job.lived_on, job)
        self.assertLess(job.lived_on, OVER_WITHIN, job)
        self.assertNotEqual(job.code, 0, job)
        if runner == "mpirun":
            self.named_by_mpirun(job, victim, how)
        else:
            self.named_by_all(job, victim, how, os.uname().nodename)

    def named_by_all(self, job, victim, how, host, ranks=RANKS):
        code, fate = WAYS[how]
        named = rf"(rank|worker) {victim} is lost: worker {victim} on {host} {fate}"
        for rank in set(range(ranks)) - {victim}:
            self.assertTrue(job.lines(rf"^\[worker {rank}\] .*{named}"), job)
        if code:
            self.assertEqual(job.code, code, job)
        lost = rf"first to fail: it {fate}" if code else rf"had lost worker {victim} on {host}, which {fate}"
        self.assertTrue(job.lines(rf"^launch.py: .*{lost}"), job)

    def named_by_mpirun(self, job, victim, how):
        """It ends the others at once where the status is not 0."""
        said = {"kill": rf"process rank {victim} .*signal 9", "exit": rf"Process name: \[\[.*\],{victim}\]",
                "throw": rf"process rank {victim} .*signal 6",
                "leave": rf"due to process rank {victim} with|rank {victim} is lost: its process ended"}
        self.assertTrue(job.lines(said[how]), job)

    def test_under_mpirun_a_rank_that_ends_with_0_before_any_has_started_mpi_is_named(self):
        own = shlex.join([CREATING, str(RANKS), "none", "none", "1"])
        job = Job(mpirun(RANKS, "sh", "-c", "[ $OMPI_COMM_WORLD_RANK != 1 ] || "
                         "{ echo \"rank 1 (process $$) goes wrong: leave\"; exit 0; }; sleep 0.2; exec " + own))
        self.assertLess(job.lived_on, OVER_WITHIN, job)
        self.assertNotEqual(job.code, 0, job)
        self.assertTrue(job.lines("critical: rank 1 is lost: its process ended before it had called create"), job)

    def test_under_mpirun_a_rank_that_comes_late_from_behind_a_wrapper_is_not_taken_for_one_that_has_ended(self):
        """The wrapper's own environment says nothing of the job; the rank's is what mpirun has given."""
        own = shlex.join([CREATING, str(RANKS), "none", "none", "1"])
        job = Job(mpirun(RANKS, "sh", "-c", "if [ $OMPI_COMM_WORLD_RANK = 1 ]; then sleep 4; fi; export -p > $0.$$; "
                         f"exec env -i sh -c '. $0; {own}; exit $?' $0.$$", f"{self.folder()}/variables"))
        self.assertEqual(job.code, 0, job)
        self.assertFalse(job.lines("is lost"), job)

    def folder(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        return folder.name

    @unittest.skipIf(NO_HOSTS, NO_HOSTS)
    def test_between_hosts_the_launcher_tells_of_a_rank_that_is_alone_on_its_own(self):
        with made(hosts.Lab(f"ends{os.getpid()}", (1, 1))) as lab, tempfile.TemporaryDirectory() as folder:
            add_ssh(pathlib.Path(folder))
            pathlib.Path(folder, "hosts").write_text("".join(f"{name}\n" for name in lab.names))
            cases = [("mpi", "leave", "time", 200), ("mpi", "kill", "idup", 1), ("mpi", "exit", "gather", 2),
                     ("ps", "kill", "time", 200), ("ps", "leave", "time", 300)]
            some = cases if TIER == "all" else cases[::2]
            each(self, [(lab, folder, *case) for case in some], self.ends_on_hosts, at_once=1)

    def ends_on_hosts(self, lab, folder, mode, how, call, number):
        words = [sys.executable, LAUNCHER, "--mode", mode, "-H", f"{folder}/hosts", "-n", "2", "--env", "COMES_MS",
                 "--env", "LAST_MS", "--env", "STORE", CREATING, "1", how, call, str(number)]
        # In some runs mpirun 4.1.4 crashes when it reads Open MPI's own text about the rank that has gone.
        for _ in range(5):
            job = Job(hosts.enter(lab.names[0], shlex.join(words)), COMES_MS=str(COMES_MS), LAST_MS="0",
                      STORE="dist_sync" if mode == "ps" else "dist_sync_mpi", DMLC_INTERFACE="eth0",
                      PATH=f"{folder}:{pathlib.Path(SERVER).absolute().parent}:{os.environ['PATH']}")
            if not job.lines(r"\(pmix_server_log_fn\+"):
                break
        self.assertLess(job.lived_on, OVER_WITHIN, job)
        self.assertNotEqual(job.code, 0, job)
        self.named_by_all(job, 1, how, lab.names[1], ranks=2)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]], verbosity=2)
