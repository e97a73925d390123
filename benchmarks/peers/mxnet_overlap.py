#!/usr/bin/env python3
"""Times training steps of MXNet's Gluon in which the exchange overlaps with the backward pass, and steps in which it
begins when the backward pass is done. Rows are allreduce_bench's, `bytes` those of all gradients.

    MXNET_CPU_WORKER_NTHREADS=2 mpirun -n 2 mxnet_overlap.py --bytes 33554432 --json rows.json

What a layer computes is slept through, and its gradient written by the layer's own thread, as on an accelerator: the
processors are the exchange's. The backward pass takes as long as the exchange alone, which is timed first. For each
accelerator MXNet's engine has threads of its own; here it has two. One thread would tell of a layer's end only after
the updates before it.
"""
import ctypes
import sys
import time

import mxnet
import numpy

import racing
import tutti
import tutti.mxnet

LAYERS = 16
WAYS = ("overlapped", "one after the other")


def view(array):
    """The array's memory as numpy's."""
    address = ctypes.c_void_p()
    mxnet.base.check_call(mxnet.base._LIB.MXNDArrayGetData(array.handle, ctypes.byref(address)))
    return numpy.ctypeslib.as_array((ctypes.c_float * array.size).from_address(address.value))


class Layer(mxnet.operator.CustomOp):
    """Passes its input on. The gradient of its weights takes `seconds` and is this rank's number."""

    seconds = 0
    number = 0

    def forward(self, is_train, req, in_data, out_data, aux):
        self.assign(out_data[0], req[0], in_data[0])

    def backward(self, req, out_grad, in_data, out_data, in_grad, aux):
        time.sleep(self.seconds)
        self.assign(in_grad[0], req[0], out_grad[0])
        view(in_grad[1])[:] = self.number


@mxnet.operator.register("layer")
class LayerProperties(mxnet.operator.CustomOpProp):
    def list_arguments(self):
        return ["data", "weight"]

    def infer_shape(self, in_shape):
        return in_shape, [in_shape[0]], []

    def create_operator(self, ctx, shapes, dtypes):
        return Layer()


class Steps:
    """Training of one size, in one of the ways."""

    def __init__(self, meeting, size, way):
        self.meeting, self.way, self.expected = meeting, way, 0
        count = size // 4 // LAYERS
        self.layers = [mxnet.gluon.Parameter(f"{way} {size} {i}", shape=(count,)) for i in range(LAYERS)]
        for each in self.layers:
            each.initialize(mxnet.init.Zero())
        self.trainer = mxnet.gluon.Trainer({each.name: each for each in self.layers}, "sgd", {"learning_rate": 1},
                                           kvstore="dist_sync_mpi")
        self.input = mxnet.nd.ones(1)

    def fill(self, turn):
        Layer.number = self.meeting.rank + 1
        mxnet.nd.waitall()

    def barrier(self):
        self.meeting.barrier()

    def backward(self):
        self.input.attach_grad()
        with mxnet.autograd.record():
            result = self.input
            for each in self.layers:
                result = mxnet.nd.Custom(result, each.data(), op_type="layer")
        result.backward()

    def exchange(self):
        self.backward()
        if self.way != "overlapped":
            mxnet.nd.waitall()
        self.trainer.step(1)
        mxnet.nd.waitall()

    def wrong(self, turn):
        ranks = self.meeting.num_workers
        self.expected -= ranks * (ranks + 1) // 2
        return sum(int((each.data() != self.expected).sum().asscalar()) for each in self.layers)

    def largest(self, values):
        return numpy.max(self.meeting.allgather_object(values), axis=0).tolist()


def seconds_of_exchange(meeting, size):
    """The median of a few steps whose backward pass takes no time."""
    Layer.seconds = 0
    steps, times = Steps(meeting, size, "one after the other"), []
    for turn in range(8):
        steps.fill(turn)
        steps.backward()
        mxnet.nd.waitall()
        meeting.barrier()
        begin = time.perf_counter()
        steps.trainer.step(1)
        mxnet.nd.waitall()
        times.append(time.perf_counter() - begin)
    return steps.largest([numpy.median(times[3:])])[0]


def measure(given):
    rows = []
    with tutti.create("dist_sync_mpi") as meeting:
        for size in given.bytes:
            seconds = seconds_of_exchange(meeting, size)
            for way in WAYS:
                Layer.seconds = seconds / LAYERS
                race = racing.Race(Steps(meeting, size, way), given.rest)
                times = race.run(given)
                who = {"impl": way, "version": f"mxnet {mxnet.__version__}", "backward_us": seconds * 1e6}
                rows.append(racing.row(who, size, meeting.num_workers, times,
                                       sum(meeting.allgather_object(race.wrong))))
    return racing.finish(rows, given.json)


if __name__ == "__main__":
    sys.exit(measure(racing.parser(__doc__).parse_args()))
