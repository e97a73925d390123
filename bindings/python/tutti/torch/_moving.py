"""c10d's calls that move tensors as they are."""
import torch

from tutti.torch import _buffers


class Moving:
    """Of a process group with a `_group`, and `_work` for what its calls return."""

    def broadcast(self, tensors, opts):
        parts = []
        for tensor in tensors:
            buffer, back = _buffers.written(tensor)
            parts.append((self._group.broadcast(buffer, opts.rootRank), back))
        return self._work(parts, tensors, opts)

    def allgather(self, outputs, inputs, opts=None):
        """outputs: for each input a tensor for each rank."""
        parts = [part for outs, tensor in zip(outputs, inputs) for part in self._gathered_rows(outs, tensor)]
        return self._work(parts, [out for outs in outputs for out in outs], opts)

    def _gathered_rows(self, outs, tensor):
        if len({out.numel() for out in outs}) > 1:
            return self._gathered_apart(outs, tensor)
        rows, submission = self._gathered(tensor)
        return [(submission, _buffers.copy_to(outs, rows))]

    def _gathered_apart(self, outs, tensor):
        """Tensors of several sizes: each rank sends its own to all."""
        outs[self.rank()].detach().copy_(tensor.reshape(outs[self.rank()].shape))
        parts = []
        for root, out in enumerate(outs):
            buffer, back = _buffers.written(out)
            parts.append((self._group.broadcast(buffer, root), back))
        return parts

    def allgather_coalesced(self, outputs, inputs, opts=None):
        """outputs: for each rank a tensor for each input."""
        return self.allgather([list(outs) for outs in zip(*outputs)], inputs, opts)

    def all_gather_single(self, output, tensor, opts=None):
        return self._work([self._gathered_into(output, tensor)], [output], opts)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        parts = [self._gathered_into(output, tensor) for output, tensor in zip(outputs, inputs)]
        return self._work(parts, outputs, opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def _gathered_into(self, output, tensor):
        if not self._group.is_ordered:
            rows, submission = self._gathered(tensor)
            return submission, lambda: output.detach().copy_(torch.stack(rows).reshape(output.shape))
        buffer, back = _buffers.written(output)
        return self._group.allgather(_buffers.read(tensor), buffer), back

    def gather(self, outputs, inputs, opts):
        """outputs: at the root for each input a tensor for each rank."""
        parts = []
        for i, tensor in enumerate(inputs):
            rows, submission = self._gathered(tensor)
            is_root = self.rank() == opts.rootRank
            parts.append((submission, _buffers.copy_to(outputs[i], rows) if is_root else None))
        return self._work(parts, [out for outs in outputs for out in outs], opts)

    def scatter(self, outputs, inputs, opts):
        """inputs: at the root for each output a tensor for each rank."""
        parts = []
        for i, output in enumerate(outputs):
            buffer, whole = _buffers.empty_rows(output, self._group.size)
            if self.rank() == opts.rootRank:
                whole.copy_(torch.stack([tensor.detach() for tensor in inputs[i]]))
            mine = whole[self.rank()]
            parts.append((self._group.broadcast(buffer, opts.rootRank), _buffers.copy_to([output], [mine])))
        return self._work(parts, outputs, opts)

    def alltoall(self, outputs, inputs, opts=None):
        sizes = [tensor.numel() for tensor in inputs]
        parts, sent = self._sent_to_all(_buffers.joined(inputs), sizes)
        mine = [whole[begin:end] for whole, begin, end in sent]
        parts[-1] = parts[-1][0], _buffers.copy_to(outputs, mine)
        return self._work(parts, outputs, opts)

    def all_to_all_single(self, output, tensor, output_splits, input_splits, opts=None):
        """The splits are rows of each rank; none: equal shares."""
        if not input_splits and not output_splits:
            return self._work([self._transposed(output, tensor)], [output], opts)
        rows = tensor.shape[0] if tensor.dim() else 1
        splits = input_splits or [rows // self._group.size] * self._group.size
        of_row = tensor.numel() // rows if rows else 0
        parts, sent = self._sent_to_all(_buffers.joined([tensor]), [split * of_row for split in splits])
        mine = [whole[begin:end] for whole, begin, end in sent]
        parts[-1] = parts[-1][0], lambda: output.detach().copy_(torch.cat(mine).reshape(output.shape))
        return self._work(parts, [output], opts)

    alltoall_base = all_to_all_single

    def _transposed(self, output, tensor):
        rows, submission = self._gathered(tensor)

        def step():
            mine = [row.reshape(-1).chunk(self._group.size)[self.rank()] for row in rows]
            output.detach().copy_(torch.cat(mine).reshape(output.shape))
        return submission, step if tensor.numel() else None

    def _sent_to_all(self, tensor, sizes):
        """Every rank's elements go to all. Waits for their numbers.

        sizes: how many of this rank's are for each rank. Returns parts of a Work, and for each rank (its elements,
        where those for this rank begin, where they end).
        """
        told = torch.tensor(sizes, dtype=torch.int64)
        matrix, submission = self._gathered(told)
        submission.wait()
        parts, sent = [], []
        for root, row in enumerate(matrix):
            whole = tensor if root == self.rank() else tensor.new_empty(int(row.sum()))
            parts.append((self._group.broadcast(_buffers.read(whole), root), None))
            begin = int(row[:self.rank()].sum())
            sent.append((whole, begin, begin + int(row[self.rank()])))
        return parts, sent
