"""Calls of a group, in line behind those in flight under the same key."""
import functools
import threading
import time

from tutti.errors import MismatchError
from tutti.torch._names import Names


class Submission:
    """One call of the store: it is in flight, or waits until its key is free."""

    __slots__ = ("key", "pending", "error", "_call", "_lock", "_advice", "_submitted", "_callbacks")

    def __init__(self, key, call, lock, advice=None):
        self.key = key
        self.pending = self.error = None
        self._call = call
        self._lock = lock
        self._advice = advice  # for a user whose ranks make different calls
        self._submitted = None  # an event, where the call has to wait
        self._callbacks = []

    def submit(self):
        self.pending = self._call(self.key)
        self._call = None

    def put_off(self):
        self._submitted = threading.Event()

    def submit_late(self):
        """What goes wrong is raised by `wait`. Under the lock."""
        try:
            self.submit()
        except Exception as error:  # pylint: disable=broad-except  # whatever it is, the waiting thread raises it
            self.error, self._call = error, None
        for callback in self._callbacks:
            self._call_back(callback)
        self._callbacks = []
        self._submitted.set()

    def _call_back(self, callback):
        if self.pending is not None:
            self.pending.then(callback)
        else:
            callback(self.error)

    def then(self, callback):
        """Calls back when the call is done, on the package's thread: it must not wait there."""
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
        """Raises what the call failed with. Returns False if the time of time.monotonic() comes first."""
        if not self.is_submitted() and not self._submitted.wait(_until(end)):
            return False
        if self.error is not None:
            raise self.error
        try:
            return self.pending.wait(_until(end))
        except MismatchError as error:
            if self._advice is None:
                raise
            raise MismatchError(f"{error}; {self._advice}", key=error.key, ranks=error.ranks) from None


def _until(end):
    return None if end is None else max(0.0, end - time.monotonic())


#: So many calls that are done may be kept.
MANY = 64


class Submissions:
    """Gives each call its key. Thread-safe."""

    def __init__(self):
        self._lock = threading.RLock()  # a callback may come at once, where a call has failed
        self._names = Names()
        self._last = {}
        self._between_two = []  # calls, of which so many may be done
        self._most = MANY

    def add(self, kind, tensor, call, root=None):
        """Runs `call(key)`, which returns a Pending; later where the key is in flight. Raises what it raises."""
        return self.add_of(kind, tensor.dtype, tensor.shape, call, root)

    def add_of(self, kind, dtype, shape, call, root=None, advice=None):
        """As `add`, with what names the call. shape: a str where the shapes of ranks differ. advice: for a
        user whose ranks make different calls."""
        with self._lock:
            key = self._names.next(kind, dtype, shape, root)
            submission, before = Submission(key, call, self._lock, advice), self._last.get(key)
            if before is None or before.done():
                submission.submit()
            else:
                submission.put_off()
                before.then(functools.partial(self._next, submission))
            self._last[key] = submission
        return submission

    def add_between_two(self, name, call):
        """Runs `call(name)` at once, for it has no key; the name is for messages."""
        with self._lock:
            submission = Submission(name, call, self._lock)
            submission.submit()
            if len(self._between_two) == self._most:
                self._between_two = [one for one in self._between_two if not one.done()]
                self._most = 2 * len(self._between_two) + MANY
            self._between_two.append(submission)
        return submission

    def _next(self, submission, _):
        with self._lock:
            submission.submit_late()

    def give_up(self):
        """The keys of calls that are not done. The library says no more of those."""
        with self._lock:
            unfinished = [one for one in [*self._last.values(), *self._between_two] if not one.done()]
        for one in unfinished:
            one.then(lambda _: None)
        return [one.key for one in unfinished]
