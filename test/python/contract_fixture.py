"""The contract_*.py share this module. Every rank of an MPI job runs all tests in the same order, each with stores of
its own. An error on one rank must not keep another rank waiting."""
import contextlib
import ctypes
import os
import tempfile
import unittest

import numpy as np

import tutti
from package_fixture import PATIENCE, Foreign

DTYPES = ("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int32", "int64")
OPS = ("sum", "average", "min", "max")


def make_store(**options):
    """Creates a store. If a test fails on one rank, the other ranks may wait for it and then fail, too."""
    patience = {"key_timeout": PATIENCE, "create_timeout": PATIENCE}
    return tutti.create("dist_sync_mpi", **{**patience, "log_level": "error", **options})


def values(rank, key, turn, count):
    """Values that differ by rank, key and turn. They are so small that their sums are exact in float32."""
    elements = np.arange(count, dtype=np.int64)
    return ((rank * 7919 + key * 104729 + turn * 1299709 + elements * 15485863) % 1000).astype(np.float32)


def sums(ranks, key, turn, count):
    """The sums of `values` over these ranks, or over this many ranks."""
    ranks = range(ranks) if isinstance(ranks, int) else ranks
    return np.sum([values(rank, key, turn, count) for rank in ranks], axis=0, dtype=np.float32)


def shard(kv, count):
    """The elements that this rank gets from a reduce_scatter."""
    return slice(count * kv.rank // kv.num_workers, count * (kv.rank + 1) // kv.num_workers)


@contextlib.contextmanager
def stderr_to(lines):
    """Adds to `lines` the lines that this process writes to standard error while the block runs."""
    with tempfile.TemporaryFile() as file:
        before = os.dup(2)
        os.dup2(file.fileno(), 2)
        try:
            yield
        finally:
            os.dup2(before, 2)
            os.close(before)
        file.seek(0)
        lines += file.read().decode().splitlines()


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


def handed(array, dtype):
    """A numpy array in the form that a call takes. numpy has no bfloat16, so an array of uint16 holds such bits."""
    return Patched(array, {20: 4}) if dtype == "bfloat16" else array


def numpy_dtype(dtype):
    return "uint16" if dtype == "bfloat16" else dtype


def to_bits(numbers, dtype):
    """These numbers as an array of this dtype holds them. A bfloat16 can hold each of them."""
    if dtype != "bfloat16":
        return numbers.astype(dtype)
    return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)


def from_bits(array, dtype):
    if dtype != "bfloat16":
        return array.astype(np.float64)
    return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


@contextlib.contextmanager
def environment(**variables):
    """Sets environment variables while the block runs."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name) if value is None else os.environ.__setitem__(name, value)


class Contract(unittest.TestCase):
    def store(self, **options):
        """A store over all ranks, which is closed when the test ends."""
        kv = make_store(**options)
        self.addCleanup(kv.close)
        return kv

    def assert_alive(self, kv):
        array = np.ones((), np.float32)
        kv.pushpull("alive", array).wait()
        self.assertEqual(array, kv.num_workers)

    def assert_equal(self, array, expected, about=""):
        np.testing.assert_array_equal(array, expected, about)

    def refused(self, kind, texts, call, *args, key=None, ranks=None, **named):
        """The error that the call, or the waiting for it, ends with: its kind, all that it says, its data."""
        with self.assertRaises(kind) as raised:
            pending = call(*args, **named)
            if pending is not None:
                pending.wait()
        for text in texts:
            self.assertIn(text, str(raised.exception))
        if key is not None:
            self.assertEqual(raised.exception.key, key)
        if ranks is not None:
            self.assertEqual(raised.exception.ranks, tuple(ranks))
        return raised.exception
