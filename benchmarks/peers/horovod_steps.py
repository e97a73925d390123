#!/usr/bin/env python3
"""Times steps of many small tensors through Horovod; options, checks and rows are negotiation_bench's.

    HOROVOD_CYCLE_TIME=0.1 mpirun -n 2 horovod_steps.py --tensors 160 --json rows.json

The program hands over all tensors of a step before it waits for the first. One row is for a call for each tensor;
another row is for one grouped call with all tensors.
"""
import sys

import horovod
import horovod.torch as hvd

import racing
import stepping
from horovod_ranks import over_ranks
from torch_numbers import StepNumbers


class OneByOne(StepNumbers):
    def exchange(self):
        handles = [hvd.allreduce_async_(tensor, op=hvd.Sum, name=f"tensor {i}")
                   for i, tensor in enumerate(self.tensors)]
        for handle in handles:
            hvd.synchronize(handle)


class Grouped(StepNumbers):
    def exchange(self):
        hvd.synchronize(hvd.grouped_allreduce_async_(self.tensors, op=hvd.Sum, name="all"))


def main():
    given = stepping.parser(__doc__).parse_args()
    hvd.init()
    numbers = (given.tensors, hvd.size(), hvd.rank())
    contestants = {"horovod": OneByOne(*numbers), "horovod grouped": Grouped(*numbers)}
    rows = stepping.measure(given, hvd.size(), contestants, f"horovod {horovod.__version__}", over_ranks)
    status = racing.finish(rows, given.json)
    hvd.shutdown()
    return status


if __name__ == "__main__":
    sys.exit(main())
