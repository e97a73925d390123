#!/usr/bin/env python3
"""The progress that a training program shows under the launcher, which prints whole lines.

    test_launch_progress.py TRAIN
"""
import sys
import unittest

from launching import LAUNCH, MPI, LaunchCase, on_terminal

TRAIN = sys.argv.pop()


class Progress(LaunchCase):
    def on_terminal(self, *words):
        """The output on a terminal of a short training that these words start."""
        # Small batches, so that an epoch takes several times the 0.1 s between two updates on any machine.
        words = [*words, TRAIN, "--dataset", "digits", "--num-epochs", 1, "--batch-size", 1, "--kv-store", "local"]
        code, said = on_terminal(words, env=self.environment())
        self.assertEqual(code, 0, said)
        self.assertIn(b"Epoch 0: Train_loss", said)
        return said

    def test_below_the_launcher_it_overwrites_no_line(self):
        self.assertNotIn(b"\x1b", self.on_terminal(sys.executable, LAUNCH, "-n", 1, *MPI))

    def test_below_mpirun_on_a_terminal_it_overwrites_its_line(self):
        self.assertIn(b"\x1b[K", self.on_terminal("mpirun", "-n", 1))


if __name__ == "__main__":
    unittest.main()
