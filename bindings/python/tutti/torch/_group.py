"""The store of a process group, and its ranks."""
import atexit
import functools
import logging
import weakref

import numpy as np
import torch

import tutti
from tutti import _shares
from tutti.torch import _buffers
from tutti.torch._spares import Spares
from tutti.torch._submissions import Submissions


#: Advice for a user whose ranks make calls of all_to_all that do not fit together.
ALIKE = ("pass split sizes or lists of tensors on all ranks, whose calls then begin with an allgather; or none on any "
         "rank, and tensors of one size")


#: A group's memory between its tensors and the store's, in bytes: it keeps none below, and none above for later calls.
LEAST_KEPT, MOST_KEPT = 1 << 20, 128 << 20


def create(timeout, ranks=None):
    """A store over these ranks of the job, or over all. Collective over them, and blocking."""
    return tutti.create("dist_sync_mpi", ranks=ranks, key_timeout=timeout.total_seconds())


alive = weakref.WeakSet()


def over(members):
    """An open group over these ranks of the job, in c10d's order; None: there is none."""
    found = (group for group in alive if group.members == members)
    return next((group for group in found if group.wire is None and not group.is_closed), None)


def tell_of_unfinished():
    """One warning at the end of a program that has forgotten to wait."""
    unfinished = [key for group in alive for key in group.calls.give_up()]
    if unfinished:
        logging.getLogger("tutti").warning("tutti: the program ends, and gives up these calls of torch.distributed, "
                                           "which are not done: %s; call wait() of each",
                                           ", ".join(map(repr, unfinished[:5])))


atexit.register(tell_of_unfinished)


@functools.lru_cache(maxsize=64)
def matrix(size, count, sender=None, receiver=None):
    """So many elements from each rank of the store, or from this sender alone, to each, or to this receiver alone."""
    return _shares.Matrix(count if sender in (None, source) and receiver in (None, target) else 0
                          for source in range(size) for target in range(size))


class Group:
    """A store, and c10d's ranks of it.

    members: the job's rank of each rank that c10d counts. order: the store's, which counts the members as they ascend.
    timeout: a timedelta, the store's time limit for a call. wire: the format in which float32 sums travel between
    machines; None: float32.
    """

    def __init__(self, kv, members, timeout, wire=None):
        self.kv = kv
        if wire is not None:
            kv.set_gradient_compression(wire)
        self.wire = wire
        self.timeout = timeout
        self.is_closed = False
        self._on_wires = []
        self.size = kv.num_workers
        self.members = list(members)
        self.order = [sorted(members).index(member) for member in members]
        self.is_ordered = self.order == sorted(self.order)
        self.calls = Submissions()
        self.spares = Spares(lambda count: kv.allocate(count, "uint8"))
        self.scratch = Spares(lambda count: torch.empty(count, dtype=torch.uint8).numpy(), MOST_KEPT)
        alive.add(self)

    def allreduce(self, tensor, op):
        return self.calls.add("allreduce", tensor, lambda key: self.kv.pushpull(key, tensor, op=op))

    def reduce(self, tensor, op, root, is_root):
        """In place at the root; the others' tensors are only read."""
        outs = None if is_root else []
        return self.calls.add("reduce", tensor, lambda key: self.kv.pushpull(key, tensor, outs, op=op), root)

    def broadcast(self, tensor, root):
        of_store = self.order[root]
        return self.calls.add("broadcast", tensor, lambda key: self.kv.broadcast(key, tensor, of_store), root)

    def allgather(self, tensor, whole):
        """Into `whole`, a row for each of the store's ranks."""
        return self.calls.add("allgather", tensor,
                              lambda key: self.kv.allgather(key, tensor.reshape(-1), whole.reshape(-1)))

    def told_shares(self, dtype, numbers):
        """What each rank of c10d's tells the others before an exchange: ints, as many on all ranks. Blocks until all
        have. It takes the key of an exchange without counts: so the store finds ranks that call that instead."""
        mine = np.array(numbers, np.int64)
        whole = np.empty((self.size, *mine.shape), np.int64)
        self.calls.add_of("all_to_all", dtype, "shares",
                          lambda key: self.kv.allgather(key, mine.reshape(-1), whole.reshape(-1)), advice=ALIKE).wait()
        return whole[self.order]

    def exchange(self, tensor, whole, counts=None):
        """An all_to_all. counts: elements, by sender and receiver of the store, an array, which `told_shares` has told;
        None: equal shares."""
        if counts is not None:
            return self.calls.add_of("all_to_all", tensor.dtype, "told shares",
                                     lambda key: self.kv.all_to_all(key, tensor, whole, counts))
        counts = matrix(self.size, tensor.numel() // self.size)
        return self.calls.add_of("all_to_all", tensor.dtype, "shares",
                                 lambda key: self.kv.all_to_all(key, tensor, whole, counts), advice=ALIKE)

    def gather(self, tensor, whole, root):
        """Into `whole` at the root, a row for each of the store's ranks; elsewhere it has no elements."""
        counts = matrix(self.size, tensor.numel(), receiver=self.order[root])
        return self.calls.add("gather", tensor, lambda key: self.kv.all_to_all(key, tensor, whole, counts), root)

    def scatter(self, whole, tensor, root):
        """From `whole` at the root, a row for each of the store's ranks; elsewhere it has no elements."""
        counts = matrix(self.size, tensor.numel(), sender=self.order[root])
        return self.calls.add("scatter", tensor, lambda key: self.kv.all_to_all(key, whole, tensor, counts), root)

    def reduce_scatter(self, whole, tensor, op):
        return self.calls.add("reduce_scatter", tensor, lambda key: self.kv.reduce_scatter(
            key, whole.reshape(-1), tensor.reshape(-1), op=op))

    def send(self, tensor, to, tag):
        return self.calls.add_between_two(f"send to rank {to} with tag {tag}",
                                          lambda _: self.kv.send(tensor, self.order[to], tag))

    def recv(self, tensor, source, tag):
        whose = "any rank" if source is None else f"rank {source}"
        from_rank = None if source is None else self.order[source]
        return self.calls.add_between_two(f"recv from {whose} with tag {tag}",
                                          lambda _: self.kv.recv(tensor, from_rank, tag))

    def source_of(self, received):
        """The rank, as c10d counts, whose tensor a recv that is done took."""
        return self.order.index(received.pending.source)

    def barrier(self, token):
        return self.calls.add("barrier", token, lambda key: self.kv.pushpull(key, token))

    def on_wire(self, wire):
        """A group of the same ranks with this wire, which this one closes. Collective over the group, and blocking."""
        group = Group(create(self.timeout, self.members), self.members, self.timeout, wire)
        self._on_wires.append(group)
        return group

    def close(self):
        self.is_closed = True
        for group in self._on_wires:
            group.close()
        self.spares.drop()
        self.kv.close()
        self.scratch.drop()

    def room(self, count, dtype):
        """A tensor of so many elements, of any contents."""
        size = _buffers.bytes_of(count, dtype)
        if size < LEAST_KEPT:
            return torch.empty(count, dtype=dtype)
        return torch.from_numpy(self.scratch.take(size)).view(dtype)

    def joined(self, tensors):
        """As that of `_buffers`, with tensors by c10d's ranks."""
        return _buffers.joined(self.by_store(tensors), self.room)

    def written_rows(self, tensors):
        """As that of `_buffers`, with tensors by c10d's ranks."""
        return _buffers.written_rows(self.by_store(tensors), self.room)

    def rows(self, whole):
        """By c10d's ranks."""
        return [whole[of_store] for of_store in self.order]

    def by_store(self, rows):
        """Rows by c10d's ranks in the store's order."""
        if self.is_ordered:
            return rows
        return [row for _, row in sorted(zip(self.order, rows), key=lambda pair: pair[0])]
