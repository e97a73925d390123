"""Promises of the package about jax's arrays, which never change; every rank of an MPI job runs all of it, at any
number of ranks.

    mpirun -n N python package_jax.py

Run by a Python that has jax, and that the package is installed for.
"""
import asyncio
import unittest

import jax
import jax.numpy as jnp
import numpy as np

import tutti
from package_fixture import PATIENCE, Ranks

DTYPES = ("float32", "float16", "bfloat16", "int8", "uint8", "int32")


class Arrays(Ranks):
    def mine(self, shape=4, dtype="float32"):
        return jnp.full(shape, self.rank + 1, dtype)

    def test_every_dtype_is_read_in_place_and_summed_into_an_array_of_numpy(self):
        for dtype in DTYPES:
            with self.subTest(dtype):
                array = self.mine((3, 4), dtype)
                data, name, shape = tutti._core.bytes_of(array)
                self.assertEqual((data.ctypes.data, name, shape), (array.unsafe_buffer_pointer(), dtype, (3, 4)))
                out = np.empty_like(array)
                self.kv.pushpull("key", array, out).wait()
                self.assertTrue((out == self.total).all())
                self.assertTrue((array == self.rank + 1).all())

    def test_arrays_of_numpy_with_jaxs_bfloat16_are_summed_in_place(self):
        array = np.full((2, 3), self.rank + 1, jnp.bfloat16)
        self.kv.pushpull("key", array).wait()
        self.assertTrue((array == self.total).all())
        self.kv.broadcast("key", array[1:], self.last).wait()
        with self.assertRaisesRegex(tutti.InvalidArgumentError, "not C-contiguous"):
            self.kv.pushpull("key", array.T)

    def test_without_outs_a_call_returns_new_arrays_of_the_same_dtype(self):
        for dtype in DTYPES:
            with self.subTest(dtype):
                array = self.mine((3, 4), dtype)
                for pending, value in ((self.kv.pushpull("key", array), self.total),
                                       (self.kv.broadcast("root", array, self.last), self.size)):
                    for returned in (pending.result(), pending.result(PATIENCE)):
                        self.assertIsInstance(returned, jax.Array)
                        self.assertEqual((returned.dtype, returned.shape), (array.dtype, (3, 4)))
                        self.assertTrue((returned == value).all())
                self.assertTrue((array == self.rank + 1).all())

    def test_what_is_returned_is_in_lists_as_those_of_the_call(self):
        there = np.ones(2, np.float32)
        arrays = [self.mine(()), there, (self.mine(3), self.mine(3))]
        summed, same, devices = self.kv.pushpull(["a", "b", "c"], arrays).result()
        self.assertEqual(summed, self.total)
        self.assertIs(same, there)
        np.testing.assert_array_equal(there, np.full(2, self.size))
        np.testing.assert_array_equal(devices, np.full((2, 3), 2 * self.total))

    def test_await_returns_them(self):
        async def work():
            return await self.kv.pushpull("key", self.mine()), await self.kv.pushpull("key", np.ones(4))
        summed, nothing = asyncio.run(work())
        self.assertTrue((summed == self.total).all())
        self.assertIsNone(nothing)

    def test_they_are_never_written(self):
        array = self.mine()
        for call in (lambda: self.kv.pushpull("key", np.zeros(4, np.float32), array),
                     lambda: self.kv.pushpull("key", array, array),
                     lambda: self.kv.allgather("key", np.zeros(4, np.float32), array)):
            with self.assertRaisesRegex(tutti.InvalidArgumentError, r"never change.*numpy\.empty_like"):
                call()
        with self.assertRaisesRegex(TypeError, "PRNGKeyArray"):
            self.kv.pushpull("key", jax.random.key(0))

    def test_the_gradients_of_all_ranks_are_averaged(self):
        def loss(weight, data):
            return ((data @ weight) ** 2).mean()
        weight, data = jnp.arange(3.0), jnp.arange(6.0 * self.size).reshape(-1, 3)
        mine = jax.jit(jax.grad(loss))(weight, data[2 * self.rank:2 * self.rank + 2])
        average = self.kv.pushpull("key", mine, op="average").result()
        np.testing.assert_allclose(average, jax.grad(loss)(weight, data), rtol=1e-5)

    def test_within_jit_it_says_that_there_are_no_values_yet(self):
        with self.assertRaisesRegex(tutti.InvalidArgumentError, r"jax\.jit.*no values yet"):
            jax.jit(lambda array: self.kv.pushpull("key", array, np.zeros(4, np.float32)))(self.mine())
        with self.assertRaisesRegex(tutti.InvalidArgumentError, r"jax\.jit.*no values yet"):
            jax.jit(lambda array: self.kv.pushpull("key", array).result())(self.mine())

    def test_they_are_compared_and_given_as_objects(self):
        tree = {"weight": jnp.ones(3, jnp.bfloat16), "bias": jnp.zeros(2)}
        self.kv.fingerprint(tree)
        self.assertTrue((self.kv.broadcast_object(self.mine(), self.last) == self.size).all())

    def test_the_first_nan_is_named(self):
        with tutti.create("local", check_finite=True) as kv:
            for dtype in DTYPES[:3]:
                with self.assertRaisesRegex(tutti.InvalidArgumentError, r"\[1\] is NaN"):
                    kv.pushpull("key", jnp.array([1, jnp.nan], dtype), np.zeros(2, np.float32))


if __name__ == "__main__":
    unittest.main()
