"""The fixture of those package_*.py that every rank of an MPI job runs: a store over all ranks, and odd arrays."""
import ctypes
import os
import signal
import threading
import time
import unittest

import numpy as np

import tutti

PATIENCE = 60


def make_store(**options):
    """Creates a store. If a test fails on one rank, the other ranks may wait for it and then fail, too."""
    patience = {"key_timeout": PATIENCE, "create_timeout": PATIENCE}
    return tutti.create("dist_sync_mpi", **{**patience, "log_level": "error", **options})


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
        cls.kv = make_store(**cls.OPTIONS)
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


class Patched(Foreign):
    """A numpy array whose DLPack tensor is changed at these bytes, so that it describes an array that numpy cannot
    have.
    """

    def __init__(self, array, changes, device=(1, 0)):
        super().__init__(array)
        self.changes = changes
        self.device = device

    def __dlpack__(self, **_):
        capsule = self.array.__dlpack__()
        pointer = ctypes.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        for at, byte in self.changes.items():
            ctypes.c_uint8.from_address(pointer(capsule, b"dltensor") + at).value = byte
        return capsule

    def __dlpack_device__(self):
        return self.device


def on_gpu(array):
    """The array as if it were on the first GPU. Its memory is in fact the host's."""
    return Patched(array, {8: 2}, (2, 0))


def as_bfloat16(array):
    """An array of uint16 as one of bfloat16, which numpy does not have."""
    return Patched(array, {20: 4})
