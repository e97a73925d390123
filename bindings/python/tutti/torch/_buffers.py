"""Torch's tensors as the store takes them: contiguous, of a dtype that it has, outside of autograd."""
import torch

from tutti.errors import UnsupportedError

#: The store adds up tensors of these dtypes.
ADDED = {torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64}


def plain(tensor):
    """The tensor without a pending conjugation, negation or gap; the same memory where it has none of these."""
    if tensor.layout != torch.strided:
        raise UnsupportedError("torch.distributed: tutti exchanges no sparse tensors; make this one dense with "
                               "tensor.to_dense(), and give Embedding no sparse=True")
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def _as_moved(tensor):
    """For calls that only move elements: those of other dtypes as bytes."""
    return tensor if tensor.dtype in ADDED else tensor.reshape(-1).view(torch.uint8)


def read(tensor):
    return _as_moved(plain(tensor))


def written(tensor, is_added=False):
    """(what the store writes, the step that brings the result into the tensor, or None)."""
    same = plain(tensor)
    is_same = same.data_ptr() == tensor.data_ptr() and same.stride() == tensor.stride()
    return same if is_added else _as_moved(same), None if is_same else lambda: tensor.detach().copy_(same)


def empty_rows(tensor, count):
    """Room for so many tensors like this one, as the store gathers them, and the same memory as one tensor each."""
    whole = torch.empty((count, *tensor.shape), dtype=tensor.dtype, device=tensor.device)
    return _as_moved(whole), whole


def joined(tensors):
    """The elements of all tensors, one after the other."""
    return torch.cat([plain(tensor).reshape(-1) for tensor in tensors])


def copy_to(tensors, rows):
    """The step that brings rows into tensors of any strides."""
    def step():
        for tensor, row in zip(tensors, rows):
            tensor.detach().copy_(row.reshape(tensor.shape))
    return step
