"""Makes torch's tensors into tensors that the store takes: contiguous ones, outside of autograd."""
import torch

from tutti.errors import UnsupportedError


#: The store's tensors have no more dimensions.
MOST_DIMENSIONS = 8
#: Shorter lists of tensors are copied without a look at where they lie, in bytes: the look takes longer.
SHORT = 1 << 16


def plain(tensor):
    """The same elements without a pending conjugation, a pending negation or a gap; of a tensor with very many
    dimensions, as a row.

    The result is in the same memory if the tensor has none of these. Raises UnsupportedError for a sparse tensor.
    """
    if is_plain(tensor):
        return _as_stores(tensor)
    if tensor.layout != torch.strided:
        raise UnsupportedError("torch.distributed: tutti exchanges no sparse tensors; make this one dense with "
                               "tensor.to_dense(), and give Embedding no sparse=True")
    return _as_stores(tensor.detach().resolve_conj().resolve_neg().contiguous())


def written(tensor):
    """(the tensor that the store writes, the step that copies it into `tensor`, or None if they share memory)."""
    if is_plain(tensor):
        return _as_stores(tensor), None
    same = plain(tensor)
    return same, lambda: tensor.detach().copy_(same.view(tensor.shape))


def _as_stores(tensor):
    if tensor.requires_grad:
        tensor = tensor.detach()
    return tensor if tensor.dim() <= MOST_DIMENSIONS else tensor.view(-1)


def rows_like(tensor, count):
    """A new tensor with `count` rows, each of the shape, dtype and device of this tensor."""
    return torch.empty((count, *tensor.shape), dtype=tensor.dtype, device=tensor.device)


def bytes_of(count, dtype):
    """The size of `count` elements, in bytes."""
    return count * torch.empty((), dtype=dtype, device="cpu").element_size()


def is_plain(tensor):
    """Whether `plain` returns the same memory."""
    return tensor.layout == torch.strided and tensor.is_contiguous() and not (tensor.is_conj() or tensor.is_neg())


def in_row(tensors):
    """One tensor over the memory of all tensors if they follow each other in one storage; None if they do not."""
    first = tensors[0]
    if not is_plain(first):
        return None
    dtype, size = first.dtype, first.element_size()
    address, offset = first.data_ptr(), first.storage_offset()  # of the next tensor, if it follows
    for tensor in tensors:
        if not is_plain(tensor) or tensor.dtype != dtype:
            return None
        if tensor.data_ptr() != address or tensor.storage_offset() != offset:
            return None
        count = tensor.numel()
        address += count * size
        offset += count
    return first.detach().as_strided((offset - first.storage_offset(),), (1,))


def _long_row(tensors, count):
    """As `in_row`; also None if it is quicker to copy the tensors, which have `count` elements together."""
    return in_row(tensors) if count * tensors[0].element_size() > SHORT else None


def joined(tensors, room):
    """One tensor of the elements of all tensors, in order. room(count, dtype) returns a tensor of any contents."""
    count = sum(tensor.numel() for tensor in tensors)
    row = _long_row(tensors, count)
    if row is not None:
        return row
    whole = room(count, tensors[0].dtype)
    return torch.cat([plain(tensor).reshape(-1) for tensor in tensors], out=whole)


def written_rows(tensors, room):
    """Does what `written` does, for tensors that the store writes as one. room: as in `joined`."""
    counts = [tensor.numel() for tensor in tensors]
    row = _long_row(tensors, sum(counts))
    if row is not None:
        return row, None
    whole = room(sum(counts), tensors[0].dtype)
    return whole, copy_to(tensors, whole.split(counts))


def require_alike(tensors, tensor):
    """Raises ValueError if one of the tensors that a root lists has not as many elements as `tensor`."""
    count = tensor.numel()
    if any(one.numel() != count for one in tensors):
        counts = sorted({one.numel() for one in (*tensors, tensor)})
        raise ValueError(f"torch.distributed: the tensors that the root lists have {', '.join(map(str, counts))} "
                         "elements, its own counted; all must have as many")


def in_turn(*steps):
    """One step that takes several steps in order. Each step may be None."""
    there = [step for step in steps if step is not None]
    return (lambda: [step() for step in there]) if there else None


def copy_to(tensors, rows):
    """The step that copies each row into its tensor, which may have any strides."""
    def step():
        for tensor, row in zip(tensors, rows):
            tensor.detach().copy_(row.reshape(tensor.shape))
    return step
