"""The numbers that are summed, in numpy's arrays: those of allreduce_bench, and those of a step of negotiation_bench.
"""
import numpy as np

import racing
import stepping


class Numbers:
    """One array of `count` f32 and its sum, for a Race."""

    def __init__(self, count, ranks, rank):
        self.rank, self.ins, self.outs = rank, np.empty(count, np.float32), np.empty(count, np.float32)
        self.inputs, self.sums = self.repeated(racing.numbers(ranks)), self.repeated(racing.sums(ranks))

    def repeated(self, period):
        return np.tile(np.array(period, np.float32), self.ins.size // racing.PERIOD + 2)

    def fill(self, turn):
        start = racing.phase_of(self.rank, turn)
        self.outs[:] = 0
        self.ins[:] = self.inputs[start:start + self.ins.size]

    def wrong(self, turn):
        start = racing.phase_of(0, turn)
        return int(np.count_nonzero(self.outs != self.sums[start:start + self.outs.size]))


class StepNumbers:
    """Many arrays of one f32 each, for Steps. They lie one after the other in `values`."""

    def __init__(self, tensors, ranks, rank):
        self.ranks, self.rank = ranks, rank
        self.pattern = np.array(stepping.pattern(tensors), np.float32)
        self.values = np.empty(tensors, np.float32)
        self.arrays = np.split(self.values, tensors)

    def fill(self, turn):
        np.add(self.pattern, np.float32(stepping.offset(self.rank, turn)), out=self.values)

    def wrong(self, turn):
        right = self.pattern * self.ranks + stepping.offsets(self.ranks, turn)
        return int(np.count_nonzero(self.values != right))
