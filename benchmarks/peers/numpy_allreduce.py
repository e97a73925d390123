#!/usr/bin/env python3
"""Times tutti's pushpull of numpy arrays and mpi4py's Allreduce, turn by turn in one process; options, checks and rows
are allreduce_bench's.

    mpirun -n 4 numpy_allreduce.py --bytes 4,65536 --json rows.json
"""
import sys

import mpi4py
import numpy as np
from mpi4py import MPI

import racing
import tutti
from numpy_numbers import Numbers

WORLD = MPI.COMM_WORLD


class Lane(Numbers):
    """Shared code of both lanes: MPI's barrier, which a rank that polls leaves at once, and MPI's maximum."""
    barrier = staticmethod(WORLD.Barrier)

    def largest(self, values):
        found = np.array(values)
        WORLD.Allreduce(MPI.IN_PLACE, found, op=MPI.MAX)
        return found.tolist()


class Tutti(Lane):
    who = {"impl": "python", "version": tutti.__version__}
    kv = None

    def exchange(self):
        self.kv.pushpull("bench", self.ins, self.outs).wait()


class Mpi4py(Lane):
    who = {"impl": "mpi4py", "version": mpi4py.__version__}

    def exchange(self):
        WORLD.Allreduce(self.ins, self.outs)


def main():
    given = racing.parser(__doc__).parse_args()
    rows = []
    with tutti.create("dist_sync_mpi") as kv:
        Tutti.kv = kv
        for size in given.bytes:
            races = [racing.Race(lane(size // 4, kv.num_workers, kv.rank), given.rest) for lane in (Tutti, Mpi4py)]
            for race, times in zip(races, racing.take_turns(races, given)):
                wrong = WORLD.allreduce(race.wrong)
                rows.append(racing.row(race.contestant.who, size, kv.num_workers, times, wrong))
    return racing.finish(rows, given.json)


if __name__ == "__main__":
    sys.exit(main())
