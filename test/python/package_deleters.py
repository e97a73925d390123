"""Finalizers of arrays that call the store that drops the arrays; every rank of an MPI job runs all of it, at any
number of ranks.

    mpirun -n N python package_deleters.py

Run by the Python that the package is installed for.
"""
import threading
import unittest
import weakref

import numpy as np

import tutti
from package_fixture import make_store


class Caller:
    """An array that calls its store when it is dropped."""

    def __init__(self, kv):
        self.kv, self.calls, self.asked, self.again, self.refused = kv, 0, False, None, None
        self.value = np.ones((), np.float32)

    def make(self):
        """Makes an array that soon only the store holds."""
        array = np.ones((), np.float32)
        weakref.finalize(array, self.dropped).atexit = False
        return array

    def dropped(self):
        self.calls += 1
        try:
            self.asked = self.kv.rank >= 0 and self.kv.counters().nodes > 0
            self.again = self.kv.pushpull("again", self.value)
        except tutti.Error as error:
            self.refused = error


class Deleters(unittest.TestCase):
    def store(self, **options):
        """A store over all ranks, which is closed when the test ends."""
        kv = make_store(**options)
        self.addCleanup(kv.close)
        return kv

    def test_when_a_call_is_done_its_tensors_deleters_have_run_and_may_have_called_the_store(self):
        kv = self.store()
        for _ in range(50):
            caller, other = Caller(kv), np.ones((), np.float32)
            first, second = kv.pushpull("first", caller.make()), kv.pushpull("second", other)
            first.wait()
            self.assertEqual((caller.calls, caller.asked, caller.refused), (1, True, None))
            second.wait()
            caller.again.wait()
            self.assertEqual(caller.value, kv.num_workers)

    def test_a_deleter_may_call_the_store_when_its_call_fails(self):
        kv = self.store(log_level="off")
        if kv.num_workers == 1:
            self.skipTest("alone nobody disagrees")
        caller = Caller(kv)
        failing = kv.pushpull("failing", caller.make(), op="min" if kv.rank == 0 else "max")
        with self.assertRaisesRegex(tutti.MismatchError, "'failing'"):
            failing.wait()
        self.assertEqual((caller.calls, caller.refused), (1, None))
        caller.again.wait()
        self.assertEqual(caller.value, kv.num_workers)

    def test_a_deleter_may_call_the_store_while_it_is_closed_and_its_call_ends(self):
        kv = make_store(log_level="off")
        caller, alone = Caller(kv), kv.num_workers == 1
        pending = kv.pushpull(f"own {kv.rank}", caller.make())
        kv.close()
        self.assertEqual(caller.calls, 1)
        if not alone:
            self.assertRaises(tutti.AbortedError, pending.wait)
            # The other call was refused at once, or accepted and ended with the store.
            if caller.refused:
                self.assertIsInstance(caller.refused, tutti.AbortedError)
            else:
                self.assertRaises(tutti.AbortedError, caller.again.wait)

    def test_a_deleter_may_run_while_another_thread_waits_for_what_it_submits(self):
        kv = self.store()
        for _ in range(10):
            caller = Caller(kv)
            first = kv.pushpull("first", caller.make())
            waiter = threading.Thread(target=first.wait)
            waiter.start()
            other = np.ones((), np.float32)
            kv.pushpull("other", other).wait()
            waiter.join()
            self.assertEqual(other, kv.num_workers)
            caller.again.wait()


if __name__ == "__main__":
    # An exception that nobody handles would make the other ranks wait, so unittest handles them all.
    unittest.main()
