"""Compares the example on several workers with the example on one; every rank of an MPI job runs it.

    mpirun -n N python package_training.py

Run by the Python that the package is installed for. The last line of each rank says that all is well.
"""
import contextlib
import io
import pathlib
import sys
from argparse import Namespace

import numpy as np

import tutti

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples/python"))
import train_digits

# The samples of all workers together. The ranks divide the batch. There are 150 steps; in more steps a rounding may
# turn another pixel into a maximum.
BATCH, EPOCHS = 48, 5
trained = []


class Kept(train_digits.Network):
    def __init__(self, rng):
        super().__init__(rng)
        trained.append(self)


def train(kv):
    args = Namespace(seed=1, epochs=EPOCHS, batch_size=BATCH // kv.num_workers, lr=0.05, devices=1, gpu=None,
                     benchmark=0)
    with contextlib.redirect_stdout(io.StringIO()):
        return train_digits.train(kv, train_digits.read_digits(train_digits.DATA), args)


train_digits.Network = Kept
with tutti.create("dist_sync_mpi") as kv:
    together = train(kv)
    kv.fingerprint(trained[0].weights)
    with tutti.create("dist_sync_mpi", ranks=[kv.rank]) as alone:
        by_one = train(alone)
    away = max(np.abs(mine - ones).max() for mine, ones in zip(trained[0].weights, trained[1].weights))
    assert away < 1e-4, away
    np.testing.assert_allclose(together, by_one, atol=0.01)
    print(f"worker {kv.rank}: well", flush=True)
