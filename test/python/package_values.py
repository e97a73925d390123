"""What finds values that went wrong; every rank of an MPI job runs all of it, at any number of ranks.

    mpirun -n N python package_values.py

Run by the Python that the package is installed for.
"""
import unittest

import numpy as np

import tutti

PATIENCE = 60


class Ranks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.kv = tutti.create("dist_sync_mpi", key_timeout=PATIENCE, log_level="error")
        cls.addClassCleanup(cls.kv.close)
        cls.rank, cls.size = cls.kv.rank, cls.kv.num_workers
        cls.last = cls.size - 1


class Fingerprints(Ranks):
    def arrays(self):
        return {"weight": np.arange(6, dtype=np.float32).reshape(2, 3), "bias": np.zeros(3), "steps": np.array(5),
                "none": np.zeros((0, 2), np.float16), "turned": np.arange(6.0).reshape(2, 3).T, "mask": np.array([True])}

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


if __name__ == "__main__":
    # One exception that nobody handles would make the other ranks wait; unittest handles them all.
    unittest.main()
