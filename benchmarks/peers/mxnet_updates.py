#!/usr/bin/env python3
"""Counts the updates that workers of MXNet's dist_async make; options and rows are server_bench's.

    served.py --workers 4 --servers 1 --role 'python -c "import mxnet"' --interface lo \\
        mpirun -n 4 mxnet_updates.py --bytes 65536 --json rows.json

Each worker pushes gradients of ones and pulls the weights, as quickly as it can. The time of a row is that from one
update to the next, whoever makes it.
"""
import sys
import time

import mxnet

import racing


class Board:
    """A board on which workers tell each other numbers: values of the store that are pushed once, and are 0 before."""

    def __init__(self, store):
        self.store, self.count = store, 0

    def total(self, number):
        """The sum over all workers. The servers' rule subtracts the values that are pushed."""
        key, line = f"total {self.count}", mxnet.nd.zeros((1,))
        self.count += 1
        self.store.init(key, line)
        self.store.push(key, mxnet.nd.array([number]))
        mxnet.nd.waitall()
        self.store._barrier()  # it has no public one
        self.store.pull(key, out=line)
        return -float(line.asscalar())


class Updates:
    def __init__(self, store, count):
        self.store, self.key, self.done = store, f"updated {count}", 0
        self.gradient, self.weights = mxnet.nd.ones((count,)), mxnet.nd.zeros((count,))
        store.init(self.key, self.weights)
        store._barrier()

    def take(self):
        self.gradient[:] = 1  # on its way to the output, MXNet pulls into the array that it has pushed
        self.store.push(self.key, self.gradient)
        self.store.pull(self.key, out=self.weights)
        self.weights.wait_to_read()
        self.done += 1

    def wrong(self, updates):
        self.store.pull(self.key, out=self.weights)
        return int((self.weights != -updates).sum().asscalar())


def rate(given, board, updates):
    """The updates of all workers, each second."""
    for _ in range(given.warmup):
        updates.take()
    updates.store._barrier()
    before, start = updates.done, time.perf_counter()
    while time.perf_counter() - start < given.seconds:
        updates.take()
    return board.total((updates.done - before) / (time.perf_counter() - start))


def measure(given):
    store = mxnet.kv.create("dist_async")
    store.set_optimizer(mxnet.optimizer.SGD(learning_rate=1, wd=0))
    board, rows = Board(store), []
    for size in given.bytes:
        updates = Updates(store, size // 4)
        microseconds = 1e6 / rate(given, board, updates)
        wrong = board.total(updates.wrong(board.total(updates.done)))
        who = {"impl": "mxnet updates", "version": f"mxnet {mxnet.__version__}"}
        rows.append(racing.row(who, size, store.num_workers, [microseconds], wrong))
    return racing.finish(rows, given.json)


if __name__ == "__main__":
    sys.exit(measure(racing.parser(__doc__).parse_args()))
