"""Rank 1 fails within a part of a training step, while workers of a DataLoader live. The others print their errors.

    torch_faults.py PART HOW START FOLDER

PART: forward, backward, step, or checkpoint. HOW: as in torch_ends.py. START: how the DataLoader starts its workers.
FOLDER: for checkpoints, the same on all ranks.
"""
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

import tutti.torch  # pylint: disable=unused-import
from torch_ends import leave
from torch_fixture import is_old

#: The batch in which it happens: by then DDP has built its buckets anew, and the workers have begun.
WHEN = 4


class Examples(Dataset):
    def __len__(self):
        return 400

    def __getitem__(self, i):
        return torch.full((4,), i / 400), i % 2


class Fault:
    """The fault of this rank, in the chosen part of the chosen batch."""

    def __init__(self, part, how):
        self.part, self.how = part, how
        self.batch = 0

    def come_to(self, part):
        if dist.get_rank() == 1 and self.batch == WHEN and part == self.part:
            leave(self.how)


class Tapped(nn.Module):
    def __init__(self, fault):
        super().__init__()
        self.fault = fault

    def forward(self, inner):
        self.fault.come_to("forward")
        if inner.requires_grad:
            inner.register_hook(lambda _: self.fault.come_to("backward"))
        return inner


class Descent(torch.optim.SGD):
    def __init__(self, weights, fault):
        super().__init__(weights, lr=0.1)
        self.fault = fault

    def step(self, closure=None):
        self.fault.come_to("step")
        return super().step(closure)


def save(state, folder, fault):
    """Saves a checkpoint. With torch 2 all ranks write a part of it; with torch 1 rank 1 writes, and the others wait
    for it.
    """
    if is_old():
        if dist.get_rank() == 1:
            fault.come_to("checkpoint")
            torch.save(state, os.path.join(folder, "checkpoint"))
        dist.barrier()
        return
    from torch.distributed import checkpoint

    class Writer(checkpoint.FileSystemWriter):
        def write_data(self, plan, planner):
            fault.come_to("checkpoint")
            return super().write_data(plan, planner)
    checkpoint.save(state, storage_writer=Writer(folder))


def train(fault, start, folder):
    layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), Tapped(fault), nn.ReLU(), nn.Linear(8, 2))
    model = DistributedDataParallel(layers)
    optimizer = Descent(model.parameters(), fault)
    batches = DataLoader(Examples(), batch_size=4, num_workers=1, multiprocessing_context=start)
    for batch, (images, labels) in enumerate(batches):
        fault.batch = batch
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
        save({"model": model.state_dict()}, folder, fault)


def main():
    part, how, start, folder = sys.argv[1:]
    torch.set_num_threads(1)  # the ranks share the cores
    dist.init_process_group("tutti")
    if dist.get_rank() == 0:
        print(f"job {os.environ['PMIX_NAMESPACE']}", flush=True)
    fault = Fault(part, how)
    try:
        train(fault, start, folder)
    except BaseException as error:  # pylint: disable=broad-except  # torch has others of its own for checkpoints
        if dist.get_rank() == 1:
            raise
        print(f"it gets {type(error).__name__}: {error}".splitlines()[0], flush=True)


if __name__ == "__main__":
    main()
