"""Memory that is kept for the next tensor that fits into it."""
import math
import threading
import weakref


class Spares:
    """Arrays of bytes that were let go. Thread-safe.

    The system clears each page of a fresh array, which takes about as long as the exchange of its contents. Programs
    ask for the same sizes in every step. The arrays that are kept and those in use together never have more bytes than
    were in use at one time.
    """

    def __init__(self, allocate, most=math.inf):
        """allocate(bytes): a fresh array of bytes. most: bytes; no more are kept."""
        self._allocate = allocate
        self._most = most
        self._lock = threading.RLock()  # an array may be let go while another one is looked for
        self._kept = []  # the one that was let go last stands last
        self._used = self._most_used = 0

    def take(self, count):
        """Returns an array of this many bytes with any contents. The array comes back when nobody has it any more."""
        with self._lock:
            whole = self._fitting(count)
            if whole is None:
                whole = self._allocate(count)
            self._used += len(whole)
            self._most_used = max(self._most_used, self._used)
        lent = whole[:count]
        weakref.finalize(lent, self._give_back, whole).atexit = False
        return lent

    def _fitting(self, count):
        """The smallest one of these bytes or more, but not of twice as many."""
        found = min((whole for whole in self._kept if count <= len(whole) < 2 * count), key=len, default=None)
        if found is not None:
            self._kept = [whole for whole in self._kept if whole is not found]
        return found

    def _give_back(self, whole):
        with self._lock:
            self._used -= len(whole)
            self._kept.append(whole)
            while self._kept and self._bytes_kept() > min(self._most, self._most_used - self._used):
                self._kept.pop(0)

    def _bytes_kept(self):
        return sum(map(len, self._kept))

    def kept(self):
        """In bytes."""
        with self._lock:
            return self._bytes_kept()

    def drop(self):
        """Keeps nothing from now on."""
        with self._lock:
            self._kept.clear()
            self._most_used = 0
