#!/usr/bin/env python3
"""Times push and pull through the parameter server of MXNet's dist_sync; checks and rows are allreduce_bench's.

    served.py --workers 2 --servers 1 --role 'python -c "import mxnet"' --interface lo \\
        mpirun -n 2 mxnet_pushpull.py --bytes 40000000 --json rows.json

Each size is exchanged as one array, and as many keys in the proportions of ResNet-50's if it has an element for each.
"""
import sys

import numpy
import mxnet

import racing
from resnet50 import in_proportion, resnet50

ARRAY, KEYS = "array", "keys"


class Lines:
    """Exchanges a line of numbers from each worker, through the store itself."""

    def __init__(self, store):
        self.store, self.known = store, set()

    def gather(self, values):
        lines = numpy.zeros((self.store.num_workers, len(values)), dtype="float32")
        lines[self.store.rank] = values
        key, array = f"lines of {len(values)}", mxnet.nd.array(lines)
        if key not in self.known:
            self.store.init(key, array)
            self.known.add(key)
        self.store.push(key, array)
        self.store.pull(key, out=array)
        return array.asnumpy()


class Keys:
    """One size, cut into keys of these counts."""

    def __init__(self, lines, name, counts):
        self.lines, self.store = lines, lines.store
        self.keys = [f"{name} {i}" for i in range(len(counts))]
        self.ins, self.outs = ([mxnet.nd.zeros((count,)) for count in counts] for _ in range(2))
        self.ends = numpy.cumsum(counts)
        self.inputs = self.repeated(racing.numbers(self.store.num_workers))
        self.sums = self.repeated(racing.sums(self.store.num_workers))
        self.store.init(self.keys, self.ins)

    def repeated(self, period):
        return numpy.resize(numpy.array(period, dtype="float32"), self.ends[-1] + racing.PERIOD)

    def pieces(self, source, start):
        return numpy.split(source[start:start + self.ends[-1]], self.ends[:-1])

    def fill(self, turn):
        for array, piece in zip(self.ins, self.pieces(self.inputs, racing.phase_of(self.store.rank, turn))):
            array[:] = piece
        for array in self.outs:
            array[:] = 0
        mxnet.nd.waitall()

    def barrier(self):
        self.store._barrier()  # it has no public one

    def exchange(self):
        for i, (key, given, taken) in enumerate(zip(self.keys, self.ins, self.outs)):
            self.store.push(key, given, priority=-i)
            self.store.pull(key, out=taken, priority=-i)
        for array in self.outs:
            array.wait_to_read()

    def wrong(self, turn):
        right = self.pieces(self.sums, racing.phase_of(0, turn))
        return sum(int((array.asnumpy() != piece).sum()) for array, piece in zip(self.outs, right))

    def largest(self, values):
        return self.lines.gather(values).max(axis=0).tolist()


def ways(count, asked):
    """{impl: the numbers of elements of its keys}"""
    if ARRAY in asked:
        yield "mxnet", [count]
    if KEYS in asked and count >= len(resnet50()):
        yield "mxnet keys", in_proportion(count, resnet50())


def measure(given):
    store = mxnet.kv.create("dist_sync")
    lines, rows = Lines(store), []
    for size in given.bytes:
        for impl, counts in ways(size // 4, given.ways):
            race = racing.Race(Keys(lines, f"{impl} {size}", counts), given.rest)
            times = race.run(given)
            who = {"impl": impl, "version": f"mxnet {mxnet.__version__}", "keys": len(counts)}
            wrong = float(lines.gather([race.wrong]).sum())
            rows.append(racing.row(who, size, store.num_workers, times, wrong))
    return racing.finish(rows, given.json)


def main():
    options = racing.parser(__doc__)
    options.add_argument("--as", dest="ways", type=lambda text: text.split(","), default=[ARRAY, KEYS],
                         help="array, keys or both (array,keys)")
    return measure(options.parse_args())


if __name__ == "__main__":
    sys.exit(main())
