"""Calls whose ranks wait for them in ways drawn at random, callbacks and asyncio among them: none stalls. Every rank of
an MPI job runs all of it, at any number of ranks.

    mpirun -n N python package_stalls.py

Run by the Python that the package is installed for.
"""
import asyncio
import os
import random
import tempfile
import threading
import time
import unittest

import numpy as np

from package_fixture import make_store

TURNS = 50
STALL_SECONDS = 1
SIZES = (126505, 59, 692, 1186, 45, 36, 24, 49, 2826)


def poll(pending):
    while not pending.done():
        time.sleep(0.0005)


def await_callback(pending):
    called = threading.Event()
    pending.then(lambda _: called.set())
    called.wait()


def await_in_a_loop(pending):
    async def work():
        await pending
    asyncio.run(work())


def wait_a_little(pending):
    while not pending.wait(0.003):
        pass


WAYS = (lambda pending: pending.wait(), wait_a_little, poll, await_callback, await_in_a_loop)


def submit(kv, arrays, own):
    """Submits the arrays in a random order, one by one or in one call."""
    order = own.sample(range(len(arrays)), len(arrays))
    if own.randrange(3) == 0:
        return [kv.pushpull(order, [arrays[i] for i in order])]
    return [kv.pushpull(i, arrays[i]) for i in order]


class Waits(unittest.TestCase):
    def take_turns(self, kv, own):
        arrays = [np.empty(count, np.float32) for count in SIZES]
        for _ in range(TURNS):
            start = time.monotonic()
            for array in arrays:
                array[:] = 1
            pendings = submit(kv, arrays, own)
            if own.randrange(3) == 0:
                time.sleep(own.random() * 3e-3)
            own.shuffle(pendings)
            for pending in pendings:
                own.choice(WAYS)(pending)
            for array in arrays:
                self.assertTrue((array == kv.num_workers).all())
            # A sleeping call may go on when the time for a report has come, and none is written.
            self.assertLess(time.monotonic() - start, STALL_SECONDS)

    def test_calls_end_without_a_stall_in_whatever_ways_their_ranks_wait_for_them(self):
        seed = time.time_ns()
        print(f"seed {seed}", flush=True)
        with tempfile.TemporaryFile() as log:
            before = os.dup(2)
            os.dup2(log.fileno(), 2)
            try:
                for options in ({}, {"fusion_bytes": 4096, "part_bytes": 4096}):
                    with make_store(stall_report_after=STALL_SECONDS, log_level="warning", **options) as kv:
                        self.take_turns(kv, random.Random(f"{seed} {kv.rank}"))
            finally:
                os.dup2(before, 2)
                os.close(before)
            log.seek(0)
            self.assertNotIn("nothing has moved", log.read().decode())


if __name__ == "__main__":
    # An exception that nobody handles would make the other ranks wait, so unittest handles them all.
    unittest.main()
