"""mpi4py and tutti in one process; every rank of an MPI job runs it.

    mpirun -n N python package_mpi4py.py mpi4py|tutti|create

The word says what comes first: the import of mpi4py.MPI, which initialises MPI; tutti's; or a store of tutti's, which
then initialises MPI. The last line of each rank says that all is well.
"""
import sys

import numpy as np

FIRST = sys.argv[1]
if FIRST == "mpi4py":
    from mpi4py import MPI
import tutti

if FIRST == "create":
    tutti.create("dist_sync_mpi").close()
from mpi4py import MPI


def both_in_flight(kv, world):
    """Starts a sum of mpi4py while one of tutti is under way, again and again."""
    mine = np.full(100_000, kv.rank + 1.0)
    theirs, total = np.zeros_like(mine), kv.num_workers * (kv.num_workers + 1) / 2
    for step in range(20):
        ours = mine.copy()
        pending = kv.pushpull(step % 3, ours)
        world.Allreduce(mine, theirs)
        pending.wait()
        np.testing.assert_array_equal(theirs, total)
        np.testing.assert_array_equal(ours, total)


with tutti.create("dist_sync_mpi") as kv:
    assert (kv.rank, kv.num_workers) == (MPI.COMM_WORLD.rank, MPI.COMM_WORLD.size)
    both_in_flight(kv, MPI.COMM_WORLD)
    assert kv.allgather_object(kv.rank) == MPI.COMM_WORLD.allgather(kv.rank)
assert MPI.COMM_WORLD.allreduce(1) == MPI.COMM_WORLD.size  # it goes on without a store
print(f"worker {MPI.COMM_WORLD.rank}: well", flush=True)
