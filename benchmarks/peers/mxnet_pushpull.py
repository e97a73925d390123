#!/usr/bin/env python3
"""Times push and pull through MXNet's own parameter server; checks and rows are allreduce_bench's.

    mpirun -n 8 --map-by ppr:1:node mxnet_pushpull.py --servers 4 --master 10.0.0.1 --interface eth0 \\
        --bytes 40000000 --json rows.json

Every rank is a worker. Beside the first ones' workers the servers run, one each, and the scheduler beside
rank 0's. Each size is exchanged as one array and as many keys in the proportions of ResNet-50's.
"""
import ctypes
import functools
import os
import signal
import socket
import subprocess
import sys

import numpy

import racing
from resnet50 import in_proportion, resnet50

PR_SET_PDEATHSIG = 1


def start_role(role):
    """Starts a server or the scheduler, which ends with this process. MXNet runs it when it is imported."""
    follow = functools.partial(ctypes.CDLL(None).prctl, PR_SET_PDEATHSIG, signal.SIGKILL)
    # pylint: disable-next=subprocess-popen-preexec-fn
    return subprocess.Popen([sys.executable, "-c", "import mxnet"], env={**os.environ, "DMLC_ROLE": role},
                            preexec_fn=follow)


def start_roles(given, rank):
    """Tells MXNet that this process is a worker, and starts the processes that run beside it."""
    os.environ.update(DMLC_PS_ROOT_URI=socket.gethostbyname(given.master), DMLC_PS_ROOT_PORT=str(given.port),
                      DMLC_INTERFACE=given.interface, DMLC_NUM_WORKER=str(racing.place("SIZE")),
                      DMLC_NUM_SERVER=str(given.servers),
                      DMLC_ROLE="worker")
    return [start_role(role) for role in ["scheduler"] * (rank == 0) + ["server"] * (rank < given.servers)]


class Lines:
    """Exchanges a line of numbers from each worker, through the store itself."""

    def __init__(self, mxnet, store):
        self.mxnet, self.store, self.known = mxnet, store, set()

    def gather(self, values):
        lines = numpy.zeros((self.store.num_workers, len(values)), dtype="float32")
        lines[self.store.rank] = values
        key, array = f"lines of {len(values)}", self.mxnet.nd.array(lines)
        if key not in self.known:
            self.store.init(key, array)
            self.known.add(key)
        self.store.push(key, array)
        self.store.pull(key, out=array)
        return array.asnumpy()


class Keys:
    """One size, cut into keys of these counts."""

    def __init__(self, lines, name, counts):
        mxnet, store = self.mxnet, self.store = lines.mxnet, lines.store
        self.lines = lines
        self.keys = [f"{name} {i}" for i in range(len(counts))]
        self.ins, self.outs = ([mxnet.nd.zeros((count,)) for count in counts] for _ in range(2))
        self.ends = numpy.cumsum(counts)
        self.inputs = self.repeated(racing.numbers(store.num_workers))
        self.sums = self.repeated(racing.sums(store.num_workers))
        store.init(self.keys, self.ins)

    def repeated(self, period):
        return numpy.resize(numpy.array(period, dtype="float32"), self.ends[-1] + racing.PERIOD)

    def pieces(self, source, start):
        return numpy.split(source[start:start + self.ends[-1]], self.ends[:-1])

    def fill(self, turn):
        for array, piece in zip(self.ins, self.pieces(self.inputs, racing.phase_of(self.store.rank, turn))):
            array[:] = piece
        for array in self.outs:
            array[:] = 0
        self.mxnet.nd.waitall()

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


def measure(given):
    import mxnet  # not before its role is in the environment
    store = mxnet.kv.create("dist_sync")
    lines, rows = Lines(mxnet, store), []
    for size in given.bytes:
        for impl, counts in (("mxnet", [size // 4]), ("mxnet keys", in_proportion(size // 4, resnet50()))):
            race = racing.Race(Keys(lines, f"{impl} {size}", counts), given.rest)
            times = race.run(given)
            who = {"impl": impl, "version": f"mxnet {mxnet.__version__}", "keys": len(counts), "servers": given.servers}
            wrong = float(lines.gather([race.wrong]).sum())
            rows.append(racing.row(who, size, store.num_workers, times, wrong))
    return racing.finish(rows, given.json)


def main():
    options = racing.parser(__doc__)
    options.add_argument("--servers", type=int, default=1)
    options.add_argument("--port", type=int, default=29462, help="the scheduler's")
    options.add_argument("--interface", default="lo", help="network interface of all roles")
    given = options.parse_args()
    roles = start_roles(given, racing.place("RANK"))
    status = measure(given)
    for role in roles:
        role.wait(timeout=60)
    return status


if __name__ == "__main__":
    sys.exit(main())
