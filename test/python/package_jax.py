"""What the package promises of jax's arrays, which never change; every rank of an MPI job runs all of it, at any number
of ranks.

    mpirun -n N python package_jax.py

Run by a Python that has jax, and that the package is installed for.
"""
import unittest

import jax
import jax.numpy as jnp
import numpy as np

import tutti
from package_fixture import Ranks

DTYPES = ("float32", "float16", "bfloat16", "int8", "uint8", "int32")


class Arrays(Ranks):
    def mine(self, shape=4, dtype="float32"):
        return jnp.full(shape, self.rank + 1, dtype)

    def summed(self, array):
        """A new array, as jax's own functions give one."""
        out = np.empty_like(array)
        self.kv.pushpull("key", array, out).wait()
        return jnp.asarray(out)

    def test_every_dtype_is_read_in_place_and_summed_into_a_new_array(self):
        for dtype in DTYPES:
            with self.subTest(dtype):
                array = self.mine((3, 4), dtype)
                data, name, shape = tutti._core.bytes_of(array)
                self.assertEqual((data.ctypes.data, name, shape), (array.unsafe_buffer_pointer(), dtype, (3, 4)))
                total = self.summed(array)
                self.assertEqual((total.dtype, total.shape), (array.dtype, (3, 4)))
                self.assertTrue((total == self.total).all())
                self.assertTrue((array == self.rank + 1).all())

    def test_arrays_of_numpy_with_jaxs_bfloat16_are_summed_in_place(self):
        array = np.full((2, 3), self.rank + 1, jnp.bfloat16)
        self.kv.pushpull("key", array).wait()
        self.assertTrue((array == self.total).all())
        self.kv.broadcast("key", array[1:], self.last).wait()
        with self.assertRaisesRegex(tutti.InvalidArgumentError, "not C-contiguous"):
            self.kv.pushpull("key", array.T)

    def test_they_are_never_written(self):
        array = self.mine()
        for call in (lambda: self.kv.pushpull("key", array), lambda: self.kv.broadcast("key", array),
                     lambda: self.kv.pushpull("key", np.zeros(4, np.float32), array)):
            with self.assertRaisesRegex(tutti.InvalidArgumentError, r"never change.*numpy\.empty_like"):
                call()

    def test_the_gradients_of_all_ranks_are_averaged(self):
        def loss(weight, data):
            return ((data @ weight) ** 2).mean()
        weight, data = jnp.arange(3.0), jnp.arange(6.0 * self.size).reshape(-1, 3)
        mine = jax.jit(jax.grad(loss))(weight, data[2 * self.rank:2 * self.rank + 2])
        out = np.empty_like(mine)
        self.kv.pushpull("key", mine, out, op="average").wait()
        np.testing.assert_allclose(out, jax.grad(loss)(weight, data), rtol=1e-5)

    def test_within_jit_it_says_that_there_are_no_values_yet(self):
        with self.assertRaisesRegex(tutti.InvalidArgumentError, r"jax\.jit.*no values yet"):
            jax.jit(lambda array: self.kv.pushpull("key", array, np.zeros(4, np.float32)))(self.mine())

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
