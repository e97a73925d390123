"""Makes torch's tensors into tensors that the store takes: contiguous ones, outside of autograd."""
import torch

from tutti import _core
from tutti._arrays import DTYPES
from tutti.errors import UnsupportedError


#: The names of the dtypes whose elements the store adds.
NAMES = {getattr(torch, name): name for name in DTYPES}
#: Lists of tensors with fewer bytes are copied without a check of where they lie, because the check takes longer.
SHORT = 1 << 16


def plain(tensor):
    """The same elements without a pending conjugation, a pending negation or a gap.

    The result is in the same memory if the tensor has none of these. Raises UnsupportedError for a sparse tensor.
    """
    if is_plain(tensor):
        return _without_grad(tensor)
    if tensor.layout != torch.strided:
        raise UnsupportedError("torch.distributed: tutti exchanges no sparse tensors; make this one dense with "
                               "tensor.to_dense(), and give Embedding no sparse=True")
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def written(tensor):
    """(the tensor that the store writes, the step that copies it into `tensor`, or None if they share memory)."""
    if is_plain(tensor):
        return _without_grad(tensor), None
    same = plain(tensor)
    return same, lambda: tensor.detach().copy_(same)


def _without_grad(tensor):
    return tensor.detach() if tensor.requires_grad else tensor


def memory_of(tensor):
    """The elements of a plain tensor as a row, for the store.

    torch may resize the tensor's memory after the call, as FSDP does. It never resizes memory that numpy has seen.
    """
    if tensor.device.type != "cpu":
        return tensor  # the store takes it, or says why it does not
    return _core.HeldMemory(tensor.detach(), tensor.data_ptr(), tensor.numel(), NAMES.get(tensor.dtype),
                            tensor.element_size())


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
    address, offset = first.data_ptr(), first.storage_offset()  # where the next tensor must begin to follow directly
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
    """Does the same as `in_row`, but also returns None if it is quicker to copy the tensors, which have `count`
    elements together."""
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


def require_alike(tensors, tensor, size):
    """Raises ValueError unless a root lists `size` tensors that each have as many elements as `tensor`."""
    if len(tensors) != size:
        raise ValueError(f"torch.distributed: the root lists {len(tensors)} tensors; pass one for each of the {size} "
                         "ranks")
    count = tensor.numel()
    if any(one.numel() != count for one in tensors):
        counts = sorted({one.numel() for one in (*tensors, tensor)})
        raise ValueError(f"torch.distributed: the tensors that the root lists have {', '.join(map(str, counts))} "
                         "elements, its own counted; all must have as many")


def require_whole(whole, part, size):
    """Raises ValueError unless `whole` has `size` times the elements of `part`."""
    if whole.numel() != size * part.numel():
        raise ValueError(f"torch.distributed: the tensor of all {size} ranks has {whole.numel()} elements, and that of "
                         f"one rank {part.numel()}; pass one of {size * part.numel()}")


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
