"""The objects that c10d's calls return."""
import sys
import threading
import time

import torch
from torch._C import _distributed_c10d as c10d

from tutti.errors import TimedOutError
from tutti.torch import _completing
from tutti.torch._submissions import refuse_at_the_end


class Work(c10d.Work):
    """One call of c10d: the calls of the store that it makes, and the steps that follow them.

    submissions: the calls of the store. results: the tensors that c10d calls the result. finish: functions that copy
    results to the user's tensors; they run once, on the first thread that waits or asks. limit: seconds for `wait`;
    None: the store's.
    """

    _future = None
    is_collective = True
    source = None  # for a recv: a function that returns the sender
    let_go = None  # a function that `wait` calls at its end, see Held

    def __init__(self, submissions, results, finish=(), limit=None):
        super().__init__()
        self._submissions = submissions
        self._results = results
        self._finish = [step for step in finish if step is not None]
        self._limit = limit
        self._lock = threading.Lock()

    def wait(self, timeout=None):
        """Blocks until all is done, and raises the call's error. timeout: a timedelta; zero or less: the group's."""
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
        if not self._finish:
            return
        with self._lock:  # a second thread waits here until the results are in the user's tensors
            while self._finish:
                self._finish[0]()
                self._finish.pop(0)

    def _forget(self):
        let_go, self.let_go = self.let_go, None
        if let_go is not None:
            let_go(self)

    def is_completed(self):
        """Whether the call is done or has failed. With torch 2 the user holds c10d's Work, which always says False."""
        if not all(submission.done() for submission in self._submissions):
            return False
        try:
            self.wait()  # copies the results to the user's tensors
        except Exception:  # pylint: disable=broad-except  # `exception` returns it, and `wait` raises it
            pass
        return True

    def exception(self):
        """The error of the call; None if there is none, or the call is not done."""
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
        """The sender of the tensor that a recv from any rank took. The recv must be done."""
        return self.source()

    def get_future(self):
        """A future of the results, which is complete if a program in Python asks for that of a collective.

        A function that is chained to the future then runs at once, in the program's order, and may make calls and wait
        for them: they get the same keys on all ranks. DDP's own exchange chains nothing, and does not wait here.
        """
        if self.is_collective and not _is_asked_by_torchs_engine():
            self._await_end()
        return self.future()

    def _await_end(self):
        """Waits until the call is done or has failed, for its own limit at most."""
        try:
            self.wait()
        except Exception:  # pylint: disable=broad-except  # the future has the error
            pass

    def future(self):
        """A future of the results. A function that is chained to it may run on another thread, and must make no calls.

        The error of the call is raised in a callback, because C++ knows it as an error only then. C++ takes an
        exception that is set for a value, and DDP takes that value for tensors.
        """
        for submission in self._submissions:
            refuse_at_the_end(submission.key)
        chained = None
        with self._lock:
            if self._future is None:
                all_done = torch.futures.Future()
                self._future = all_done.then(lambda _: self.result())
                chained = all_done
        if chained is not None:
            self._complete(chained)
        return self._future

    def _complete(self, all_done):
        """Completes this future when all calls are done; at once if they are."""
        if all(submission.done() for submission in self._submissions):
            all_done.set_result(None)
            return
        countdown = _completing.Countdown(len(self._submissions), lambda: all_done.set_result(None))
        for submission in self._submissions:
            submission.then(countdown.one_is_done)


def _is_asked_by_torchs_engine():
    """Whether DDP's reducer asks, which runs in C++ beneath backward or forward, and not a function in Python."""
    try:
        module = sys._getframe(2).f_globals.get("__name__", "")
    except ValueError:  # a thread of C++ has no other frame
        return True
    return module.startswith(("torch.autograd", "torch.nn.parallel"))


class Held:
    """Keeps Works alive while only C++ has them. Else an old torch loses their Python part, and waits for ever."""

    #: This many Works are kept. Then the oldest is dropped, for which nobody waited.
    MOST = 1024

    def __init__(self):
        self._works = {}

    def hold(self, work):
        self._works[work] = None
        work.let_go = lambda held: self._works.pop(held, None)
        if len(self._works) > self.MOST:
            self._works.pop(next(iter(self._works)))
        return work
