"""Functions for training scripts that use torch.distributed."""
import torch
import torch.distributed as dist

from tutti.errors import InvalidArgumentError
from tutti.torch import _group
from tutti.torch._joining import world
from tutti.torch._work import Work

#: The formats in which float32 gradients may travel.
WIRES = ("bf16", "fp16")


def ddp_hook(wire="bf16", group=None):
    """A communication hook for DistributedDataParallel, with which float32 gradients travel in half their bytes.

        model.register_comm_hook(None, tutti.torch.ddp_hook(wire="bf16"))

    Between machines the gradients travel in the format `wire`, 'bf16' or 'fp16'. On a machine they are summed in
    float32, so ranks of one machine get what they get without the hook. Gradients of other dtypes travel as they are.
    group: DDP's process group, if it is not the default.

    Every rank of the group calls it, in the same order beside `new_group`. It blocks until all have called it. Raises
    InvalidArgumentError for another format, and for a group whose backend is not tutti's.
    """
    if wire not in WIRES:
        raise InvalidArgumentError(f"ddp_hook: gradients travel in {' or '.join(map(repr, WIRES))}, not in {wire!r}")
    own = _group_of(group).on_wire(wire)

    def hook(_, bucket):
        gradients = bucket.buffer()
        work = Work([own.allreduce(gradients, "average")], [gradients])
        return work.future().then(lambda done: done.value()[0])
    return hook


def _group_of(process_group):
    process_group = process_group or dist.distributed_c10d._get_default_group()
    own = getattr(_backend_of(process_group), "_group", None)
    if isinstance(own, _group.Group):
        return own
    backends = getattr(dist, "get_backend_config", dist.get_backend)(process_group)  # torch 1 has just one
    members = [dist.get_global_rank(process_group, rank)
               for rank in range(dist.get_world_size(process_group))]
    found = _group.over(world.ranks_of(members)) if "tutti" in backends else None
    if found is None:
        raise InvalidArgumentError(f"ddp_hook: the backend of the process group is {backends}, not tutti; PyTorch's "
                                   "own hooks are in torch.distributed.algorithms.ddp_comm_hooks")
    return found


def _backend_of(process_group):
    """An object of tutti's, unless torch's debugging has wrapped it, or the backend is another's."""
    try:
        return process_group._get_backend(torch.device("cpu"))
    except (AttributeError, RuntimeError):  # the backend of an old torch is the group itself; another has none for CPUs
        return process_group


def broadcast_parameters(parameters, root=0, group=None):
    """Gives all ranks the tensors of rank `root`, in place.

    parameters: a state_dict, named_parameters(), or tensors, in the same order on all ranks. Collective and blocking.
    """
    if hasattr(parameters, "items"):
        parameters = parameters.items()
    tensors = [entry[1] if isinstance(entry, tuple) else entry for entry in parameters]
    works = [dist.broadcast(tensor.detach(), root, group=group, async_op=True)
             for tensor in tensors if isinstance(tensor, torch.Tensor)]
    for work in works:
        work.wait()


def broadcast_optimizer_state(optimizer, root=0, group=None):
    """Gives all ranks the state of rank `root`'s optimizer, such as momentum, and its learning rates.

    Ranks other than the root need not have made a step. Collective and blocking; for ranks that trust each other.
    """
    tensors, is_root = [], dist.get_rank() == root
    told = [_without_tensors(optimizer.state_dict(), tensors) if is_root else None]
    dist.broadcast_object_list(told, root, group=group)
    if not is_root:
        state = _with_tensors(told[0], tensors)
    broadcast_parameters(tensors, root, group)
    if not is_root:
        optimizer.load_state_dict(state)


class _Tensor:
    """Stands for a tensor, which the root broadcasts on its own."""

    def __init__(self, tensor):
        self.shape, self.dtype, self.device = tensor.shape, tensor.dtype, tensor.device.type


def _without_tensors(state, tensors):
    if isinstance(state, torch.Tensor):
        tensors.append(state)
        return _Tensor(state)
    return _mapped(state, lambda part: _without_tensors(part, tensors))


def _with_tensors(state, tensors):
    if isinstance(state, _Tensor):
        tensors.append(torch.empty(state.shape, dtype=state.dtype, device=state.device))
        return tensors[-1]
    return _mapped(state, lambda part: _with_tensors(part, tensors))


def _mapped(state, change):
    if isinstance(state, dict):
        return {key: change(part) for key, part in state.items()}
    if isinstance(state, (list, tuple)):
        return type(state)(map(change, state))
    return state
