"""Bound calls: who holds their arrays, callbacks, and check_finite; every rank of an MPI job runs all of it, at any
number of ranks.

    mpirun -n N python package_bound.py

Run by the Python that the package is installed for.
"""
import threading
import unittest

import numpy as np

import tutti
from package_fixture import PATIENCE, Ranks, make_store


class Bound(Ranks):
    def test_a_binding_holds_its_arrays_and_does_not_keep_its_store_open(self):
        value, kv = np.ones(1, np.float32), make_store()
        bound = kv.bind("kept", value)
        with self.assertRaisesRegex(ValueError, "cannot resize"):
            value.resize(2)
        bound.run()
        self.assertEqual(value, self.size)
        kv.bind("dropped", value).start().wait()
        kv.close()
        with self.assertRaisesRegex(tutti.AbortedError, "bind of a store that is closed"):
            kv.bind("new", value)
        for _ in range(2):
            self.assert_closed(bound)
            kv = None
        self.assertTrue(bound.wait())  # for the call of before, which has succeeded
        other = make_store()
        bound = other.bind("kept", value)
        del other
        self.assert_closed(bound)

    def assert_closed(self, bound):
        for call in (bound.start, bound.run):
            with self.assertRaisesRegex(tutti.AbortedError, "bound pushpull of a store that is closed"):
                call()

    def test_a_callback_may_start_a_bound_call_and_run_another(self):
        array, first, second = (np.ones((), np.float32) for _ in range(3))
        started, run, chained = self.kv.bind("started", first), self.kv.bind("run", second), threading.Event()

        def chain(error):
            self.assertIsNone(error)
            started.start()
            run.run()
            chained.set()
        self.kv.pushpull("first", array).then(chain)
        self.assertTrue(chained.wait(PATIENCE))
        started.wait()
        self.assertEqual((array, first, second), (self.size,) * 3)


class Checked(Ranks):
    OPTIONS = {"check_finite": True}

    def test_check_finite_looks_at_each_start(self):
        array = np.ones(2, np.float32)
        bound = self.kv.bind("checked", array)
        bound.run()
        array[1] = np.nan
        for call in (bound.start, bound.run):
            with self.assertRaisesRegex(tutti.InvalidArgumentError, "bound pushpull of key 'checked'.*NaN") as raised:
                call()
            self.assertEqual((raised.exception.key, raised.exception.ranks), ("checked", (self.rank,)))
        array[:] = 1
        bound.run()
        np.testing.assert_array_equal(array, np.full(2, self.size))


if __name__ == "__main__":
    # An exception that nobody handles would make the other ranks wait, so unittest handles them all.
    unittest.main()
