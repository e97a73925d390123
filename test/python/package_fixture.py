"""What the package_*.py share that every rank of an MPI job runs: a store over all ranks."""
import time
import unittest

import numpy as np

import tutti

PATIENCE = 60


def until(condition):
    """Waits for it; whether it came true. Runs instructions meanwhile, between which the interpreter drops arrays."""
    end = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < end:
        time.sleep(0.001)
    return condition()


class Ranks(unittest.TestCase):
    OPTIONS = {}

    @classmethod
    def setUpClass(cls):
        cls.kv = tutti.create("dist_sync_mpi", key_timeout=PATIENCE, log_level="error", **cls.OPTIONS)
        cls.addClassCleanup(cls.kv.close)
        cls.rank, cls.size = cls.kv.rank, cls.kv.num_workers
        cls.last = cls.size - 1
        cls.total = cls.size * (cls.size + 1) // 2  # of what the ranks bring: 1, 2, 3, ...

    def mine(self, shape=4, dtype=np.float32):
        return np.full(shape, self.rank + 1, dtype)


class Foreign:
    """An array that speaks DLPack and is not numpy's."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **how):
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()
