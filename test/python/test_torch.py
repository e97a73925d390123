#!/usr/bin/env python3
"""tutti's process groups in PyTorch: what scripts may count on, the example, and ranks that fail.

    test_torch.py BUILD_TYPE

Runs in an environment of its own, on the torch that a Python of this machine has; Debian's is 1.13.
"""
import os
import re
import sys
import unittest

from installed import HERE, ROOT, Installed, python_with, said

Installed.build_type = sys.argv.pop()
EXAMPLE = ROOT / "examples/python/torch/train.py"


class PyTorch(Installed):
    @classmethod
    def setUpClass(cls):
        cls.with_torch = python_with("torch")
        if cls.with_torch is None:
            print("skipped: no Python here has torch; scripts/setup --tests installs Debian's", flush=True)
            raise unittest.SkipTest("no Python here has torch")
        super().setUpClass()

    @classmethod
    def install(cls):
        """As a wheel: the pip of the Python that has torch may be too old to build one."""
        cls.pip("wheel", *cls.setup(), "--no-deps", "--wheel-dir", cls.top / "wheels", ROOT)
        wheel, = (cls.top / "wheels").iterdir()
        said(cls.with_torch, "-m", "venv", "--system-site-packages", cls.top / "torch")
        cls.python = cls.top / "torch/bin/python"
        cls.pip("install", wheel)
        os.environ["OMP_NUM_THREADS"] = "1"  # the ranks share the cores

    def on_all(self, count, part, timeout=240):
        """Every rank runs these tests."""
        return said("mpirun", "-n", count, self.python, "-W", "ignore", HERE / f"{part}.py", timeout=timeout,
                    cwd=self.top)

    def test_every_collective(self):
        for count in (1, 3):
            with self.subTest(ranks=count):
                self.on_all(count, "torch_collectives")

    def learnt(self, count, *words):
        """The accuracy after the last epoch; all ranks have the same weights, bit by bit."""
        text = self.on_ranks(count, EXAMPLE, *words, timeout=240)
        hashes = re.findall(rf"Worker (\d) of {count}: sha256 of the weights ([0-9a-f]{{64}})", text)
        self.assertEqual(sorted(rank for rank, _ in hashes), [str(rank) for rank in range(count)], text)
        self.assertEqual(len({weights for _, weights in hashes}), 1, text)
        return float(re.findall(r"Test_acc (0\.\d{6})", text)[-1])

    def test_the_example_learns_the_digits_and_all_ranks_end_with_the_same_weights(self):
        self.assertGreaterEqual(self.learnt(4), 0.95)


if __name__ == "__main__":
    unittest.main(verbosity=2)
