#!/usr/bin/env python3
"""Times Gloo's allreduce through torch.distributed; options, checks and rows are allreduce_bench's.

    mpirun -n 4 gloo_allreduce.py --bytes 4,65536 --json rows.json

Ranks meet over a TCP port that rank 0's host gives; mpirun tells each its number.
"""
import sys

import torch
import torch.distributed as dist

import racing
from gloo_ranks import join, over_ranks
from torch_numbers import Numbers


class Gloo(Numbers):
    barrier = staticmethod(dist.barrier)

    def exchange(self):
        dist.all_reduce(self.tensor)

    def largest(self, values):
        return over_ranks(values, "MAX")


def main():
    options = racing.parser(__doc__)
    options.add_argument("--port", type=int, default=29461, help="where the ranks meet")
    given = options.parse_args()
    rank, ranks = join(given.master, given.port)
    rows = []
    for size in given.bytes:
        race = racing.Race(Gloo(size // 4, ranks, rank), given.rest)
        times = race.run(given)
        who = {"impl": "gloo", "version": f"torch {torch.__version__}", "in_place": True}
        rows.append(racing.row(who, size, ranks, times, over_ranks([race.wrong], "SUM")[0]))
    status = racing.finish(rows, given.json)
    dist.destroy_process_group()
    return status


if __name__ == "__main__":
    sys.exit(main())
