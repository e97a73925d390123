"""Stores created and destroyed, and calls, leave no memory and no descriptors behind; every rank of an MPI job runs it.

    mpirun -n N python package_flat.py CREATES CALLS
"""
import os
import pathlib
import resource
import sys
import threading
import time

import numpy as np

import tutti
from package_fixture import PATIENCE

MAY_GROW = 4 << 20
# Whether freed memory is kept. The address sanitizer keeps it.
MEMORY_IS_KEPT = "ASAN_OPTIONS" in os.environ


def resident():
    """The resident memory of this process in bytes, including shared memory that it has touched."""
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def held():
    """The numbers of descriptors and threads, which must not grow. The kernel still lists a thread for a moment after
    it was joined.
    """
    counts = []
    for _ in range(10):
        counts.append((len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))))
        time.sleep(0.01)
    return min(counts)


def flat(what, warm, times, work):
    """Does the work this many times, and checks that the last times leave behind no more than the first times."""
    for _ in range(warm):
        work()
    before, others = resident(), held()
    for _ in range(times):
        work()
    grown = resident() - before
    now = held()
    print(f"{what}: {times} times, {grown / 1024:.0f} KiB more; descriptors and threads {others}, {now}", flush=True)
    assert MEMORY_IS_KEPT or grown < MAY_GROW, f"{what}: {grown} bytes more after {times} times"
    assert now == others, f"{what}: descriptors and threads were {others} and are {now}"


def create():
    """Creates a store and uses it, and a store of one rank."""
    with tutti.create("dist_sync_mpi", log_level="error") as kv:
        kv.pushpull("once", np.ones(1000, np.float32)).wait()
        rank = kv.rank
    with tutti.create("dist_sync_mpi", ranks=[rank], log_level="error") as kv:
        kv.pushpull("once", np.ones(10, np.float32)).wait()


class Calls:
    """A hundred calls of all kinds."""

    def __init__(self, kv):
        self.kv, self.called = kv, threading.Semaphore(0)
        self.keys = [f"list {i}" for i in range(20)]

    def __call__(self):
        kv, array = self.kv, np.ones(100, np.float32)
        for _ in range(75):
            kv.pushpull("single", array).wait()
        for _ in range(2):
            kv.pushpull(self.keys, [np.ones(10, np.float32) for _ in self.keys]).wait()
        for i in range(10):
            kv.pushpull(f"forgotten {i}", np.ones(10))
        for _ in range(10):
            kv.pushpull("called back", np.ones(10)).then(lambda _: self.called.release())
            assert self.called.acquire(timeout=PATIENCE)
        for _ in range(2):
            try:
                kv.pushpull("refused", np.zeros(4, np.complex64))
            except tutti.InvalidArgumentError:
                pass
        kv.broadcast("last", array).wait()
        kv.barrier()


def main(creates, calls):
    flat("create and close", max(10, creates // 20), creates, create)
    with tutti.create("dist_sync_mpi", log_level="error") as kv:
        flat("a hundred calls", max(10, calls // 2000), calls // 100, Calls(kv))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
