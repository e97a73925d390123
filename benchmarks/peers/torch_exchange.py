#!/usr/bin/env python3
"""Times what DDP or FSDP2 exchange in a step, over tutti and over Gloo, turn by turn in one process.

    mpirun -n 4 torch_exchange.py --wrap ddp --model resnet50 --json rows.json

A step is forward and backward of a module with a real network's parameters. The gradients are given, so little is
computed. Options are allreduce_bench's; there is one size, that of all parameters.
"""
import sys

import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import racing
import tutti.torch
from meeting_place import MeetingPlace
from resnet50 import in_proportion, resnet50
from torch_groups import groups
from vgg16 import vgg16

MODELS = {"resnet50": resnet50, "vgg16": vgg16}
#: FSDP2 shards each of this many layers separately.
LAYERS = 16
BF16, NOBODY = "tutti, bf16", "no exchange"
#: Three ranks' gradients have no whole mean.
NEAR = 0.01


class Given(torch.autograd.Function):
    """A function of a layer's parameters. All elements of their gradients are one number, which stands once."""

    @staticmethod
    def forward(ctx, before, gradient, *parameters):
        ctx.gradients = [gradient.expand(len(parameter)) for parameter in parameters]
        return before.clone()

    @staticmethod
    def backward(ctx, after):
        return (after, None, *ctx.gradients)


class Layer(nn.Module):
    """gradient: a tensor of one element, which each turn refills."""

    def __init__(self, counts, gradient):
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(torch.zeros(count)) for count in counts)
        self.gradient = gradient

    def forward(self, before):
        return Given.apply(before, self.gradient, *self.weights)


def layers_of(counts):
    """Consecutive parameters, in layers of about equal size."""
    layers, room = [[]], sum(counts) / LAYERS
    for count in counts:
        if sum(layers[-1]) + count > room and layers[-1] and len(layers) < LAYERS:
            layers.append([])
        layers[-1].append(count)
    return layers


class Step:
    """One network in one group."""

    def __init__(self, counts, meeting):
        self.meeting, self.barrier, self.largest = meeting, meeting.barrier, meeting.largest
        self.given = torch.empty(1)
        self.module = nn.Sequential(*(Layer(layer, self.given) for layer in layers_of(counts)))
        self.input = torch.zeros(1, requires_grad=True)

    def gradient(self, rank, turn):
        """All elements of a rank's gradients are this number; bf16 has the sums of 8 of them."""
        return float((rank + turn) % 8)

    def fill(self, turn):
        self.module.zero_grad()
        self.given.fill_(self.gradient(self.meeting.rank, turn))

    def exchange(self):
        self.module(self.input).backward()

    def wrong(self, turn):
        ranks = self.meeting.ranks
        mean = sum(self.gradient(rank, turn) for rank in range(ranks)) / ranks
        return sum(int(((self.local(parameter.grad) - mean).abs() > NEAR).sum())
                   for parameter in self.module.parameters())

    @staticmethod
    def local(gradient):
        """A rank's shard, where FSDP2 has cut the gradient into shards."""
        return gradient.to_local() if hasattr(gradient, "to_local") else gradient


class Ddp(Step):
    """hook: of DDP's communication, None for DDP's own."""

    def __init__(self, counts, meeting, group, hook=None):
        super().__init__(counts, meeting)
        self.module = DistributedDataParallel(self.module, process_group=group, gradient_as_bucket_view=True)
        if hook:
            self.module.register_comm_hook(None, hook)


class Alone(Ddp):
    """A step that exchanges nothing: DDP alone copies the gradients to its buckets and out of them."""

    def __init__(self, counts, meeting, group):
        super().__init__(counts, meeting, group, self.keep)

    @staticmethod
    def keep(_, bucket):
        done = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    def wrong(self, turn):
        own = self.gradient(self.meeting.rank, turn)
        return sum(int((parameter.grad != own).sum()) for parameter in self.module.parameters())


class Fsdp(Step):
    def __init__(self, counts, meeting, group):
        super().__init__(counts, meeting)
        from torch.distributed.device_mesh import DeviceMesh  # torch 2 has these
        from torch.distributed.fsdp import fully_shard
        mesh = DeviceMesh.from_group(group, "cpu")
        for layer in self.module:
            fully_shard(layer, mesh=mesh)
        fully_shard(self.module, mesh=mesh)
        if torch.distributed.get_backend(group) == "tutti":
            for layer in self.module:
                layer.set_allocate_memory_from_process_group_for_comm(True)


def contestants(wrap, counts, meeting, lanes):
    """{impl: its contestant}"""
    if wrap == "fsdp":
        return {impl: Fsdp(counts, meeting, group) for impl, group in lanes.items()}
    found = {impl: Ddp(counts, meeting, group) for impl, group in lanes.items()}
    own = lanes["tutti"]
    return {**found, BF16: Ddp(counts, meeting, own, tutti.torch.ddp_hook(wire="bf16", group=own)),
            NOBODY: Alone(counts, meeting, own)}


def main():
    options = racing.parser(__doc__)
    options.add_argument("--wrap", choices=("ddp", "fsdp"), default="ddp")
    options.add_argument("--model", choices=MODELS, default="resnet50")
    options.add_argument("--scale", type=float, default=1, help="of the network's size")
    given = options.parse_args()
    counts = MODELS[given.model]()
    counts = in_proportion(round(sum(counts) * given.scale), counts)
    meeting, rows = MeetingPlace(), []
    with groups() as lanes:
        lined_up = contestants(given.wrap, counts, meeting, lanes)
        races = [racing.Race(one, given.rest) for one in lined_up.values()]
        for impl, race, times in zip(lined_up, races, racing.take_turns(races, given)):
            who = {"impl": impl, "version": f"torch {torch.__version__}", "model": given.model, "scale": given.scale}
            row = racing.row(who, 4 * sum(counts), meeting.ranks, times, meeting.sum(race.wrong))
            rows.append({**row, "op": given.wrap})
    return racing.finish(rows, given.json)


if __name__ == "__main__":
    sys.exit(main())
