"""A rank fails in one of several ways while the others wait for it. Each of the others prints the error that it got.

    torch_ends.py WHERE HOW
"""
import os
import signal
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import tutti.torch


def leave(how):
    if how == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif how == "exits":
        sys.exit(3)
    elif how == "interrupted":
        signal.raise_signal(signal.SIGINT)
    raise ValueError("what went wrong")


def forward(model):
    """BatchNorm's buffers are broadcast before each forward."""
    model(torch.ones(2, 4)).sum()


def backward(model):
    model(torch.ones(2, 4)).sum().backward()


def collective(_):
    dist.all_reduce(torch.ones(4))


def future(_):
    dist.all_reduce(torch.ones(4), async_op=True).get_future().then(lambda done: done.value()).wait()


def network(where):
    """In its first steps DDP rebuilds its buckets, for which it makes calls of its own."""
    layers = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
    model = DistributedDataParallel(layers, broadcast_buffers=where == "forward")
    if where == "hook":
        model.register_comm_hook(None, tutti.torch.ddp_hook())
    for _ in range(3):
        backward(model)
    return model


PLACES = {"forward": forward, "backward": backward, "hook": backward, "collective": collective, "future": future}


def main():
    where, how = sys.argv[1:]
    dist.init_process_group("tutti")
    model = network(where)
    if dist.get_rank() == 1:
        leave(how)
    try:
        PLACES[where](model)
    except Exception as error:  # pylint: disable=broad-except  # torch makes a RuntimeError of some
        print(f"it gets {error}".splitlines()[0], flush=True)


if __name__ == "__main__":
    main()
