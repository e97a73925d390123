#!/usr/bin/env python3
"""Times Horovod's allreduce of torch's tensors; options, checks and rows are allreduce_bench's.

    HOROVOD_CYCLE_TIME=0.1 mpirun -n 4 horovod_allreduce.py --bytes 4,65536 --json rows.json

Turns begin behind Horovod's own barrier, so that each waits for a cycle of its background thread, as turns
that follow upon each other do.
"""
import sys

import horovod
import horovod.torch as hvd

import racing
from horovod_ranks import over_ranks
from torch_numbers import Numbers


class Horovod(Numbers):
    barrier = staticmethod(hvd.barrier)

    def exchange(self):
        # One name for all turns of a size, for Horovod caches its agreement by name.
        hvd.allreduce_(self.tensor, op=hvd.Sum, name=f"{self.count} elements")

    def largest(self, values):
        return over_ranks(values, "MAX")


def main():
    given = racing.parser(__doc__).parse_args()
    hvd.init()
    rows = []
    for size in given.bytes:
        race = racing.Race(Horovod(size // 4, hvd.size(), hvd.rank()), given.rest)
        times = race.run(given)
        who = {"impl": "horovod", "version": f"horovod {horovod.__version__}", "in_place": True}
        rows.append(racing.row(who, size, hvd.size(), times, over_ranks([race.wrong], "SUM")[0]))
    status = racing.finish(rows, given.json)
    hvd.shutdown()
    return status


if __name__ == "__main__":
    sys.exit(main())
