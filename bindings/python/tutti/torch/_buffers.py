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


def joined(tensors):
    """The elements of all tensors, one after the other."""
    return torch.cat([plain(tensor).reshape(-1) for tensor in tensors])


def room_for(tensors):
    """Room for the elements of all tensors, one after the other."""
    return tensors[0].new_empty(sum(tensor.numel() for tensor in tensors))


def copy_to(tensors, rows):
    """The step that brings rows into tensors of any strides."""
    def step():
        for tensor, row in zip(tensors, rows):
            tensor.detach().copy_(row.reshape(tensor.shape))
    return step
