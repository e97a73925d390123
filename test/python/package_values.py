"""Tests of fingerprints and check_finite, which find wrong values; every rank of an MPI job runs all of it, at any
number of ranks.

    mpirun -n N python package_values.py

Run by the Python that the package is installed for.
"""
import enum
import importlib.util
import unittest
import warnings
import weakref

import numpy as np

import tutti
from package_fixture import Foreign, Ranks


class Checked(Ranks):
    OPTIONS = {"check_finite": True}


class Fingerprints(Checked):
    def arrays(self):
        return {"weight": np.arange(6, dtype=np.float32).reshape(2, 3), "bias": np.zeros(3), "steps": np.array(5),
                "none": np.zeros((0, 2), np.float16), "turned": np.arange(6.0).reshape(2, 3).T,
                "mask": np.array([True])}

    def test_equal_arrays_have_one_hash_on_all_ranks_in_any_order_of_names(self):
        arrays = self.arrays()
        text = self.kv.fingerprint(arrays)
        self.assertRegex(text, "^[0-9a-f]{64}$")
        self.assertEqual(set(self.kv.allgather_object(text)), {text})
        mine = dict(reversed(arrays.items())) if self.rank % 2 else arrays
        self.assertEqual(self.kv.fingerprint(mine), text)
        self.assertNotEqual(self.kv.fingerprint(list(arrays.values())), text)

    def differs(self, arrays, text, key, ranks):
        if self.size == 1:
            return self.kv.fingerprint(arrays)
        with self.assertRaisesRegex(tutti.MismatchError, text) as raised:
            self.kv.fingerprint(arrays)
        self.assertEqual((raised.exception.key, raised.exception.ranks), (key, ranks))

    def test_the_first_that_differs_is_named_with_the_ranks_whose_it_is(self):
        arrays = self.arrays()
        if self.rank == self.last:
            arrays["bias"][1] = np.nextafter(0, 1)
            arrays["steps"] += 1
        self.differs(arrays, rf"'bias' differs.*float64 \(3,\) of hash \w{{8}} on ranks? 0.* on rank {self.last} "
                     r"\(2 of 6", "bias", (self.last,))
        self.differs(list(arrays.values()), "tensor 1 differs", None, (self.last,))

    def test_ranks_that_agree_against_rank_0_are_all_named(self):
        self.differs([np.full(3, min(self.rank, 1))], "tensor 0", None, tuple(range(1, self.size)))

    def test_dtype_shape_and_what_is_missing_count(self):
        other = self.rank == self.last and self.size > 1
        for mine in (np.zeros(4, np.int32), np.zeros((2, 2), np.float32), None):
            arrays = {"a": np.zeros(4, np.float32), "b": np.ones(1)}
            if other:
                arrays["a"] = mine
            if other and mine is None:
                del arrays["a"]
            self.differs(arrays, "no such tensor" if mine is None else "float32 .*;", "a", (self.last,))

    def test_a_tensor_that_is_no_array_is_refused(self):
        with self.assertRaisesRegex(tutti.InvalidArgumentError, "Python objects"):
            self.kv.fingerprint([np.array([None])])

    def test_what_one_rank_cannot_compare_is_an_error_on_all_ranks_and_the_store_lives_on(self):
        array = np.ones(2)
        for wrong, kind, text in (([np.array([None])], tutti.InvalidArgumentError, "Python objects"),
                                  ([None], TypeError, "a value is a numpy array"), (5, TypeError, "iter"),
                                  ({(1, 2): array}, TypeError, "a str or an int, not tuple"),
                                  ({object(): array}, TypeError, "a str or an int, not object")):
            if self.rank == self.last:
                with self.assertRaisesRegex(kind, text):
                    self.kv.fingerprint(wrong)
            else:
                with self.assertRaisesRegex(tutti.InvalidArgumentError,
                                            f"^fingerprint: an array or a name of rank {self.last} cannot") as raised:
                    self.kv.fingerprint([array])
                self.assertEqual(raised.exception.ranks, (self.last,))
            self.kv.fingerprint([array])

    def test_equal_names_are_one_name_whatever_their_types(self):
        class Text(str):
            __repr__ = object.__repr__  # another on each rank

        class Number(enum.IntEnum):
            ONE = 1
        texts, numbers = ("weight", Text("weight")), (1, np.int64(1), Number.ONE, True)
        arrays = {texts[self.rank % 2]: np.ones(2), numbers[self.rank % 4]: np.zeros(3)}
        text = self.kv.fingerprint(arrays)
        self.assertEqual(self.kv.fingerprint({"weight": np.ones(2), 1: np.zeros(3)}), text)
        if self.rank == self.last:
            arrays[1] = np.ones(3)
        self.differs(arrays, "tensor 1 differs", 1, (self.last,))


class Finite(Checked):
    def refused(self, text, about, call, *args, **named):
        with self.assertRaisesRegex(tutti.InvalidArgumentError, text) as raised:
            call(*args, **named)
        self.assertEqual((raised.exception.key, raised.exception.ranks), (about, (self.rank,)))

    def test_a_call_that_gets_a_nan_or_an_infinity_names_key_rank_and_place(self):
        array = np.ones((3, 4), np.float32)
        array[1, 2:] = np.nan, np.inf
        mine = rf"rank {self.rank} brings.*\(3, 4\) whose element \[1, 2\] is NaN, the first of 2"
        self.refused(f"pushpull of key 'w': {mine}", "w", self.kv.pushpull, "w", array)
        self.refused(f"pushpull of key 'w': {mine}", "w", self.kv.pushpull, key="w", ins=array)
        self.refused(f"broadcast of key 'w': {mine}", "w", self.kv.broadcast, "w", value=array, root_rank=self.rank)
        self.refused(mine, "w", self.kv.pushpull, ["v", "w"], [np.ones(2), [np.ones((3, 4), np.float32), array]])
        self.refused("reduce_scatter", "w", self.kv.reduce_scatter, "w", array, np.zeros(3, np.float32))
        self.refused("allgather", "w", self.kv.allgather, "w", array, np.zeros(9, np.float32))
        for value, text in ((-np.inf, "is -inf"), (np.inf, "is inf")):
            for dtype in (np.float16, np.float32, np.float64):
                self.refused(text, "v", self.kv.pushpull, "v", np.array([1, value], dtype))

    def test_arrays_that_numpy_does_not_know_are_looked_at_too(self):
        self.refused(r"\[1\] is inf", "f", self.kv.pushpull, "f", Foreign(np.array([1, np.inf])))

    def test_a_call_by_the_class_through_a_temporary_or_after_the_last_name_is_looked_at_too(self):
        array = np.array([np.nan])
        self.refused("NaN", "class", tutti.KVStore.pushpull, self.kv, "class", array)
        self.refused_alone(lambda: tutti.create("local", check_finite=True).pushpull("alone", array))
        call = tutti.create("local", check_finite=True).pushpull
        self.refused_alone(lambda: call("alone", array))
        call("finite", np.ones(1)).wait()

    def refused_alone(self, call):
        with self.assertRaisesRegex(tutti.InvalidArgumentError, "'alone': rank 0.*NaN"):
            call()

    def test_masked_arrays_are_refused_and_not_looked_at(self):
        with self.assertRaisesRegex(tutti.InvalidArgumentError, r"is masked.*filled\(0\)"):
            self.kv.pushpull("masked", np.ma.masked_invalid([1, np.nan]))

    @unittest.skipUnless(importlib.util.find_spec("ml_dtypes"), "ml_dtypes is not installed")
    def test_numpys_arrays_of_bfloat16_are_looked_at_too(self):
        import ml_dtypes  # pylint: disable=import-outside-toplevel
        for value, text in ((np.nan, r"\[1\] is NaN"), (-np.inf, r"\[1\] is -inf")):
            array = np.array([1, value, 1], ml_dtypes.bfloat16)
            self.refused(text, "b", self.kv.pushpull, "b", array)
        array = np.full(3, ml_dtypes.finfo(ml_dtypes.bfloat16).max)
        self.kv.broadcast("b", array).wait()

    def test_every_bit_pattern_of_16_bits_is_told_as_numpy_tells_it(self):
        with tutti.create("local", log_level="error", check_finite=True) as kv:
            values = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
            with self.assertRaisesRegex(tutti.InvalidArgumentError, "first of 2048 that") as raised:
                kv.pushpull("bits", values, np.empty_like(values))
            self.assertIn(r"[31744] is inf", str(raised.exception))
            kv.pushpull("bits", values[np.isfinite(values)].copy()).wait()

    def test_nothing_was_submitted_and_the_mended_call_goes(self):
        array = np.full(4, np.nan)
        self.refused("NaN", "mended", self.kv.pushpull, "mended", array)
        array[:] = 1
        self.kv.pushpull("mended", array).wait()
        self.assertEqual(array[0], self.size)

    def test_only_the_root_of_a_broadcast_is_looked_at(self):
        array = np.full(4, np.nan if self.rank != self.last else 1.0)
        self.kv.broadcast("root", array, self.last).wait()
        self.assertEqual(array[0], 1)
        self.kv.broadcast("root", array, root_rank=self.last).wait()
        if self.rank == 0:
            self.refused("broadcast of key 'first'.*NaN", "first", self.kv.broadcast, "first", np.array([np.nan]))

    def test_finite_values_whose_sum_overflows_integers_and_outputs_pass_without_a_warning(self):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            big = np.full(4, np.finfo(np.float32).max)
            self.kv.broadcast("big", big).wait()
            self.kv.pushpull("output", np.ones(2), np.full(2, np.nan)).wait()
            self.kv.pushpull("integers", np.ones(2, np.int64)).wait()
            self.kv.broadcast("both signs", np.array([1e300, -1e300] * 8)).wait()

    def test_the_others_learn_of_it_by_the_keys_timeout_which_names_the_rank(self):
        if self.size == 1:
            return
        with tutti.create("dist_sync_mpi", key_timeout=0.2, log_level="off", check_finite=True) as kv:
            value = np.nan if self.rank == self.last else 1.0
            if self.rank == self.last:
                self.refused("NaN", "late", kv.pushpull, "late", np.array([value]))
            else:
                with self.assertRaises(tutti.TimedOutError) as raised:
                    kv.pushpull("late", np.array([value])).wait()
                self.assertIn("late", str(raised.exception))
                self.assertIn(f"{self.last}", str(raised.exception))
            self.kv.barrier()  # the other store's would time out too

    def test_a_store_that_looks_is_dropped_like_any_other(self):
        kv = tutti.create("local", check_finite=True)
        with self.assertRaisesRegex(tutti.InvalidArgumentError, "push of key 1: rank 0"):
            kv.push(1, np.array([np.nan]))
        seen = weakref.ref(kv)
        del kv
        self.assertIsNone(seen())

    def test_without_the_option_nothing_is_looked_at(self):
        with tutti.create("dist_sync_mpi", log_level="error") as kv:
            array = np.array([np.nan])
            kv.pushpull("nan", array).wait()
            self.assertTrue(np.isnan(array[0]))


if __name__ == "__main__":
    # An exception that nobody handles would make the other ranks wait, so unittest handles them all.
    unittest.main()
