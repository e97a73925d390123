"""Submits the calls of a group. A call whose key is in flight waits in line."""
import collections
import functools
import threading
import time

from tutti import _callback_queues, _core
from tutti.errors import AbortedError, MismatchError
from tutti.torch._names import Names


class Submission:
    """One call of the store. It is in flight, or waits until its key is free."""

    __slots__ = ("key", "pending", "error", "_call", "_lock", "_advice", "_submitted", "_callbacks")

    def __init__(self, key, call, lock, advice=None):
        self.key = key
        self.pending = self.error = None
        self._call = call
        self._lock = lock
        self._advice = advice  # the end of the error message if the ranks make different calls
        self._submitted = None  # an event if the call has to wait in line
        self._callbacks = []

    def submit(self):
        self.pending = self._call(self.key)
        self._call = None

    def put_off(self):
        self._submitted = threading.Event()

    def submit_late(self):
        """Submits a call that had to wait. `wait` raises the error if that fails. The caller holds the lock."""
        try:
            self.submit()
        except Exception as error:  # pylint: disable=broad-except  # the thread that waits raises it
            self.error, self._call = error, None
        self._submitted.set()
        callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            try:
                self._call_back(callback)
            except Exception as error:  # pylint: disable=broad-except  # such as no more threads: the others go on
                _core.report(error, callback)

    def _call_back(self, callback):
        if self.pending is not None:
            _core.on_wakeups(self.pending, callback)
        else:
            callback(self.error)

    def then(self, callback):
        """Calls `callback(error)` when the call is done, on a thread of the package. It must not block.

        The callbacks of `Pending.then` run on another thread, and may wait for calls in line.
        """
        with self._lock:
            if self.is_submitted():
                self._call_back(callback)
            else:
                self._callbacks.append(callback)

    def is_submitted(self):
        return self.pending is not None or self.error is not None

    def done(self):
        return self.pending.done() if self.pending is not None else self.error is not None

    def wait(self, end=None):
        """Blocks until the call is done, and raises its error. Returns False if time.monotonic() passes `end`."""
        if not self.is_submitted():
            refuse_at_the_end(self.key)
            if not self._submitted.wait(_until(end)):
                return False
        if self.error is not None:
            raise self.error
        try:
            return self.pending.wait(_until(end))
        except MismatchError as error:
            if self._advice is None:
                raise
            raise MismatchError(f"{error}; {self._advice}", key=error.key, ranks=error.ranks) from None


def refuse_at_the_end(key):
    """Raises AbortedError if the program ends: then nothing would submit a call in line, or complete a future."""
    if _callback_queues.is_over:
        raise AbortedError(f"{key!r}: the program ends, and calls neither wait in line for a key nor complete futures "
                           "any more; wait for each call before the next, or register the function with atexit after "
                           "`import tutti.torch`", key=key)


def _until(end):
    return None if end is None else max(0.0, end - time.monotonic())


#: The list of sends and receives may hold this many that are done.
MANY = 64


class Submissions:
    """Gives each call its key, and submits it. Thread-safe."""

    def __init__(self):
        self._lock = threading.RLock()  # a callback may come at once, where a call has failed
        self._names = Names()
        self._last = {}
        self._due = collections.deque()  # calls whose keys are free; the first is being submitted
        self._between_two = []  # some of these are done
        self._most = MANY

    def add(self, kind, tensor, call, root=None):
        """Runs `call(key)`, which returns a Pending. If the key is in flight, it does so when the key is free.

        Raises what `call` raises.
        """
        return self.add_of(kind, tensor.dtype, tensor.shape, call, root)

    def add_of(self, kind, dtype, shape, call, root=None, advice=None):
        """Does what `add` does. dtype, shape: parts of the key; shape is a str if the ranks have several. advice:
        an end for the error message if the ranks make different calls."""
        with self._lock:
            turns = self._names.turns(kind, dtype, shape, root)
            key = turns.key()
            submission, before = Submission(key, call, self._lock, advice), self._last.get(key)
            if before is None or before.done():
                submission.submit()
            else:
                refuse_at_the_end(key)
                submission.put_off()
                before.then(functools.partial(self._next, submission))
            turns.advance()  # not if the call is refused: this rank may make it again, as the others know it
            self._last[key] = submission
        return submission

    def add_between_two(self, name, call):
        """Runs `call(name)` at once, because such a call has no key. Messages show the name."""
        with self._lock:
            submission = Submission(name, call, self._lock)
            submission.submit()
            if len(self._between_two) == self._most:
                self._between_two = [one for one in self._between_two if not one.done()]
                self._most = 2 * len(self._between_two) + MANY
            self._between_two.append(submission)
        return submission

    def _next(self, submission, _):
        """A call that fails at once frees its key for the next in line, which this loop takes: thousands may wait."""
        with self._lock:
            self._due.append(submission)
            if len(self._due) > 1:
                return
            while self._due:
                self._due[0].submit_late()
                self._due.popleft()

    def give_up(self):
        """The keys of the calls that are not done. The library will log no error of these calls."""
        with self._lock:
            unfinished = [one for one in [*self._last.values(), *self._between_two] if not one.done()]
        for one in unfinished:
            one.then(lambda _: None)
        return [one.key for one in unfinished]
