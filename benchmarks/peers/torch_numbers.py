"""The numbers that are summed, in torch's tensors: those of allreduce_bench, and those of a step of negotiation_bench.
"""
import torch

import racing
import stepping


class Numbers:
    """One tensor of `count` f32, for a Race."""

    def __init__(self, count, ranks, rank):
        self.rank, self.count, self.tensor = rank, count, torch.empty(count)
        self.inputs, self.sums = self.repeated(racing.numbers(ranks)), self.repeated(racing.sums(ranks))

    def repeated(self, period):
        return torch.tensor(period, dtype=torch.float32).repeat(self.count // racing.PERIOD + 2)

    def fill(self, turn):
        start = racing.phase_of(self.rank, turn)
        self.tensor.copy_(self.inputs[start:start + self.count])

    def wrong(self, turn):
        start = racing.phase_of(0, turn)
        return int((self.tensor != self.sums[start:start + self.count]).sum())


class StepNumbers:
    """Many tensors of one f32 each, for Steps. They lie one after the other in `values`."""

    def __init__(self, tensors, ranks, rank):
        self.ranks, self.rank = ranks, rank
        self.pattern = torch.tensor(stepping.pattern(tensors), dtype=torch.float32)
        self.values = torch.empty(tensors)
        self.tensors = list(self.values.split(1))

    def fill(self, turn):
        torch.add(self.pattern, stepping.offset(self.rank, turn), out=self.values)

    def wrong(self, turn):
        return int((self.values != self.pattern * self.ranks + stepping.offsets(self.ranks, turn)).sum())
