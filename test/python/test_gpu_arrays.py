#!/usr/bin/env python3
"""Arrays on a GPU, which the stand-in for CUDA's driver plays, through the Python package as this build has it.

    test_gpu_arrays.py CORE_MODULE
"""
import ctypes
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types
import unittest

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parents[2]
CORE = pathlib.Path(sys.argv.pop()).resolve()
FOLDER = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with  # as long as the process
PACKAGE = pathlib.Path(FOLDER.name) / "tutti"
PACKAGE.mkdir()
for source in (*(ROOT / "bindings/python/tutti").iterdir(), CORE):
    (PACKAGE / source.name).symlink_to(source)
sys.path.insert(0, FOLDER.name)
import tutti
from tutti import _gpu


class Interfaced:
    """An object that supports only CUDA's array interface."""

    def __init__(self, array, typestr="<f4", strides=None, read_only=False):
        shape, (address, _) = array.shape, array.__cuda_array_interface__["data"]
        self.__cuda_array_interface__ = {"shape": shape, "typestr": typestr, "data": (address, read_only),
                                         "strides": strides, "version": 3}


class Device(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_int), ("index", ctypes.c_int)]


class Managed(ctypes.Structure):
    """DLPack's managed tensor, with one dimension of float32."""

    _fields_ = [("data", ctypes.c_void_p), ("device", Device), ("dims", ctypes.c_int), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.c_void_p), ("offset", ctypes.c_uint64), ("context", ctypes.c_void_p),
                ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p))]


class Packed:
    """An object that supports DLPack, and counts how often its consumers have given a tensor back."""

    def __init__(self, array):
        self.array, self.returned = array, 0

    def __dlpack_device__(self):
        return 2, 0

    def give_back(self, _):
        self.returned += 1

    def __dlpack__(self, stream=None):
        assert stream == -1, "the store waits for the stream by itself"
        address, _ = self.array.__cuda_array_interface__["data"]
        self.shape = (ctypes.c_int64 * 1)(*self.array.shape)
        self.managed = Managed(address, Device(2, 0), 1, 2, 32, 1, self.shape, None, 0, None,
                               Managed._fields_[-1][1](self.give_back))
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
        return new(ctypes.addressof(self.managed), b"dltensor", None)


class Arrays(unittest.TestCase):
    def setUp(self):
        self.kv = tutti.create("nccl")
        self.addCleanup(self.kv.close)
        self.ones, self.twos = self.filled(1), self.filled(2)

    def filled(self, value):
        array = self.kv.allocate(5, gpu=0)
        array.copy_from(np.full(5, value, np.float32))
        return array

    def holds(self, array, value):
        numbers = np.zeros(5, np.float32)
        array.copy_to(numbers)
        self.assertEqual(numbers.tolist(), [value] * 5)

    def test_arrays_from_allocate_are_summed_on_the_gpu_and_a_stream_waits_for_them(self):
        self.assertEqual((self.ones.shape, self.ones.dtype, self.ones.gpu), ((5,), "float32", 0))
        pending = self.kv.pushpull("w", [self.ones, self.twos], [self.ones])
        pending.wait_on(1)
        pending.wait()
        self.holds(self.ones, 3)

    def test_arrays_that_speak_the_array_interface_or_dlpack_are_taken_in_place(self):
        for kind in (Interfaced, Packed):
            with self.subTest(kind.__name__):
                array = kind(self.twos)
                self.kv.pushpull(kind.__name__, [array, self.ones], [self.ones]).wait()
        self.holds(self.ones, 5)
        self.assertEqual(array.returned, 1)

    def test_what_cannot_be_used_in_place_is_refused_with_what_to_do(self):
        for text, array in {"no counterpart": Interfaced(self.ones, "<c8"),
                            "not C-contiguous.*contiguous copy": Interfaced(self.ones, strides=(8,)),
                            "is read-only": Interfaced(self.ones, read_only=True)}.items():
            with self.subTest(text), self.assertRaisesRegex(tutti.InvalidArgumentError, text):
                self.kv.pushpull("w", array)
        with self.assertRaisesRegex(tutti.UnsupportedError, "input 0 is on the CPU, but a store of type 'nccl'"):
            self.kv.pushpull("w", np.ones(5, np.float32))
        with tutti.create("local") as local, self.assertRaisesRegex(tutti.UnsupportedError, "takes tensors on the CPU"):
            local.pushpull("w", self.ones)

    def test_a_stream_is_known_by_what_each_library_calls_it(self):
        for stream in (7, types.SimpleNamespace(cuda_stream=7), types.SimpleNamespace(ptr=7),
                       types.SimpleNamespace(__cuda_stream__=lambda: (0, 7))):
            self.assertEqual(_gpu.handle(stream), 7)
        with self.assertRaisesRegex(TypeError, "a stream is torch's, cupy's"):
            self.kv.pushpull("w", self.ones).wait_on("x")

    def test_calls_follow_the_stream_in_which_torch_works(self):
        torch = types.ModuleType("torch")
        torch.Tensor = type("Tensor", (), {"device": types.SimpleNamespace(index=1)})
        torch.cuda = types.SimpleNamespace(current_stream=lambda device: types.SimpleNamespace(cuda_stream=9))
        sys.modules["torch"] = torch
        self.addCleanup(sys.modules.pop, "torch")
        self.assertEqual(_gpu.place(torch.Tensor()), (1, 9))

    def test_what_is_looked_at_on_the_host_is_copied_there(self):
        self.assertEqual(self.kv.fingerprint([self.ones]), self.kv.fingerprint([np.ones(5, np.float32)]))
        with tutti.create("device", check_finite=True) as careful:
            with self.assertRaisesRegex(tutti.InvalidArgumentError, r"element \[0\] is inf"):
                careful.pushpull("w", self.filled(np.inf))

    def test_the_example_learns_the_same_with_weights_and_gradients_on_a_gpu(self):
        digests = set()
        for words in (["device"], ["device", "--gpus", "0"], ["nccl", "--gpus", "0"]):
            done = subprocess.run([sys.executable, ROOT / "examples/python/train_digits.py", "--epochs", "1",
                                   "--kv-store", *words], text=True, check=True, stdout=subprocess.PIPE, timeout=60,
                                  env={**os.environ, "PYTHONPATH": FOLDER.name})
            digests.add(re.search(r"sha256 of the weights (\w+)", done.stdout)[1])
        self.assertEqual(len(digests), 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
