"""The store of a process group, and its ranks."""
import atexit
import functools
import itertools
import logging
import os
import weakref

import numpy as np
import torch

import tutti
from tutti import _shares
from tutti.torch import _buffers
from tutti.torch._buffers import memory_of
from tutti.torch._spares import Spares
from tutti.torch._submissions import Submissions


#: This is the advice for a user whose ranks make calls of all_to_all that do not fit together.
ALIKE = ("pass split sizes or lists of tensors on all ranks, whose calls then begin with an allgather; or none on any "
         "rank, and tensors of one size")


#: A group copies lists of tensors through memory that it keeps for later calls. It keeps no piece of fewer bytes than
#: LEAST_KEPT, and no more than MOST_KEPT bytes together.
LEAST_KEPT, MOST_KEPT = 1 << 20, 128 << 20


def create(timeout, ranks=None):
    """Creates a store over these ranks of the job, or over all. Collective over these ranks, and blocking."""
    return tutti.create("dist_sync_mpi", ranks=ranks, key_timeout=timeout.total_seconds())


alive = weakref.WeakSet()
os.register_at_fork(after_in_child=alive.clear)  # a child has no calls
numbers = itertools.count()  # the same on all members, which make their groups in one order


def over(members):
    """The first open group that was made over these ranks of the job, in c10d's order; None if there is none."""
    found = (group for group in alive if group.members == members and group.wire is None and not group.is_closed)
    return min(found, key=lambda group: group.number, default=None)


def tell_of_unfinished():
    """Logs one warning if the program ends while calls are in flight."""
    unfinished = [key for group in alive for key in group.calls.give_up()]
    if unfinished:
        logging.getLogger("tutti").warning("tutti: the program ends, and gives up these calls of torch.distributed, "
                                           "which are not done: %s; call wait() of each",
                                           ", ".join(map(repr, unfinished[:5])))


atexit.register(tell_of_unfinished)


@functools.lru_cache(maxsize=64)
def matrix(size, count, sender=None, receiver=None):
    """The matrix of an exchange in which each rank of the store sends `count` elements to each rank.

    With a sender only this rank sends. With a receiver only this rank receives.
    """
    return _shares.Matrix(count if sender in (None, source) and receiver in (None, target) else 0
                          for source in range(size) for target in range(size))


class Group:
    """A store, and the numbers that c10d gives to its ranks.

    Calls go to the methods beneath KVStore's, which also serve arrays of other libraries.

    members: for each rank of c10d its rank of the job. order: for each rank of c10d its rank of the store, which counts
    the members by ascending rank of the job. timeout: a timedelta, the store's time limit for a call. wire: the format
    in which float32 sums travel between machines; None: float32.
    """

    def __init__(self, kv, members, timeout, wire=None):
        self.kv = kv
        if wire is not None:
            kv.set_gradient_compression(wire)
        self.wire = wire
        self.timeout = timeout
        self.is_closed = False
        self.number = next(numbers)
        self._on_wires = []
        self.size = kv.num_workers
        self.members = list(members)
        self.order = [sorted(members).index(member) for member in members]
        self.is_ordered = self.order == sorted(self.order)
        self.calls = Submissions()
        self.spares = Spares(lambda count: kv.allocate(count, "uint8"))
        self.scratch = Spares(lambda count: torch.empty(count, dtype=torch.uint8, device="cpu").numpy(), MOST_KEPT)
        alive.add(self)

    def allreduce(self, tensor, op):
        return self.calls.add("allreduce", tensor,
                              lambda key: self.kv._pushpull(key, memory_of(tensor), None, 0, op))

    def reduce(self, tensor, op, root, is_root):
        """Writes the result into the root's tensor, and only reads the tensors of the other ranks."""
        outs = None if is_root else []
        return self.calls.add("reduce", tensor,
                              lambda key: self.kv._pushpull(key, memory_of(tensor), outs, 0, op), root)

    def broadcast(self, tensor, root):
        of_store = self.order[root]
        return self.calls.add("broadcast", tensor,
                              lambda key: self.kv._broadcast(key, memory_of(tensor), of_store, 0), root)

    def allgather(self, tensor, whole):
        """Writes a row of `whole` for each rank of the store."""
        return self.calls.add("allgather", tensor,
                              lambda key: self.kv.allgather(key, memory_of(tensor), memory_of(whole)))

    def told_shares(self, dtype, numbers):
        """The ints that each rank tells the others before an exchange, a row for each rank of c10d.

        Each rank tells as many. Blocks until all ranks have told theirs. The call takes the key of an exchange without
        counts. So the store reports a mismatch if other ranks make such an exchange.
        """
        mine = np.array(numbers, np.int64)
        whole = np.empty((self.size, *mine.shape), np.int64)
        self.calls.add_of("all_to_all", dtype, "shares",
                          lambda key: self.kv.allgather(key, mine.reshape(-1), whole.reshape(-1)), advice=ALIKE).wait()
        return whole[self.order]

    def exchange(self, tensor, whole, counts=None):
        """An all_to_all. counts: an array of element counts by sender and receiver, both ranks of the store; the ranks
        agreed on it by `told_shares`. None: all shares are equal."""
        if counts is not None:
            return self.calls.add_of("all_to_all", tensor.dtype, "told shares",
                                     lambda key: self.kv.all_to_all(key, memory_of(tensor), memory_of(whole), counts))
        counts = matrix(self.size, tensor.numel() // self.size)
        return self.calls.add_of("all_to_all", tensor.dtype, "shares",
                                 lambda key: self.kv._all_to_all(key, memory_of(tensor), memory_of(whole), counts, 0),
                                 advice=ALIKE)

    def gather(self, tensor, whole, root):
        """The root gets a row of `whole` for each rank of the store. On other ranks `whole` has no elements."""
        counts = matrix(self.size, tensor.numel(), receiver=self.order[root])
        return self.calls.add("gather", tensor, lambda key: self.kv._all_to_all(
            key, memory_of(tensor), memory_of(whole), counts, 0), root)

    def scatter(self, whole, tensor, root):
        """The root sends a row of `whole` to each rank of the store. On other ranks `whole` has no elements."""
        counts = matrix(self.size, tensor.numel(), sender=self.order[root])
        return self.calls.add("scatter", tensor, lambda key: self.kv._all_to_all(
            key, memory_of(whole), memory_of(tensor), counts, 0), root)

    def reduce_scatter(self, whole, tensor, op):
        return self.calls.add("reduce_scatter", tensor, lambda key: self.kv.reduce_scatter(
            key, memory_of(whole), memory_of(tensor), op=op))

    def send(self, tensor, to, tag):
        return self.calls.add_between_two(f"send to rank {to} with tag {tag}",
                                          lambda _: self.kv.send(memory_of(tensor), self.order[to], tag))

    def recv(self, tensor, source, tag):
        whose = "any rank" if source is None else f"rank {source}"
        from_rank = None if source is None else self.order[source]
        return self.calls.add_between_two(f"recv from {whose} with tag {tag}",
                                          lambda _: self.kv.recv(memory_of(tensor), from_rank, tag))

    def source_of(self, received):
        """The sender, as a rank of c10d, of the tensor that a finished recv took."""
        return self.order.index(received.pending.source)

    def barrier(self, token):
        return self.calls.add("barrier", token, lambda key: self.kv._pushpull(key, memory_of(token), None, 0, "sum"))

    def on_wire(self, wire):
        """A group of the same ranks with this wire. `close` of this group closes it. Collective over the group, and
        blocking."""
        group = Group(create(self.timeout, self.members), self.members, self.timeout, wire)
        self._on_wires.append(group)
        return group

    def close(self):
        """May raise once, if the store is dead."""
        if self.is_closed:
            return
        self.is_closed = True
        for group in self._on_wires:
            group.close()
        self.spares.drop()
        self.kv.close()
        self.scratch.drop()

    def room(self, count, dtype):
        """A tensor of `count` elements, of any contents."""
        size = _buffers.bytes_of(count, dtype)
        if size < LEAST_KEPT:
            return torch.empty(count, dtype=dtype, device="cpu")
        return torch.from_numpy(self.scratch.take(size)).view(dtype)

    def joined(self, tensors):
        """Does what `_buffers.joined` does. tensors: one for each rank of c10d."""
        return _buffers.joined(self.by_store(tensors), self.room)

    def written_rows(self, tensors):
        """Does what `_buffers.written_rows` does. tensors: one for each rank of c10d."""
        return _buffers.written_rows(self.by_store(tensors), self.room)

    def rows(self, whole):
        """The rows of `whole`, which is by ranks of the store, in the order of c10d's ranks."""
        return [whole[of_store] for of_store in self.order]

    def by_store(self, rows):
        """The rows, which are by ranks of c10d, in the order of the store's ranks."""
        if self.is_ordered:
            return rows
        return [row for _, row in sorted(zip(self.order, rows), key=lambda pair: pair[0])]
