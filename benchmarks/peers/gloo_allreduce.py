#!/usr/bin/env python3
"""Times Gloo's allreduce through torch.distributed; options, checks and rows are allreduce_bench's.

    mpirun -n 4 gloo_allreduce.py --bytes 4,65536 --json rows.json

Ranks meet over a TCP port that rank 0's host gives; mpirun tells each its number.
"""
import argparse
import json
import os
import sys
import time

import torch
import torch.distributed as dist

PERIOD = 251
MOST = 1000


def phase_of(rank, turn):
    return (rank * 13 + turn * 7) % PERIOD


class Pattern:
    """The numbers that allreduce_bench sums: they repeat, shifted by rank and turn."""

    def __init__(self, ranks, rank, count):
        largest = min(max(127 // ranks, 1), 8)
        numbers = [i * i % PERIOD % (largest + 1) for i in range(PERIOD)]
        sums = [sum(numbers[(i + phase_of(r, 0)) % PERIOD] for r in range(ranks)) for i in range(PERIOD)]
        self.rank, self.count = rank, count
        self.inputs, self.sums = self.repeated(numbers), self.repeated(sums)

    def repeated(self, numbers):
        return torch.tensor(numbers, dtype=torch.float32).repeat(self.count // PERIOD + 2)

    def fill(self, tensor, turn):
        start = phase_of(self.rank, turn)
        tensor.copy_(self.inputs[start:start + self.count])

    def wrong(self, tensor, turn):
        start = phase_of(0, turn)
        return int((tensor != self.sums[start:start + self.count]).sum())


class Race:
    def __init__(self, count, ranks, rank):
        self.pattern, self.tensor = Pattern(ranks, rank, count), torch.empty(count)
        self.turn, self.wrong, self.times = 0, 0, []

    def take(self):
        self.pattern.fill(self.tensor, self.turn)
        dist.barrier()
        start = time.perf_counter()
        dist.all_reduce(self.tensor)
        self.times.append((time.perf_counter() - start) * 1e6)
        dist.barrier()
        self.wrong += self.pattern.wrong(self.tensor, self.turn)
        self.turn += 1

    def run(self, given):
        for _ in range(given.warmup):
            self.take()
        self.times, start = [], time.perf_counter()
        while True:
            for _ in range(given.least):
                self.take()
            if len(self.times) >= MOST or over_ranks([time.perf_counter() - start], "MAX")[0] >= given.seconds:
                return


def over_ranks(values, how):
    result = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(result, getattr(dist.ReduceOp, how))
    return result.tolist()


def row_of(size, ranks, race):
    times = sorted(over_ranks(race.times, "MAX"))
    at = lambda share: times[round(share * (len(times) - 1))]
    algorithm = size / at(0.5) / 1e3
    return {"impl": "gloo", "version": f"torch {torch.__version__}", "op": "allreduce", "dtype": "f32", "ranks": ranks,
            "hosts": 1, "bytes": size, "shared": False, "in_place": True, "iters": len(times),
            "time_us": {"min": times[0], "p50": at(0.5), "p99": at(0.99), "max": times[-1], "avg": sum(times) / len(times)},
            "algbw_GBps": algorithm, "busbw_GBps": algorithm * 2 * (ranks - 1) / ranks,
            "wrong": over_ranks([race.wrong], "SUM")[0]}


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=lambda text: [int(word) for word in text.split(",")], default=[4, 65536])
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--least", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=5)
    parser.add_argument("--json")
    parser.add_argument("--master", default="127.0.0.1", help="rank 0's address")
    parser.add_argument("--port", type=int, default=29461, help="where the ranks meet")
    return parser.parse_args()


def main():
    given = parse()
    rank, ranks = (int(os.environ[f"OMPI_COMM_WORLD_{name}"]) for name in ("RANK", "SIZE"))
    dist.init_process_group("gloo", init_method=f"tcp://{given.master}:{given.port}", rank=rank, world_size=ranks)
    rows = []
    for size in given.bytes:
        race = Race(size // 4, ranks, rank)
        race.run(given)
        rows.append(row_of(size, ranks, race))
    if rank == 0:
        print(json.dumps(rows))
        if given.json:
            with open(given.json, "w", encoding="utf-8") as file:
                json.dump(rows, file)
    dist.destroy_process_group()
    return 1 if any(row["wrong"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
