"""The fixture of those package_*.py that every rank of an MPI job runs: a store over all ranks."""
import os
import signal
import threading
import time
import unittest

import numpy as np

import tutti

PATIENCE = 60


def until(condition):
    """Waits until the condition is true, and returns whether it is. Meanwhile the interpreter executes instructions,
    between which it drops arrays.
    """
    end = time.monotonic() + PATIENCE
    while not condition() and time.monotonic() < end:
        time.sleep(0.001)
    return condition()


def interrupt(test, call):
    """Presses Ctrl-C until the call has begun and is interrupted. By the second press the call has begun; a third press
    would interrupt the code after it.
    """
    begun, pressed, over = False, 0, threading.Event()

    def handler(*_):
        nonlocal pressed
        pressed += begun
        if pressed == 2:
            raise KeyboardInterrupt
    before = signal.signal(signal.SIGINT, handler)

    def press():
        while not over.wait(0.05):
            os.kill(os.getpid(), signal.SIGINT)
    presser = threading.Thread(target=press)
    try:
        with test.assertRaises(KeyboardInterrupt):
            presser.start()
            begun = True
            call()
    finally:
        over.set()
        presser.join()
        signal.signal(signal.SIGINT, before)


class Beside:
    """A block beside which a thread works. An exception of the thread leaves the block."""

    def __init__(self, work, *args):
        self.raised = None
        self.thread = threading.Thread(target=self.run, args=(work, *args))

    def run(self, work, *args):
        try:
            work(*args)
        except BaseException as raised:  # pylint: disable=broad-except
            self.raised = raised

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.thread.join()
        if self.raised:
            raise self.raised


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
    """An array that supports DLPack and is not one of numpy's."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **how):
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()
