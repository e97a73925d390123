"""Torch's tensors as the store takes them: contiguous, outside of autograd."""
import torch

from tutti.errors import UnsupportedError


def plain(tensor):
    """The tensor without a pending conjugation, negation or gap; the same memory where it has none of these."""
    if tensor.layout != torch.strided:
        raise UnsupportedError("torch.distributed: tutti exchanges no sparse tensors; make this one dense with "
                               "tensor.to_dense(), and give Embedding no sparse=True")
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def written(tensor):
    """(what the store writes, the step that brings the result into the tensor, or None)."""
    same = plain(tensor)
    is_same = same.data_ptr() == tensor.data_ptr() and same.stride() == tensor.stride()
    return same, None if is_same else lambda: tensor.detach().copy_(same)


def rows_like(tensor, count):
    """Room for so many tensors like this one."""
    return torch.empty((count, *tensor.shape), dtype=tensor.dtype, device=tensor.device)


def bytes_of(count, dtype):
    """The size of so many elements."""
    return count * torch.empty((), dtype=dtype).element_size()


def is_plain(tensor):
    """Whether `plain` leaves it where it is."""
    return tensor.layout == torch.strided and tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def in_row(tensors):
    """The memory of all tensors as one tensor, where they lie in one storage one after the other; else None."""
    first = tensors[0]
    if not is_plain(first):
        return None
    dtype, size = first.dtype, first.element_size()
    address, offset = first.data_ptr(), first.storage_offset()  # where the next one lies
    for tensor in tensors:
        if not is_plain(tensor) or tensor.dtype != dtype:
            return None
        if tensor.data_ptr() != address or tensor.storage_offset() != offset:
            return None
        count = tensor.numel()
        address += count * size
        offset += count
    return first.detach().as_strided((offset - first.storage_offset(),), (1,))


def joined(tensors, room):
    """The elements of all tensors, one after the other. room(count, dtype): a tensor of any contents."""
    row = in_row(tensors)
    if row is not None:
        return row
    whole = room(sum(tensor.numel() for tensor in tensors), tensors[0].dtype)
    return torch.cat([plain(tensor).reshape(-1) for tensor in tensors], out=whole)


def written_rows(tensors, room):
    """As `written`, for tensors that the store writes one after the other. room: as in `joined`."""
    row = in_row(tensors)
    if row is not None:
        return row, None
    counts = [tensor.numel() for tensor in tensors]
    whole = room(sum(counts), tensors[0].dtype)
    return whole, copy_to(tensors, whole.split(counts))


def require_alike(tensors, tensor):
    """That a root has tensors of this one's size for all ranks."""
    count = tensor.numel()
    if any(one.numel() != count for one in tensors):
        counts = sorted({one.numel() for one in (*tensors, tensor)})
        raise ValueError(f"torch.distributed: the tensors that the root lists have {', '.join(map(str, counts))} "
                         "elements, its own counted; all must have as many")


def in_turn(*steps):
    """One step of several, each of which may be None."""
    there = [step for step in steps if step is not None]
    return (lambda: [step() for step in there]) if there else None


def copy_to(tensors, rows):
    """The step that brings rows into tensors of any strides."""
    def step():
        for tensor, row in zip(tensors, rows):
            tensor.detach().copy_(row.reshape(tensor.shape))
    return step
