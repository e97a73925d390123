"""torch.distributed's groups over all ranks, one for each library that is measured."""
import contextlib

import torch.distributed as dist

import tutti.torch  # pylint: disable=unused-import  # it registers the backend


@contextlib.contextmanager
def groups():
    """{"tutti": its group, "gloo": its group}."""
    dist.init_process_group("tutti")
    try:
        yield {"tutti": dist.group.WORLD, "gloo": dist.new_group(backend="gloo")}
    finally:
        dist.destroy_process_group()
