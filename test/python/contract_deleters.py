"""Finalizers of arrays that call the store that drops the arrays; see contract.py."""
import threading
import weakref

import numpy as np

import tutti
from contract_fixture import Contract, make_store


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


class Deleters(Contract):
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
        self.refused(tutti.MismatchError, ["failing"], failing.wait)
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
            self.refused(tutti.AbortedError, [], pending.wait)
            # Refused at once, or accepted and ended with the store.
            self.refused(tutti.AbortedError, [], lambda: self.reraise(caller))

    @staticmethod
    def reraise(caller):
        if caller.refused:
            raise caller.refused
        caller.again.wait()

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
