#!/usr/bin/env python3
"""Times `import tutti` after numpy, tutti.create, which starts MPI too, and numpy's matrix products without a store and
beside an idle one, in turns. Prints and writes a row for each.

    mpirun -n 2 numpy_idle.py --json rows.json
"""
import time

import numpy as np

# This is the time before the imports that tutti may cause. It is processor time, because other ranks start meanwhile.
START = time.process_time()
import tutti  # pylint: disable=wrong-import-position
IMPORT_US = (time.process_time() - START) * 1e6

# pylint: disable=wrong-import-position
import argparse
import itertools
import sys

import racing

EDGE = 256  # of a square matrix of f64
ALONE, BESIDE = "alone", "idle store"


def parser():
    options = racing.Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--products", type=int, default=100, help="between a create and a close, or a close and a "
                         "create")
    options.add_argument("--stores", type=int, default=10, help="created one after the other")
    options.add_argument("--json", help="file for the rows")
    return options


def timed(call, *arguments):
    """The result of the call, and its microseconds."""
    start = time.perf_counter()
    result = call(*arguments)
    return result, (time.perf_counter() - start) * 1e6


class Trial:
    def __init__(self, products):
        self.matrix = np.random.default_rng(0).random((EDGE, EDGE))
        self.right = self.matrix @ self.matrix
        self.products, self.times, self.wrong = products, {ALONE: [], BESIDE: []}, 0

    def multiply(self, where):
        for _ in range(self.products):
            product, took = timed(np.matmul, self.matrix, self.matrix)
            self.times[where].append(took)
            self.wrong += not np.array_equal(product, self.right)

    def run(self, stores):
        """The rows: the first create, then the products."""
        creates = []
        for number in range(stores):
            self.multiply(ALONE)
            kv, took = timed(tutti.create, "dist_sync_mpi")
            with kv:
                creates.append(took)
                kv.pushpull("used", np.ones(1)).wait()
                self.multiply(BESIDE)
                if number == stores - 1:
                    return rows_of(kv.num_workers, kv.allgather_object((creates, self.times, self.wrong,
                                                                           IMPORT_US)))
        return []


def rows_of(ranks, of_ranks):
    """The rows out of what each rank brings. A create takes as long as on its slowest rank."""
    of_creates, of_products, of_wrong, imports = zip(*of_ranks)
    creates, wrong = [max(times) for times in zip(*of_creates)], sum(of_wrong)
    found = {"import": imports, "first create": creates[:1], "later creates": creates[1:]}
    for where in (ALONE, BESIDE):
        found[where] = list(itertools.chain(*(times[where] for times in of_products)))
    return [row(impl, ranks, sorted(times), wrong) for impl, times in found.items() if times]


def row(impl, ranks, times, wrong):
    at = lambda share: times[round(share * (len(times) - 1))]
    return {"impl": impl, "version": tutti.__version__, "op": "idle", "ranks": ranks,
            "bytes": EDGE * EDGE * 8, "iters": len(times), "wrong": wrong,
            "time_us": {"min": times[0], "p50": at(0.5), "p99": at(0.99), "max": times[-1]}}


def main():
    given = parser().parse_args()
    return racing.finish(Trial(given.products).run(given.stores), given.json)


if __name__ == "__main__":
    sys.exit(main())
