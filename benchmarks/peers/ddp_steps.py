#!/usr/bin/env python3
"""Times steps of many small gradients through PyTorch's DDP over Gloo; options and rows are negotiation_bench's.

    mpirun -n 2 ddp_steps.py --tensors 160 --json rows.json

A step is forward and backward of a module with so many parameters of one element. Its gradients are given, so
that little more than autograd's own work and DDP's is timed; DDP puts them into one bucket and exchanges that.
"""
import sys

import torch
import torch.distributed as dist

import racing
import stepping
from gloo_ranks import join, over_ranks
from torch_numbers import StepNumbers


class Given(torch.autograd.Function):
    """A function of all parameters; their gradients are those in a list."""

    @staticmethod
    def forward(ctx, gradients, *_parameters):
        ctx.gradients = gradients
        return torch.zeros(())

    @staticmethod
    def backward(ctx, _):
        return (None, *ctx.gradients)


class Small(torch.nn.Module):
    def __init__(self, tensors):
        super().__init__()
        self.given = torch.nn.ParameterList(torch.nn.Parameter(torch.zeros(1)) for _ in range(tensors))

    def forward(self, gradients):
        return Given.apply(gradients, *self.given)


class Ddp(StepNumbers):
    def __init__(self, tensors, ranks, rank):
        super().__init__(tensors, ranks, rank)
        self.module = torch.nn.parallel.DistributedDataParallel(Small(tensors), gradient_as_bucket_view=True)

    def fill(self, turn):
        super().fill(turn)
        self.values *= self.ranks  # DDP divides by them
        self.module.zero_grad()

    def exchange(self):
        self.module(self.tensors).backward()

    def wrong(self, turn):
        torch.cat([parameter.grad for parameter in self.module.parameters()], out=self.values)
        return super().wrong(turn)


def main():
    options = stepping.parser(__doc__)
    options.add_argument("--master", default="127.0.0.1", help="rank 0's address")
    options.add_argument("--port", type=int, default=29463, help="where the ranks meet")
    given = options.parse_args()
    rank, ranks = join(given.master, given.port)
    rows = stepping.measure(given, ranks, {"ddp": Ddp(given.tensors, ranks, rank)}, f"torch {torch.__version__}",
                            over_ranks)
    status = racing.finish(rows, given.json)
    dist.destroy_process_group()
    return status


if __name__ == "__main__":
    sys.exit(main())
