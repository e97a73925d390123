"""Threads that complete futures. The callbacks of a future run on such a thread, and may wait for other futures."""
import atexit
import os
import queue
import threading

from tutti import _callback_queues

#: At its end the program waits this many seconds for each of these threads, because a callback may wait for ever.
PATIENCE = 1.0


class Completers:
    """Runs jobs, each at once: it starts a thread if all of its threads are busy."""

    def __init__(self):
        self._lock = threading.Lock()
        self._jobs = queue.SimpleQueue()
        self._threads = []
        self._free = 0

    def run(self, job):
        with self._lock:
            if self._free:
                self._free -= 1
                self._jobs.put(job)
                return
            thread = threading.Thread(target=self._work, args=(job,), name="tutti-futures", daemon=True)
            self._threads.append(thread)
        thread.start()

    def _work(self, job):
        while job is not None:
            job()
            del job  # so that the objects that the job holds do not live until the next job comes
            with self._lock:
                self._free += 1
            job = self._jobs.get()

    def stop(self):
        with self._lock:
            threads, self._threads = self._threads, []
        for _ in threads:
            self._jobs.put(None)
        for thread in threads:
            thread.join(PATIENCE)


class Countdown:
    """Has a completer run `job` after `count` calls of `one_is_done`. Thread-safe."""

    def __init__(self, count, job):
        self._lock = threading.Lock()
        self._left = count
        self._job = job
        if not count:
            completers.run(job)

    def one_is_done(self, _):
        with self._lock:
            self._left -= 1
            is_last = self._left == 0
        if is_last:
            completers.run(self._job)


completers = Completers()


def _renew_in_child():
    """A forked child has none of the threads."""
    global completers  # pylint: disable=global-statement
    completers = Completers()


os.register_at_fork(after_in_child=_renew_in_child)


def _stop():
    _callback_queues.is_over = True  # nobody completes futures from now on
    completers.stop()


atexit.register(_stop)
