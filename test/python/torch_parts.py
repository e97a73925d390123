"""Parts of the process groups, each tested alone without ranks."""
import sys
import threading
import unittest
from unittest import mock

import numpy as np
import torch

from tutti import _callback_queues, _core
from tutti.errors import AbortedError
from tutti.torch import _buffers
from tutti.torch._names import TURNS
from tutti.torch._spares import Spares
from tutti.torch._submissions import MANY, Submissions
from tutti.torch._work import Work


class Call:
    """A call of the store, or the Pending that it returns."""

    key = "call"

    def __init__(self, is_done=True):
        self.is_done = is_done
        self.callbacks = []

    def done(self):
        return self.is_done

    def wait(self, _=None):
        return True

    def then(self, callback):
        self.callbacks.append(callback)

    def end(self):
        self.is_done = True
        for callback in self.callbacks:
            callback(None)


class WatchedLock:
    """A lock that tells when a second thread asks for it."""

    def __init__(self):
        self.lock, self.asked_again = threading.Lock(), threading.Event()

    def __enter__(self):
        if not self.lock.acquire(blocking=False):
            self.asked_again.set()
            self.lock.acquire()  # pylint: disable=consider-using-with

    def __exit__(self, *_):
        self.lock.release()


class Works(unittest.TestCase):
    def test_a_thread_that_waits_second_returns_once_the_results_are_in_place(self):
        events = []

        def wait_too():
            work.wait()
            events.append("the second returns")
            lock.asked_again.set()

        def put_results_in_place():
            second.start()
            self.assertTrue(lock.asked_again.wait(60))
            events.append("the results are in place")

        lock, second = WatchedLock(), threading.Thread(target=wait_too)
        work = Work([Call()], [], [put_results_in_place])
        work._lock = lock
        work.wait()
        second.join()
        self.assertEqual(events, ["the results are in place", "the second returns"])

    def test_results_that_could_not_be_put_in_place_fail_every_wait(self):
        work = Work([Call()], [], [lambda: [][0]])
        for _ in range(2):
            with self.assertRaises(IndexError):
                work.wait()


class Rows(unittest.TestCase):
    def test_tensors_that_lie_one_after_the_other_are_used_where_they_are(self):
        whole = torch.arange(12.0)
        for tensors in (whole.chunk(3), list(whole.view(3, 2, 2)), whole[2:].split([4, 1, 5]), [whole.view(3, 4)]):
            row = _buffers.in_row(tensors)
            self.assertEqual(row.data_ptr(), tensors[0].data_ptr())
            self.assertTrue(torch.equal(row, torch.cat([tensor.reshape(-1) for tensor in tensors])))
        row = _buffers.in_row(torch.nn.Parameter(whole).chunk(2))
        self.assertEqual((row.data_ptr(), row.requires_grad), (whole.data_ptr(), False))

    def test_tensors_with_gaps_in_another_order_or_of_several_storages_are_not(self):
        whole, table = torch.arange(12.0), torch.arange(12.0).view(3, 4)
        complexes = torch.zeros(4, dtype=torch.complex64)
        beside = torch.frombuffer(bytearray(96), dtype=torch.float32)  # two storages side by side
        halves = [torch.from_numpy(beside.numpy()[begin:begin + 12]) for begin in (0, 12)]
        for tensors in (whole.chunk(3)[::2], whole.chunk(3)[::-1], [whole[:4], whole[:4]], list(table.t()),
                        [torch.ones(2), torch.ones(2)], [complexes[:2], complexes[2:].conj()], halves,
                        [whole[:2], whole[2:].view(torch.int32)]):
            self.assertIsNone(_buffers.in_row(tensors))

    def test_what_the_store_writes_for_tensors_apart_comes_to_them(self):
        tensors = [torch.zeros(2), torch.zeros(3, 2).t(), torch.zeros(())]
        room, back = _buffers.written_rows(tensors, lambda count, dtype: torch.empty(count, dtype=dtype))
        room.copy_(torch.arange(9.0))
        back()
        self.assertEqual([tensor.tolist() for tensor in tensors], [[0, 1], [[2, 3, 4], [5, 6, 7]], 8])


class KeptMemory(unittest.TestCase):
    def setUp(self):
        self.fresh = []

        def allocate(count):
            self.fresh.append(count)
            return np.empty(count, np.uint8)
        self.spares = Spares(allocate, most=120)

    def test_a_tensor_gets_the_smallest_array_that_was_let_go_and_fits(self):
        lent = [torch.from_numpy(self.spares.take(count)) for count in (40, 20, 30)]
        places = [tensor.data_ptr() for tensor in lent]
        del lent
        again = []
        for count, place in ((25, places[2]), (20, places[1]), (31, places[0])):
            again.append(self.spares.take(count))
            self.assertEqual((len(again[-1]), again[-1].ctypes.data), (count, place))
        self.assertEqual(self.fresh, [40, 20, 30])

    def test_an_array_is_lent_once_until_its_last_view_is_gone(self):
        view = torch.from_numpy(self.spares.take(100)).view(torch.float32)[3:]
        self.spares.take(100)
        self.assertEqual(len(self.fresh), 2)
        del view
        self.spares.take(100)
        self.assertEqual(len(self.fresh), 2)

    def test_no_more_is_kept_than_was_in_use_at_a_time(self):
        for count in (10, 20, 30):  # each is too large for those before
            self.spares.take(count)
        one, two = self.spares.take(30), self.spares.take(1)
        self.assertEqual(self.fresh, [10, 20, 30, 1])
        del one, two
        self.spares.drop()
        self.assertEqual(self.spares.kept(), 0)
        self.spares.take(1)
        self.assertEqual(self.fresh, [10, 20, 30, 1, 1])

    def test_no_more_is_kept_than_the_most(self):
        lent = [self.spares.take(count) for count in (60, 50, 40, 121)]
        while lent:
            lent.pop(0)
        self.assertEqual(self.spares.kept(), 0)  # 121 alone are too many
        lent = [self.spares.take(count) for count in (60, 50, 40)]
        while lent:
            lent.pop(0)
        self.assertEqual(self.spares.kept(), 90)


class WithCalls(unittest.TestCase):
    """Uses Calls in place of the store's Pendings."""

    def setUp(self):
        patch = mock.patch.object(_core, "on_wakeups", lambda call, callback: call.then(callback))
        patch.start()
        self.addCleanup(patch.stop)


class CallsInLine(WithCalls):
    def test_when_the_store_is_dead_all_that_wait_in_line_fail_however_many(self):
        calls, firsts = Submissions(), []

        def call(_):
            if len(firsts) == TURNS:
                raise AbortedError("the store is closed")
            firsts.append(Call(is_done=False))
            return firsts[-1]
        count = 4 * TURNS * sys.getrecursionlimit()
        submissions = [calls.add("allreduce", torch.zeros(1), call) for _ in range(count)]
        for first in firsts:
            first.end()
        self.assertEqual(sum(submission.error is not None for submission in submissions), count - TURNS)
        self.assertEqual(calls.give_up(), [])


class Refused(WithCalls):
    def test_a_call_that_is_refused_and_made_again_has_the_key_that_the_others_know(self):
        calls = Submissions()

        def refused(_):
            raise ValueError("a wrong size")
        with self.assertRaises(ValueError):
            calls.add("allreduce", torch.zeros(1), refused)
        self.assertEqual(calls.add("allreduce", torch.zeros(1), lambda _: Call()).key, "allreduce float32 [1] #0")
        self.assertEqual(calls.add("allreduce", torch.zeros(1), lambda _: Call()).key, "allreduce float32 [1] #1")

    def test_a_callback_that_fails_keeps_no_call_in_line(self):
        calls, firsts, is_dead = Submissions(), [], []

        def call(_):
            if is_dead:
                raise AbortedError("the store is closed")
            firsts.append(Call(is_done=False))
            return firsts[-1]

        def fail(_):
            raise RuntimeError("no more threads")
        submissions = [calls.add("allreduce", torch.zeros(1), call) for _ in range(TURNS + 1)]
        submissions[TURNS].then(fail)  # before the next in line asks to be called
        submissions += [calls.add("allreduce", torch.zeros(1), call) for _ in range(3 * TURNS)]
        is_dead.append(True)
        with mock.patch("sys.unraisablehook") as told:
            for first in firsts:
                first.end()
        told.assert_called_once()
        for submission in submissions[TURNS:]:
            with self.assertRaises(AbortedError):
                submission.wait()


class AtTheEnd(WithCalls):
    """Tests the time when nobody runs callbacks any more."""

    def test_a_call_that_would_wait_in_line_is_refused_and_one_that_waits_is_told(self):
        calls = Submissions()
        for _ in range(TURNS):
            calls.add("allreduce", torch.zeros(1), lambda _: Call(is_done=False))
        waits = calls.add("allreduce", torch.zeros(1), lambda _: Call())
        with mock.patch.object(_callback_queues, "is_over", True):
            with self.assertRaisesRegex(AbortedError, r"'allreduce float32 \[1\] #1': the program ends, .* wait for"):
                calls.add("allreduce", torch.zeros(1), lambda _: Call())
            with self.assertRaisesRegex(AbortedError, r"'allreduce float32 \[1\] #0': the program ends"):
                waits.wait()
            calls.add("barrier", torch.zeros(1), lambda _: Call()).wait()  # its key is free

    def test_futures_are_refused(self):
        with mock.patch.object(_callback_queues, "is_over", True):
            with self.assertRaisesRegex(AbortedError, "'call': the program ends, .* complete futures"):
                Work([Call()], []).get_future()


class CallsBetweenTwoRanks(WithCalls):
    def test_those_that_are_done_are_forgotten_and_the_others_are_told_of_at_the_end(self):
        calls = Submissions()
        waiting = [Call(is_done=False) for _ in range(3)]
        for number in range(100 * MANY):
            calls.add_between_two(f"send {number}", lambda _, at=number: waiting[at] if at < 3 else Call())
        self.assertLessEqual(len(calls._between_two), 2 * MANY)
        self.assertEqual(calls.give_up(), ["send 0", "send 1", "send 2"])


if __name__ == "__main__":
    unittest.main()
