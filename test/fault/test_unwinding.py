"""scripts/launch.py names the worker whose stack unwound, though the survivors may end before it.

    test_unwinding.py UNWINDING [unittest options]
"""
import pathlib
import subprocess
import sys
import unittest

UNWINDING = sys.argv[1]
LAUNCH = pathlib.Path(__file__).resolve().parents[2] / "scripts/launch.py"


class Unwinding(unittest.TestCase):
    def end(self, how):
        done = subprocess.run([sys.executable, str(LAUNCH), "-n", "3", "--mode", "mpi", "--launcher", "local",
                               UNWINDING, how],
                              text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                              check=False)
        return done.returncode, done.stderr

    def test_a_worker_that_throws_is_the_first_to_fail_however_long_it_takes_to_end(self):
        for how in ("throw", "throw", "slow"):
            with self.subTest(how):
                code, said = self.end(how)
                self.assertRegex(said, "worker 1 on .* was the first to fail: it ended with exit code 7")
                self.assertTrue(said.endswith("  [worker 1] victim: bad batch\n"), said)
                self.assertEqual(code, 7, said)

    def test_a_worker_that_returns_early_is_named_beside_the_survivor_that_failed(self):
        code, said = self.end("return")
        self.assertEqual(code, 3, said)
        self.assertRegex(said, r"worker [02] on .* was the first to fail: it ended with exit code 3\. "
                               r"It had lost worker 1 on .*, which ended with exit code 0\.")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
