"""Arrays that the package takes, arrays that it refuses and the errors, and arrays that it returns; every rank of an
MPI job runs all of it, at any number of ranks.

    mpirun -n N python package_arrays.py

Run by the Python that the package is installed for.
"""
import importlib
import importlib.util
import subprocess
import sys
import unittest
from types import SimpleNamespace
from unittest import mock

import numpy as np

import tutti
from package_fixture import Foreign, Ranks

HAS_ML_DTYPES = importlib.util.find_spec("ml_dtypes") is not None


class Refused(Ranks):
    def refused(self, kind, text, array):
        for call in (lambda: self.kv.pushpull("refused", array), lambda: self.kv.pushpull(["refused"], [[array]]),
                     lambda: self.kv.pushpull("refused", array, np.zeros(4, np.float32))):
            with self.assertRaisesRegex(kind, text):
                call()

    def test_an_array_that_cannot_be_used_in_place_is_refused_with_what_to_do(self):
        cases = {"is not C-contiguous.*numpy.ascontiguousarray": np.zeros((4, 4), np.float32)[:, ::2],
                 "is not in this machine's byte order.*newbyteorder": np.zeros(4, ">f4"),
                 "9 dimensions.*at most 8": np.zeros((1,) * 9, np.float32)}
        for text, array in cases.items():
            with self.subTest(text):
                self.refused(tutti.InvalidArgumentError, text, array)
        self.assertTrue(issubclass(tutti.InvalidArgumentError, ValueError))
        read_only = self.mine()
        read_only.flags.writeable = False
        with self.assertRaisesRegex(tutti.InvalidArgumentError, "is read-only.*array.copy"):
            self.kv.pushpull("refused", read_only)

    def test_a_dtype_that_cannot_be_added_is_refused_with_what_fits_it(self):
        back = r", and copy the result back: array\[\.\.\.\] = result"
        for dtype, advice in (("int16", rf"array\.astype\('int32'\){back}"), ("uint32", rf"astype\('int64'\){back}"),
                              ("bool", rf"astype\('uint8'\){back}"), ("longdouble", rf"astype\('float64'\){back}"),
                              ("complex64", r"array\.view\(array\.real\.dtype\), which shares its memory"),
                              ("M8[s]", r"array\.view\('int64'\), which shares its memory")):
            with self.subTest(dtype):
                self.refused(tutti.InvalidArgumentError, f"cannot be added up.*{advice}.*broadcast, allgather",
                             np.zeros(4, dtype))

    def test_a_dtype_without_a_counterpart_is_refused_with_what_fits_it(self):
        for dtype, advice in (("U1", "broadcast_object"), ("S3", "broadcast_object"),
                              ("V4", r"array\.view\('uint8'\)"),
                              ([("a", "f4"), ("b", "i4")], r"array\['name'\]\.copy")):
            with self.subTest(dtype):
                self.refused(tutti.InvalidArgumentError, f"has no counterpart in tutti.*{advice}", np.zeros(4, dtype))
                with self.assertRaisesRegex(tutti.InvalidArgumentError, f"has no counterpart in tutti.*{advice}"):
                    self.kv.broadcast("refused", np.zeros(4, dtype))
        self.refused(tutti.InvalidArgumentError, "holds Python objects.*broadcast_object", np.array([1, None]))

    def test_what_the_advice_says_works(self):
        array = np.full(2, self.rank + 1j, np.complex64)
        self.kv.pushpull("complex", array.view(array.real.dtype)).wait()
        np.testing.assert_array_equal(array, np.full(2, self.total - self.size + self.size * 1j))

    def test_names_of_other_libraries_mean_the_same(self):
        self.assertEqual(self.kv.size, self.kv.num_workers)
        array, outs = np.full(3, self.rank + 1.0), np.zeros(3)
        self.assertIsNone(self.kv.allreduce("named", array, outs, op="max"))
        np.testing.assert_array_equal(outs, np.full(3, float(self.size)))
        self.kv.allreduce("named", array)
        np.testing.assert_array_equal(array, np.full(3, float(self.total)))

    def test_a_converted_copy_gives_its_result_back(self):
        flags = np.arange(4) == self.rank
        result = flags.astype("uint8")
        self.kv.pushpull("flags", result).wait()
        flags[...] = result
        np.testing.assert_array_equal(flags, np.arange(4) < self.size)

    def test_a_masked_array_is_refused_with_what_to_do(self):
        array = np.ma.masked_invalid(np.array([1, np.nan], np.float32))
        self.refused(tutti.InvalidArgumentError, r"is masked.*array\.filled\(0\)", array)
        with self.assertRaisesRegex(tutti.InvalidArgumentError, "is masked"):
            self.kv.fingerprint([array])
        filled = array.filled(0)
        self.kv.pushpull("filled", filled).wait()
        np.testing.assert_array_equal(filled, [self.size, 0])

    def test_other_subclasses_of_numpys_arrays_are_used_in_place(self):
        array = self.mine((2, 2)).view(np.matrix)
        self.kv.pushpull("matrix", array).wait()
        np.testing.assert_array_equal(array, np.full((2, 2), self.total))

    def test_what_is_no_array_is_a_type_error_that_names_its_type(self):
        described = type("Described", (), {"__array_interface__": np.zeros(4).__array_interface__})()
        for what, name in ((1.0, "float"), ("text", "str"), (None, "NoneType"), (described, "Described"),
                           (np.ndarray, "the class ndarray"), (Foreign, "the class Foreign"), 
                           (slice(3), "slice"), ({}, "dict"), (range(3), "range")):
            with self.subTest(name):
                self.refused(TypeError, f"a value is a numpy array, or another.*, not {name};", what)


class InFlight(Ranks):
    def test_an_array_cannot_be_resized_under_a_call(self):
        array = np.full(4, self.rank + 1, np.float32)
        pending = self.kv.pushpull("resized", array) if self.rank == 0 else None
        if pending and self.size > 1:
            for how in ({}, {"refcheck": False}):
                with self.assertRaisesRegex(ValueError, "cannot resize"):
                    array.resize(10**6, **how)
        self.kv.barrier()
        (pending or self.kv.pushpull("resized", array)).wait()
        np.testing.assert_array_equal(array, np.full(4, self.total))


class Allocate(Ranks):
    def test_a_shape_is_an_int_or_several_of_any_kind(self):
        for shape, result in ((3, (3,)), (np.int64(3), (3,)), ((2, 3), (2, 3)), ([np.int32(2), 3], (2, 3)),
                              (np.array([2, 3]), (2, 3)), ((), ()), (0, (0,)), ((2, 0), (2, 0))):
            with self.subTest(repr(shape)):
                array = self.kv.allocate(shape)
                self.assertEqual((array.shape, array.dtype), (result, np.float32))
                self.assertTrue(array.flags.c_contiguous and array.flags.writeable)

    def test_what_is_no_shape_is_refused_by_name(self):
        for shape in ("3", "", b"3", None, 2.5, (2, 2.5), np.array(["3"])):
            with self.subTest(repr(shape)), self.assertRaisesRegex(TypeError, "a shape is an int or a sequence"):
                self.kv.allocate(shape)
        for shape, text in ((2**64, f"dimension of {2**64}"), (-1, "dimension of -1"), ((2, -3), "dimension of -3"),
                            ((2**40, 2**40), "more elements"), ((1,) * 9, "9 dimensions")):
            with self.subTest(repr(shape)), self.assertRaisesRegex(tutti.InvalidArgumentError, text):
                self.kv.allocate(shape)

    def test_dtypes_are_given_as_numpy_takes_them(self):
        for dtype in ("float64", np.float64, np.dtype("f8"), "<f8", float):
            self.assertEqual(self.kv.allocate(3, dtype).dtype, np.float64)
        for dtype, kind, text in ((">f4", tutti.InvalidArgumentError, "byte order than this machine; take 'float32'"),
                                  (np.complex64, tutti.InvalidArgumentError, "does not have dtype complex64"),
                                  ("nonsense", TypeError, "nonsense")):
            with self.subTest(repr(dtype)), self.assertRaisesRegex(kind, text):
                self.kv.allocate(3, dtype)

    @unittest.skipUnless(HAS_ML_DTYPES, "ml_dtypes is not installed")
    def test_an_array_of_bfloat16_is_one_of_ml_dtypes(self):
        import ml_dtypes  # pylint: disable=import-outside-toplevel
        for dtype in ("bfloat16", ml_dtypes.bfloat16, np.dtype(ml_dtypes.bfloat16)):
            array = self.kv.allocate((2, 2), dtype)
            self.assertEqual(array.dtype, ml_dtypes.bfloat16)
            array[:] = self.rank + 1
            self.kv.pushpull("bfloat16", array).wait()
            self.assertTrue((array == self.total).all())

    def test_without_ml_dtypes_it_says_what_to_install(self):
        program = ("import sys; sys.modules['ml_dtypes'] = None\nimport tutti\n"
                   "try: tutti.create('local').allocate(3, 'bfloat16')\n"
                   "except tutti.UnsupportedError as error: print(error)")
        said = subprocess.run([sys.executable, "-c", program], text=True, capture_output=True, check=True, timeout=60)
        self.assertIn("pip install ml_dtypes", said.stdout)

    def test_it_holds_zeros(self):
        for _ in range(3):
            array = self.kv.allocate(100_000)
            self.assertFalse(array.any())
            array[:] = 1
            del array


class OnGpu:
    """An array on a GPU, which notes the stream for which it is exported."""

    def __init__(self):
        self.asked = []

    def __dlpack__(self, *, stream):
        self.asked.append(stream)
        return "a capsule"

    def __dlpack_device__(self):
        return 2, 3


class Streams(unittest.TestCase):
    """Tests of the stream that tutti passes to a library when it asks for an array. They need no GPU."""

    def setUp(self):
        self.gpu = importlib.import_module("tutti._gpu")

    def test_a_library_of_unknown_streams_orders_its_work_before_the_legacy_stream(self):
        array = OnGpu()
        self.assertEqual(self.gpu.place(array), (3, self.gpu.LEGACY))
        self.assertEqual(self.gpu.capsule(array), "a capsule")
        self.assertEqual(array.asked, [self.gpu.LEGACY])

    def test_torch_and_cupy_order_nothing_for_their_stream_is_known(self):
        for library, kind in (("torch", "Tensor"), ("cupy", "ndarray")):
            with self.subTest(library), mock.patch.dict(sys.modules, {library: SimpleNamespace(**{kind: OnGpu})}):
                array = OnGpu()
                self.gpu.capsule(array)
                self.assertEqual(array.asked, [-1])


if __name__ == "__main__":
    # An exception that nobody handles would make the other ranks wait, so unittest handles them all.
    unittest.main()
