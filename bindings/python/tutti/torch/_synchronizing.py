"""c10d's barriers, and its calls between two ranks."""
import datetime
import time

import torch

from tutti.errors import TimedOutError
from tutti.torch import _buffers


class Synchronizing:
    """Of a process group with a `_group`, and `_work` for what its calls return."""

    _rounds = 0  # of monitored barriers

    def barrier(self, opts=None):
        token = torch.zeros(1, dtype=torch.uint8)
        return self._work([(self._group.barrier(token), None)], [], opts)

    def monitored_barrier(self, opts, wait_all_ranks=False):
        """Names the ranks that do not come: rank 0 knows who has, and tells the others."""
        timeout = getattr(opts, "timeout", opts)
        seconds = (timeout if timeout.total_seconds() > 0 else self._timeout).total_seconds()
        self._rounds += 1
        place, end = f"monitored_barrier/{self._rounds}", time.monotonic() + seconds
        if self.rank() == 0:
            missing = self._missing(place, end, wait_all_ranks)
            self._c10d_store.set(f"{place}/told", " ".join(map(str, missing)))
        else:
            self._c10d_store.set(f"{place}/{self.rank()}", "come")
            # Rank 0 may need all of its own time to find out who is missing.
            told = self._awaited(f"{place}/told", end + seconds)
            missing = [0] if told is None else [int(rank) for rank in told.decode().split()]
        if missing:
            who = f"rank{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"
            raise TimedOutError(f"monitored_barrier: {who} did not come within {seconds:g} s", ranks=missing)

    def _missing(self, place, end, wait_all_ranks):
        missing = []
        for rank in range(1, self._group.size):
            if self._awaited(f"{place}/{rank}", end) is None:
                missing.append(rank)
                if not wait_all_ranks:
                    break
        return missing

    def _awaited(self, key, end):
        """The value of a key of torch's store; None where it does not come in time."""
        try:
            self._c10d_store.wait([key], datetime.timedelta(seconds=max(0.001, end - time.monotonic())))
            return self._c10d_store.get(key)
        except RuntimeError:
            return None

    def send(self, tensors, to, tag):
        parts = [(self._group.send(_buffers.read(tensor), to, tag), None) for tensor in tensors]
        return self._work(parts, tensors, None)

    def recv(self, tensors, source, tag):
        """source: None: any rank."""
        parts = []
        for tensor in tensors:
            buffer, back = _buffers.written(tensor)
            parts.append((self._group.recv(buffer, source, tag), back))
        work = self._work(parts, tensors, None)
        work.source = lambda: self._group.source_of(parts[0][0])
        return work

    def recv_anysource(self, tensors, tag):
        return self.recv(tensors, None, tag)
