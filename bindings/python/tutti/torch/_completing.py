"""Threads that complete futures. A callback that is chained to a future runs there, and may wait for another one."""
import atexit
import os
import queue
import threading

#: At the end of the program what is chained to a future and waits for ever is left behind after so many seconds.
PATIENCE = 1.0


class Completers:
    """As many threads as are needed for one of them to be free whenever a future is to be completed."""

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
            del job  # what it holds is not kept until the next one comes
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
    """Has a completer run `job` after so many calls of `one_is_done`. Thread-safe."""

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
atexit.register(lambda: completers.stop())  # pylint: disable=unnecessary-lambda  # a child has others
