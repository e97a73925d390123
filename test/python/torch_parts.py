"""Parts of the process groups, each tried alone; no rank takes part."""
import threading
import unittest

from tutti.torch._submissions import MANY, Submissions
from tutti.torch._work import Work


class Call:
    """A call of the store, or the Pending that it returns."""

    key = "call"

    def __init__(self, is_done=True):
        self.is_done = is_done

    def done(self):
        return self.is_done

    def wait(self, _=None):
        return True

    def then(self, callback):
        """Nothing calls back."""


class WatchedLock:
    """Tells when a second thread asks for it."""

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


class CallsBetweenTwoRanks(unittest.TestCase):
    def test_those_that_are_done_are_forgotten_and_the_others_are_told_of_at_the_end(self):
        calls = Submissions()
        waiting = [Call(is_done=False) for _ in range(3)]
        for number in range(100 * MANY):
            calls.add_between_two(f"send {number}", lambda _, at=number: waiting[at] if at < 3 else Call())
        self.assertLessEqual(len(calls._between_two), 2 * MANY)
        self.assertEqual(calls.give_up(), ["send 0", "send 1", "send 2"])


if __name__ == "__main__":
    unittest.main()
