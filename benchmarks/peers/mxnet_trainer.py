#!/usr/bin/env python3
"""Times Trainer.step of MXNet's Gluon with gradients in the proportions of VGG-16's; checks and rows are
allreduce_bench's, `bytes` those of all gradients.

    mpirun -n 4 mxnet_trainer.py --store dist_sync_mpi --bytes 32000000 --json rows.json
    served.py --workers 4 --servers 4 --role 'python -c "import mxnet"' \\
        mpirun -n 4 mxnet_trainer.py --store dist_sync --bytes 32000000 --json rows.json

dist_sync is MXNet's own, whose servers update the weights. The ranks meet, and tell their times, in a store of
tutti's in both cases.
"""
import gc
import sys

import numpy

import racing
from resnet50 import in_proportion
from vgg16 import vgg16

RATE = 0.5


class Steps:
    """Training of one size, whose gradients are given."""

    def __init__(self, mxnet, meeting, store, size):
        self.mxnet, self.meeting, self.expected = mxnet, meeting, 0
        counts = in_proportion(size // 4, vgg16())
        self.parameters = [mxnet.gluon.Parameter(f"{size} {i}", shape=(count,)) for i, count in enumerate(counts)]
        for each in self.parameters:
            each.initialize(mxnet.init.Zero())
        self.trainer = mxnet.gluon.Trainer({each.name: each for each in self.parameters}, "sgd",
                                           {"learning_rate": RATE}, kvstore=store)

    def gradient(self, rank, turn):
        return rank + 1 + turn % 3

    def fill(self, turn):
        for each in self.parameters:
            each.grad()[:] = self.gradient(self.meeting.rank, turn)
            each.data()._fresh_grad = True  # backward would leave it so, too
        self.mxnet.nd.waitall()

    def barrier(self):
        self.meeting.barrier()

    def exchange(self):
        self.trainer.step(1)
        self.mxnet.nd.waitall()

    def wrong(self, turn):
        self.expected -= RATE * sum(self.gradient(rank, turn) for rank in range(self.meeting.num_workers))
        return sum(int((each.data() != self.expected).sum().asscalar()) for each in self.parameters)

    def largest(self, values):
        return numpy.max(self.meeting.allgather_object(values), axis=0).tolist()


def measure(given):
    import mxnet
    import tutti
    if given.store == "dist_sync_mpi":
        import tutti.mxnet  # pylint: disable=unused-import
    rows = []
    with tutti.create("dist_sync_mpi") as meeting:
        for size in given.bytes:
            race = racing.Race(Steps(mxnet, meeting, mxnet.kv.create(given.store), size), given.rest)
            times = race.run(given)
            who = {"impl": given.store, "version": f"mxnet {mxnet.__version__}"}
            rows.append(racing.row(who, size, meeting.num_workers, times, sum(meeting.allgather_object(race.wrong))))
    return racing.finish(rows, given.json)


def main():
    options = racing.parser(__doc__)
    options.add_argument("--store", choices=("dist_sync_mpi", "dist_sync"), required=True)
    given = options.parse_args()
    if given.store == "dist_sync" and len(given.bytes) > 1:
        options.error("--bytes: one size with dist_sync, for MXNet's hangs when it is created a second time")
    status = measure(given)
    gc.collect()  # a Trainer and its parameters refer to each other, and the servers end when their stores have
    return status


if __name__ == "__main__":
    sys.exit(main())
