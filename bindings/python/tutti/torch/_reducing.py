"""The calls of c10d that reduce."""
import torch

from tutti.torch import _buffers, _operations
from tutti.torch._operations import STORES, TORCHS


class Reducing:
    """A base class for process groups that have a `_group`, and a `_work` that makes the result of a call."""

    def allreduce(self, tensors, opts=None):
        parts = [self._allreduced(tensor, opts) for tensor in tensors]
        return self._work(parts, tensors, opts)

    allreduce_coalesced = allreduce

    def _allreduced(self, tensor, opts):
        name = _operations.name_of(opts)
        if name in TORCHS:
            rows, submission = self._gathered(tensor)
            return submission, lambda: tensor.detach().copy_(_operations.reduced(name, rows))
        buffer, back = _buffers.written(tensor)
        if name == "PREMUL_SUM":
            buffer.mul_(_operations.factor_of(opts))
        return self._group.allreduce(buffer, STORES.get(name, "sum")), back

    def reduce(self, tensors, opts):
        return self._work([self._reduced(tensor, opts) for tensor in tensors], tensors, opts)

    def _reduced(self, tensor, opts):
        name, is_root = _operations.name_of(opts), self.rank() == opts.rootRank
        if name in TORCHS:
            submission, step = self._allreduced(tensor, opts)
            return submission, step if is_root else None
        buffer, back = _buffers.written(tensor)
        if name == "PREMUL_SUM":
            buffer = buffer.mul_(_operations.factor_of(opts)) if is_root else buffer * _operations.factor_of(opts)
        return self._group.reduce(buffer, STORES.get(name, "sum"), opts.rootRank, is_root), back if is_root else None

    def _gathered(self, tensor):
        """(the tensors of all ranks, which are there when the submission is done, the submission)."""
        whole = _buffers.rows_like(tensor, self._group.size)
        return self._group.rows(whole), self._group.allgather(_buffers.plain(tensor), whole)

    def reduce_scatter(self, outputs, inputs, opts=None):
        """inputs: for each output a list with a tensor for each rank."""
        parts = [part for output, rows in zip(outputs, inputs) for part in self._scattered_rows(output, rows, opts)]
        return self._work(parts, outputs, opts)

    def _scattered_rows(self, output, rows, opts):
        if len(rows) != self._group.size:
            raise ValueError(f"reduce_scatter: the input list has {len(rows)} tensors; pass one for each of the "
                             f"{self._group.size} ranks")
        if len({row.numel() for row in rows}) > 1:
            return self._scattered_apart(output, rows, opts)
        return [self._scattered(output, self._group.joined(rows), opts)]

    def _scattered_apart(self, output, rows, opts):
        """Reduces each row on its own, because the rows have different sizes."""
        copies = [row.detach().clone() for row in rows]
        parts = [self._allreduced(copy, opts) for copy in copies]
        mine = copies[self.rank()]
        return [*parts, (parts[-1][0], lambda: output.detach().copy_(mine.reshape(output.shape)))]

    def _scattered(self, output, whole, opts):
        """whole: a row for each rank of the store."""
        _buffers.require_whole(whole, output, self._group.size)
        name = _operations.name_of(opts)
        if name in TORCHS:
            rows, submission = self._gathered(whole)
            mine = self._group.order[self.rank()]
            return submission, lambda: output.detach().copy_(
                _operations.reduced(name, rows).reshape(self._group.size, *output.shape)[mine])
        if name == "PREMUL_SUM":
            whole = whole * _operations.factor_of(opts)
        buffer, back = _buffers.written(output)
        return self._group.reduce_scatter(whole, buffer, STORES.get(name, "sum")), back

    def reduce_scatter_single(self, output, whole, opts=None):
        return self._work([self._scattered(output, self._by_store(whole), opts)], [output], opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(self, outputs, wholes, opts=None):
        parts = [self._scattered(output, self._by_store(whole), opts) for output, whole in zip(outputs, wholes)]
        return self._work(parts, outputs, opts)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def _by_store(self, whole):
        plain = _buffers.plain(whole)
        if self._group.is_ordered:
            return plain
        return torch.cat(self._group.by_store(list(plain.reshape(-1).chunk(self._group.size))))
