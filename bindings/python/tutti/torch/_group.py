"""The store of a process group, and its ranks."""
from tutti.torch._submissions import Submissions


class Group:
    """A store, and c10d's ranks of it.

    order: the store's rank of each rank that c10d counts.
    """

    def __init__(self, kv, order):
        self.kv = kv
        self.size = kv.num_workers
        self.order = order
        self.is_ordered = list(order) == sorted(order)
        self.calls = Submissions()

    def allreduce(self, tensor, op, outs=None):
        return self.calls.add("allreduce", tensor, lambda key: self.kv.pushpull(key, tensor, outs, op=op))

    def broadcast(self, tensor, root):
        of_store = self.order[root]
        return self.calls.add("broadcast", tensor, lambda key: self.kv.broadcast(key, tensor, of_store), root)

    def allgather(self, tensor, whole):
        """Into `whole`, a row for each of the store's ranks."""
        return self.calls.add("allgather", tensor,
                              lambda key: self.kv.allgather(key, tensor.reshape(-1), whole.reshape(-1)))

    def reduce_scatter(self, whole, tensor, op):
        return self.calls.add("reduce_scatter", tensor, lambda key: self.kv.reduce_scatter(
            key, whole.reshape(-1), tensor.reshape(-1), op=op))

    def barrier(self, token):
        return self.calls.add("barrier", token, lambda key: self.kv.pushpull(key, token))

    def close(self):
        self.kv.close()

    def rows(self, whole):
        """By c10d's ranks."""
        return [whole[of_store] for of_store in self.order]

    def by_store(self, rows):
        """Rows by c10d's ranks in the store's order."""
        return [row for _, row in sorted(zip(self.order, rows), key=lambda pair: pair[0])]

