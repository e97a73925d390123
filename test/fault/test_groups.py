"""A rank's death reaches every store that has the rank, and no other.

    test_groups.py GROUPED [unittest options]
"""
import pathlib
import subprocess
import sys
import unittest

GROUPED = sys.argv[1]
LAUNCH = pathlib.Path(__file__).resolve().parents[2] / "scripts/launch.py"


class Groups(unittest.TestCase):
    def test_stores_without_the_dead_rank_live_on_and_those_with_it_name_it(self):
        # Under the launcher, for mpirun ends the survivors.
        done = subprocess.run([sys.executable, str(LAUNCH), "-n", "4", "--launcher", "local", GROUPED], text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                              check=False)
        said = done.stdout
        self.assertEqual(done.returncode, 137, said + done.stderr)
        for rank in range(3):
            self.assertRegex(said, rf"rank {rank}: all: peer_lost, ranks 3: rank 3 is lost", done.stderr)
        for rank, store in ((0, "0-1"), (1, "0-1"), (1, "1-2"), (2, "1-2")):
            self.assertRegex(said, rf"rank {rank}: {store}: lives", done.stderr)
        # In its store the rank is the second one; which rank of the job that is stands beside it.
        self.assertRegex(said, r"rank 2: 2-3: peer_lost, ranks 1: rank 1 is lost.*the job's ranks 2-3", done.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
