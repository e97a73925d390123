"""The barriers of c10d, and its calls between two ranks."""
import datetime
import time

import torch

from tutti.errors import TimedOutError
from tutti.torch import _buffers

#: Keys of torch's store. By the first key a rank says that it reached a monitored barrier; the second key has the
#: answer.
COME, TOLD = "monitored_barrier/come/{}", "monitored_barrier/told/{}/{}"


class Synchronizing:
    """A base class for process groups that have a `_group`, and a `_work` that makes the result of a call."""

    _attempts = 0  # the monitored barriers that this rank entered

    def barrier(self, opts=None):
        token = torch.zeros(1, dtype=torch.uint8, device="cpu")
        return self._work([(self._group.barrier(token), None)], [], opts)

    def monitored_barrier(self, opts, wait_all_ranks=False):
        """Raises TimedOutError with the ranks that do not come in time. Rank 0 finds them, and tells the others.

        A rank that missed one barrier may take part in the next: each rank counts only its own attempts.
        """
        timeout = getattr(opts, "timeout", opts)
        # Torch passes a negative time if the caller asks for none.
        seconds = (timeout if timeout >= datetime.timedelta(0) else self._timeout).total_seconds()
        end = time.monotonic() + seconds
        if self.rank() == 0:
            missing = self._missing(end, wait_all_ranks)
        else:
            # Rank 0 may need all of its time to find the missing ranks.
            missing = self._told(end + seconds)
        if missing:
            who = f"rank{'s' if len(missing) > 1 else ''} {', '.join(map(str, missing))}"
            raise TimedOutError(f"monitored_barrier: {who} did not come within {seconds:g} s (the call's timeout)",
                                ranks=missing)

    def _told(self, end):
        """The missing ranks, told by rank 0."""
        store, come = self._c10d_store, COME.format(self.rank())
        self._attempts += 1
        told = TOLD.format(self.rank(), self._attempts)
        store.set(come, str(self._attempts))
        missing = self._awaited(told, end)
        if missing is None:
            store.delete_key(come)
            return [0]
        store.delete_key(told)
        return [int(rank) for rank in missing.decode().split()]

    def _missing(self, end, wait_all_ranks):
        """Rank 0 finds the missing ranks, and tells the others."""
        store, missing, attempts = self._c10d_store, [], {}
        for rank in range(1, self._group.size):
            come, is_over = COME.format(rank), missing and not wait_all_ranks
            attempt = self._awaited(come, time.monotonic() if is_over else end)
            if attempt is not None:
                attempts[rank] = attempt.decode()
                store.delete_key(come)
            elif not is_over:
                missing.append(rank)
        for rank, attempt in attempts.items():
            store.set(TOLD.format(rank, attempt), " ".join(map(str, missing)))
        return missing

    def _awaited(self, key, end):
        """The value of a key of torch's store; None if no rank sets it in time."""
        try:
            self._c10d_store.wait([key], datetime.timedelta(seconds=max(0.001, end - time.monotonic())))
            return self._c10d_store.get(key)
        except RuntimeError:
            return None

    def send(self, tensors, to, tag):
        parts = [(self._group.send(_buffers.plain(tensor), to, tag), None) for tensor in tensors]
        work = self._work(parts, tensors, None)
        work.is_collective = False
        return work

    def recv(self, tensors, source, tag):
        """source: the sender, or None for any rank."""
        parts = []
        for tensor in tensors:
            buffer, back = _buffers.written(tensor)
            parts.append((self._group.recv(buffer, source, tag), back))
        work = self._work(parts, tensors, None)
        work.is_collective = False
        work.source = lambda: self._group.source_of(parts[0][0])
        return work

    def recv_anysource(self, tensors, tag):
        return self.recv(tensors, None, tag)
