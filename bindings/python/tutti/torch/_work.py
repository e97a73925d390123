"""What c10d's calls return."""
import threading
import time

import torch
from torch._C import _distributed_c10d as c10d

from tutti.errors import TimedOutError
from tutti.torch import _completing


class Work(c10d.Work):
    """The calls of the store that one call of c10d makes, and what is left to do when they are done.

    submissions: of those calls. results: the tensors that c10d calls its result. finish: functions that bring results
    to where they belong; they run once, on the thread that first asks. limit: seconds for `wait`, None: the store's.
    """

    def __init__(self, submissions, results, finish=(), limit=None):
        super().__init__()
        self._submissions = submissions
        self._results = results
        self._finish = [step for step in finish if step is not None]
        self._limit = limit
        self._lock = threading.Lock()
        self._future = None
        self._error = None
        self.source = None  # of a recv: gives the rank whose tensor it took
        self.let_go = None  # called when nobody will ask this object any more, see Held

    def wait(self, timeout=None):
        """Blocks until all is done. timeout: a timedelta; zero or less: the group's. Raises what went wrong."""
        seconds = timeout.total_seconds() if timeout is not None else 0
        limit = seconds if seconds > 0 else self._limit
        end = None if limit is None else time.monotonic() + limit
        for submission in self._submissions:
            if not submission.wait(end):
                raise TimedOutError(f"{submission.key!r} is not done after {limit:g} s: other ranks have not made the "
                                    "call, or are slow; give wait, or init_process_group, a longer timeout",
                                    key=submission.key)
        self._do_rest()
        self._forget()
        return True

    def synchronize(self):
        self.wait()

    def _do_rest(self):
        with self._lock:  # whoever comes second waits here until the results are where they belong
            while self._finish:
                self._finish[0]()
                self._finish.pop(0)

    def _forget(self):
        let_go, self.let_go = self.let_go, None
        if let_go is not None:
            let_go(self)

    def is_completed(self):
        """Whether all is done, or has failed. Under torch 2 c10d hands out a Work of its own that never says so."""
        if not all(submission.done() for submission in self._submissions):
            return False
        try:
            self.wait()  # the results are where they belong, too
        except Exception:  # pylint: disable=broad-except  # `exception` and `wait` raise it
            pass
        return True

    def exception(self):
        """What went wrong; None while that is open."""
        if self.is_completed():
            try:
                self.wait()
            except Exception as error:  # pylint: disable=broad-except
                return error
        return None

    def is_success(self):
        return self.is_completed() and self.exception() is None

    def result(self):
        self.wait()
        return self._results

    def _source_rank(self):
        """The rank of the group whose tensor a recv from any rank took, once that is done."""
        return self.source()

    def get_future(self):
        """Completed on a thread that may wait: what is chained to it may make calls and wait for them.

        An error reaches C++ as one where a callback has raised it; an exception that is set is a value there, which DDP
        takes for tensors.
        """
        with self._lock:
            if self._future is None:
                all_done = torch.futures.Future()
                self._future = all_done.then(lambda _: self.result())
                countdown = _completing.Countdown(len(self._submissions), lambda: all_done.set_result(None))
                for submission in self._submissions:
                    submission.then(countdown.one_is_done)
        return self._future


class Held:
    """Keeps Works alive that C++ alone has: an old torch then forgets that they are Python's, and waits for ever."""

    #: Works that nobody waits for are dropped after so many.
    MOST = 1024

    def __init__(self):
        self._works = {}

    def hold(self, work):
        self._works[work] = None
        work.let_go = lambda held: self._works.pop(held, None)
        if len(self._works) > self.MOST:
            self._works.pop(next(iter(self._works)))
        return work
