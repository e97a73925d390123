#!/usr/bin/env python3
"""Times steps of small numpy arrays in one list call of tutti's, or of one array in a plain call; options, checks and
rows are negotiation_bench's.

    mpirun -n 2 numpy_steps.py --tensors 160 --json rows.json
"""
import sys

import numpy as np

import racing
import stepping
import tutti
from numpy_numbers import StepNumbers


class Step(StepNumbers):
    def __init__(self, kv, tensors):
        super().__init__(tensors, kv.num_workers, kv.rank)
        self.kv = kv
        self.key, self.ins = (0, self.arrays[0]) if tensors == 1 else (list(range(tensors)), self.arrays)

    def exchange(self):
        self.kv.pushpull(self.key, self.ins).wait()

    def over_ranks(self, values, op):
        found = np.array(values, np.float64)
        self.kv.pushpull(len(self.arrays), found, op={"MAX": "max", "SUM": "sum"}[op]).wait()
        return found.tolist()


def main():
    given = stepping.parser(__doc__).parse_args()
    with tutti.create("dist_sync_mpi") as kv:
        step = Step(kv, given.tensors)
        rows = stepping.measure(given, kv.num_workers, {"python": step}, tutti.__version__, step.over_ranks)
    return racing.finish(rows, given.json)


if __name__ == "__main__":
    sys.exit(main())
