"""The calls of c10d that move tensors without arithmetic."""
import numpy as np
import torch

import tutti
from tutti.torch import _buffers, _splits

#: A rank that refuses its arguments tells this in place of each count.
REFUSED = -1


class Moving:
    """A base class for process groups that have a `_group`, and a `_work` that makes the result of a call."""

    def broadcast(self, tensors, opts):
        parts = []
        for tensor in tensors:
            buffer, back = _buffers.written(tensor)
            parts.append((self._group.broadcast(buffer, opts.rootRank), back))
        return self._work(parts, tensors, opts)

    def allgather(self, outputs, inputs, opts=None):
        """outputs: for each input a list with a tensor for each rank."""
        parts = [part for outs, tensor in zip(outputs, inputs) for part in self._gathered_rows(outs, tensor)]
        return self._work(parts, [out for outs in outputs for out in outs], opts)

    def _gathered_rows(self, outs, tensor):
        if len(outs) != self._group.size:
            raise ValueError(f"all_gather: the output list has {len(outs)} tensors; pass one for each of the "
                             f"{self._group.size} ranks")
        if len({out.numel() for out in outs}) > 1:
            return self._gathered_apart(outs, tensor)
        whole, back = self._group.written_rows(outs)
        return [(self._group.allgather(_buffers.plain(tensor), whole), back)]

    def _gathered_apart(self, outs, tensor):
        """Each rank broadcasts its tensor, because the tensors have different sizes."""
        outs[self.rank()].detach().copy_(tensor.reshape(outs[self.rank()].shape))
        parts = []
        for root, out in enumerate(outs):
            buffer, back = _buffers.written(out)
            parts.append((self._group.broadcast(buffer, root), back))
        return parts

    def allgather_coalesced(self, outputs, inputs, opts=None):
        """outputs: for each rank a list with a tensor for each input."""
        return self.allgather([list(outs) for outs in zip(*outputs)], inputs, opts)

    def all_gather_single(self, output, tensor, opts=None):
        return self._work([self._gathered_into(output, tensor)], [output], opts)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(self, outputs, inputs, opts=None):
        parts = [self._gathered_into(output, tensor) for output, tensor in zip(outputs, inputs)]
        return self._work(parts, outputs, opts)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def _gathered_into(self, output, tensor):
        _buffers.require_whole(output, tensor, self._group.size)
        if not self._group.is_ordered:
            rows, submission = self._gathered(tensor)
            return submission, lambda: output.detach().copy_(torch.stack(rows).reshape(output.shape))
        buffer, back = _buffers.written(output)
        return self._group.allgather(_buffers.plain(tensor), buffer), back

    def gather(self, outputs, inputs, opts):
        """outputs: at the root, for each input a list with a tensor for each rank."""
        parts = []
        for i, tensor in enumerate(inputs):
            whole, back = tensor.new_empty(0), None
            if self.rank() == opts.rootRank:
                _buffers.require_alike(outputs[i], tensor, self._group.size)
                whole, back = self._group.written_rows(outputs[i])
            parts.append((self._group.gather(_buffers.plain(tensor), whole, opts.rootRank), back))
        return self._work(parts, [out for outs in outputs for out in outs], opts)

    def scatter(self, outputs, inputs, opts):
        """inputs: at the root, for each output a list with a tensor for each rank."""
        parts = []
        for i, output in enumerate(outputs):
            whole = output.new_empty(0)
            if self.rank() == opts.rootRank:
                _buffers.require_alike(inputs[i], output, self._group.size)
                whole = self._group.joined(inputs[i])
            buffer, back = _buffers.written(output)
            parts.append((self._group.scatter(whole, buffer, opts.rootRank), back))
        return self._work(parts, outputs, opts)

    def alltoall(self, outputs, inputs, opts=None):
        size, problem = self._group.size, None
        if len(outputs) != size or len(inputs) != size:
            problem = (f"all_to_all: pass lists of {size} tensors, one for each rank; the output list has "
                       f"{len(outputs)}, and the input list {len(inputs)}")
        counts = self._agreed(inputs[0].dtype if inputs else outputs[0].dtype, [tensor.numel() for tensor in inputs],
                              [tensor.numel() for tensor in outputs], problem)
        return self._work([self._exchanged(outputs, inputs, counts)], outputs, opts)

    def all_to_all_single(self, output, tensor, output_splits, input_splits, opts=None):
        """Each split counts rows of the first dimension, and there is one for each rank. If no rank has splits, all
        shares are equal, and the ranks need not agree on them first."""
        size = self._group.size
        problem = (_splits.problem_of("input", tensor, input_splits, size)
                   or _splits.problem_of("output", output, output_splits, size))
        if input_splits or output_splits:
            sent, received = ([], []) if problem else (_splits.counts_of(tensor, input_splits, size),
                                                       _splits.counts_of(output, output_splits, size))
            counts = self._agreed(tensor.dtype, sent, received, problem)
        else:
            if not problem and tensor.numel() != output.numel():
                problem = (f"all_to_all_single without split sizes: the input has {tensor.numel()} elements, and the "
                           f"output {output.numel()}; make both of one size, or pass split sizes, on all ranks")
            if problem:
                raise ValueError(problem)
            sent = received = _splits.counts_of(tensor, None, size)
            counts = None
        buffer, back = _buffers.written(output)
        if self._group.is_ordered:
            part = self._group.exchange(_buffers.plain(tensor), buffer, counts), back
        else:
            submission, step = self._exchanged(buffer.reshape(-1).split(received),
                                               _buffers.plain(tensor).reshape(-1).split(sent), counts)
            part = submission, _buffers.in_turn(step, back)
        return self._work([part], [output], opts)

    alltoall_base = all_to_all_single

    def _agreed(self, dtype, sent, received, problem):
        """The element counts of an all_to_all, by sender and receiver, both ranks of the store.

        Blocks until all ranks have told how many elements they send and expect. Raises ValueError with this rank's
        problem, if it has one; the other ranks learn of it, and raise MismatchError. Also raises MismatchError on all
        ranks if a sender and its receiver differ.
        """
        size = self._group.size
        said = self._group.told_shares(dtype, np.full((2, size), REFUSED) if problem else [sent, received])
        if problem:
            raise ValueError(problem)
        refused = np.flatnonzero(said[:, 0, 0] == REFUSED).tolist()
        if refused:
            raise tutti.MismatchError(f"all_to_all: rank {refused[0]} raises ValueError, because its tensors or split "
                                      "sizes do not fit; its own error says which", ranks=refused)
        counts, expected = said[:, 0], said[:, 1].T
        wrong = np.argwhere(counts != expected)
        if wrong.size:
            source, target = wrong[0].tolist()
            raise tutti.MismatchError(
                f"all_to_all: rank {source} sends {counts[source, target]} elements to rank {target}, which expects "
                f"{expected[source, target]}; split sizes and shapes must fit on both", ranks=[source, target])
        by_store = self._group.by_store(range(size))
        return counts[np.ix_(by_store, by_store)]

    def _exchanged(self, outputs, inputs, counts):
        """outputs, inputs: a tensor for each rank of c10d."""
        whole, back = self._group.written_rows(outputs)
        return self._group.exchange(self._group.joined(inputs), whole, counts), back
