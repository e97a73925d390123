"""When a rank dies or hangs at any phase: no hang, and an error that names rank and keys.

    test_death.py PATH-OF-VICTIM PATH-OF-LAUNCHER [unittest options]
"""
import os
import re
import subprocess
import sys
import time
import unittest

VICTIM, LAUNCHER = sys.argv[1:3]
SURVIVOR_STATUS = 42
HEARTBEAT_SECONDS = 3


def environment(**extra):
    return {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
            "TUTTI_HEARTBEAT_SECONDS": str(HEARTBEAT_SECONDS), **extra}


def run(words, limit):
    """The finished process and the seconds it took; a hang fails the test with what was printed."""
    start = time.monotonic()
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env=environment(), start_new_session=True) as process:
        try:
            output, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            output, _ = process.communicate()
            raise AssertionError(f"hung for {limit} s: {' '.join(words)}\n{output}") from None
    return process.returncode, output, time.monotonic() - start


class UnderPlainMpirun(unittest.TestCase):
    def check(self, ranks, victim, how, phase):
        words = ["mpirun", "-n", str(ranks), VICTIM, str(victim), how, phase]
        code, output, seconds = run(words, 30)
        self.assertNotEqual(code, 0, output)
        self.assertLess(seconds, 15, output)
        self.assertRegex(output, rf"rank {victim} goes wrong", output)
        survivors = [line for line in output.splitlines()
                     if re.search(rf"rank {victim}\b", line) and "gradient" in line]
        self.assertTrue(survivors, f"no survivor named rank {victim} and a key:\n{output}")

    def test_a_killed_rank_ends_the_job_and_is_named_with_a_key(self):
        for ranks, victim, phase in [(2, 1, "submitted"), (3, 0, "moving"), (5, 4, "submitted"),
                                     (8, 3, "moving")]:
            with self.subTest(ranks=ranks, victim=victim, phase=phase):
                self.check(ranks, victim, "kill", phase)


class UnderTheLauncher(unittest.TestCase):
    def check(self, ranks, victim, how, phase, expected):
        words = [sys.executable, LAUNCHER, "--mode", "mpi", "--launcher", "local", "-n", str(ranks),
                 VICTIM, str(victim), how, phase]
        code, output, _ = run(words, 60)
        self.assertEqual(code, expected, output)
        for rank in set(range(ranks)) - {victim}:
            self.assertRegex(output, rf"rank {rank} caught peer_lost: .*rank {victim}\b", output)

    def test_every_survivor_of_a_killed_rank_throws_peer_lost(self):
        for ranks, victim, phase in [(2, 0, "submitted"), (3, 2, "barrier"), (4, 1, "moving"),
                                     (8, 7, "idle")]:
            with self.subTest(ranks=ranks, victim=victim, phase=phase):
                self.check(ranks, victim, "kill", phase, 137)

    def test_a_rank_that_exits_in_the_middle_is_lost_and_its_status_returned(self):
        self.check(3, 1, "exit", "submitted", 7)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
