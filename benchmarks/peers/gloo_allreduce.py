#!/usr/bin/env python3
"""Times Gloo's allreduce through torch.distributed; options, checks and rows are allreduce_bench's.

    mpirun -n 4 gloo_allreduce.py --bytes 4,65536 --json rows.json

Ranks meet over a TCP port that rank 0's host gives; mpirun tells each its number.
"""
import sys

import torch
import torch.distributed as dist

import racing


def over_ranks(values, how):
    result = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(result, getattr(dist.ReduceOp, how))
    return result.tolist()


class Gloo:
    def __init__(self, count, ranks, rank):
        self.rank, self.count, self.tensor = rank, count, torch.empty(count)
        self.inputs, self.sums = self.repeated(racing.numbers(ranks)), self.repeated(racing.sums(ranks))
        self.barrier = dist.barrier

    def repeated(self, period):
        return torch.tensor(period, dtype=torch.float32).repeat(self.count // racing.PERIOD + 2)

    def fill(self, turn):
        start = racing.phase_of(self.rank, turn)
        self.tensor.copy_(self.inputs[start:start + self.count])

    def exchange(self):
        dist.all_reduce(self.tensor)

    def wrong(self, turn):
        start = racing.phase_of(0, turn)
        return int((self.tensor != self.sums[start:start + self.count]).sum())

    def largest(self, values):
        return over_ranks(values, "MAX")


def main():
    options = racing.parser(__doc__)
    options.add_argument("--port", type=int, default=29461, help="where the ranks meet")
    given = options.parse_args()
    rank, ranks = racing.place("RANK"), racing.place("SIZE")
    dist.init_process_group("gloo", init_method=f"tcp://{given.master}:{given.port}", rank=rank, world_size=ranks)
    rows = []
    for size in given.bytes:
        race = racing.Race(Gloo(size // 4, ranks, rank))
        times = race.run(given)
        who = {"impl": "gloo", "version": f"torch {torch.__version__}", "in_place": True}
        rows.append(racing.row(who, size, ranks, times, over_ranks([race.wrong], "SUM")[0]))
    status = racing.finish(rows, given.json)
    dist.destroy_process_group()
    return status


if __name__ == "__main__":
    sys.exit(main())
