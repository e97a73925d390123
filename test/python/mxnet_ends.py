"""MXNet programs in which rank 1 fails in the middle of the training. The other ranks print what they see of that.

    scripts/launch.py --mode mpi --launcher local -n N python mxnet_ends.py PLACE [HOW]
"""
import gc
import os
import re
import signal
import sys
import time

import mxnet as mx
from mxnet import autograd, gluon

import tutti
import tutti.mxnet

began = 0.0  # of the wait in which the others learn of it
#: The keys that the others may have in flight then.
KEYS = {"train": {"'0 of Trainer 1'", "'1 of Trainer 1'"}, "train_a_pair": {"'0 of Trainer 2'", "'1 of Trainer 2'"},
        "fit_a_module": {"'fc_weight of Module 1'", "'fc_bias of Module 1'"},
        "with_a_call_in_flight": {"'weight'"}}


class Slow(mx.operator.CustomOp):
    def forward(self, is_train, req, in_data, out_data, aux):
        time.sleep(0.5)
        self.assign(out_data[0], req[0], in_data[0])


@mx.operator.register("slow")
class SlowProperties(mx.operator.CustomOpProp):
    def create_operator(self, ctx, shapes, dtypes):
        return Slow()


def ends_while_python_computes(_):
    kv = mx.kv.create("dist_sync_mpi")
    kv.pushpull("weight", mx.nd.Custom(mx.nd.ones(3), op_type="slow"))
    print("done", flush=True)


def fail(how):
    """Fails when the other ranks wait. A rank that learns of a loss earlier has no key in flight that it could name."""
    time.sleep(1)
    if how == "raises":
        raise ValueError("what went wrong")
    if how == "exits":
        sys.exit(3)
    if how == "raises_system_exit":
        raise SystemExit(3)
    os.kill(os.getpid(), {"killed": signal.SIGKILL, "interrupted": signal.SIGINT}[how])
    time.sleep(60)


def train(how, count=1):
    """Rank 1 fails; the others learn of it in the next step of the last network."""
    global began  # pylint: disable=global-statement
    nets = [gluon.nn.Dense(4, in_units=3) for _ in range(count)]
    for net in nets:
        net.initialize()
    kv = mx.kv.create("dist_sync_mpi") if count > 1 else "dist_sync_mpi"
    trainers = [gluon.Trainer(net.collect_params(), "sgd", kvstore=kv) for net in nets]
    for step in range(10):
        for net, trainer in zip(nets, trainers):
            with autograd.record():
                loss = net(mx.nd.ones((2, 3))).sum()
            loss.backward()
            began = time.monotonic()
            if trainer._kvstore and trainer._kvstore.rank == 1 and step == 5 and trainer is trainers[-1]:
                fail(how)
            trainer.step(2)
            for weight in net.collect_params().values():
                weight.data().wait_to_read()


def train_a_pair(how):
    """Trains two networks that share a store and have equal keys."""
    train(how, 2)


def fit_a_module(how):
    """Rank 1 fails; the others learn of it in the next batch of Module.fit."""
    kv = mx.kv.create("dist_sync_mpi")

    def batch_ended(done):
        global began  # pylint: disable=global-statement
        began = time.monotonic()
        if kv.rank == 1 and done.nbatch == 5:
            fail(how)

    layer = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=4, name="fc")
    batches = mx.io.NDArrayIter(mx.nd.ones((40, 3)), mx.nd.zeros(40), 2)
    mx.mod.Module(mx.sym.SoftmaxOutput(layer, name="softmax")).fit(batches, num_epoch=1, kvstore=kv,
                                                                   batch_end_callback=batch_ended)


def with_a_call_in_flight(how):
    """Rank 1 fails with a call in flight that the others never make. They wait for another call."""
    global began  # pylint: disable=global-statement
    kv = mx.kv.create("dist_sync_mpi")
    began = time.monotonic()
    if kv.rank == 1:
        kv.pushpull("mine", mx.nd.ones(3))
        fail(how)
    array = mx.nd.ones(3)
    kv.pushpull("weight", array)
    array.wait_to_read()


class SlowToEnd:
    def __del__(self):
        time.sleep(1)


def raises_while_it_computes(_how):
    """Each rank computes convolutions for seconds, and the engine runs several of them as one. The first one begins,
    and makes static objects, while Python ends.
    """
    mx.kv.create("dist_sync_mpi")
    sys.slow_to_end = SlowToEnd()
    net = gluon.nn.HybridSequential()
    net.add(*(gluon.nn.Conv2D(16, 3, padding=1, in_channels=16) for _ in range(15)))
    net.initialize()
    net.hybridize(static_alloc=True)
    big = mx.nd.ones((1500, 1500))
    data = mx.nd.ones((8, 16, 96, 96)) + mx.nd.dot(big, big)[0, 0]
    results = []
    for _ in range(10):
        with autograd.record():
            results.append(net(data))
    fail("raises")


def ends_without_a_wait(_how):
    """Ends while the engine still has to exchange arrays for which the other ranks wait."""
    kv = mx.kv.create("dist_sync_mpi")
    big = mx.nd.ones((1000, 1000))
    for _ in range(20):
        big = mx.nd.dot(big, big) / 1000
    for i in range(10):
        kv.pushpull(i, big[i] * (kv.rank + 1))
    print("done", flush=True)


def drops_a_store_on_one_rank(_how):
    """One rank drops its store after a call that the other ranks have not made yet."""
    kept, dropped = (mx.kv.create("dist_sync_mpi") for _ in range(2))
    array = mx.nd.ones(3)
    first = kept.rank == 1
    if not first:
        kept.barrier()
    dropped.pushpull("weight", array)
    del dropped
    gc.collect()
    if first:
        kept.barrier()
    print(f"sum {array.asnumpy()[0]:g}", flush=True)


def exits_before_the_others_come(_how):
    """Rank 1 exits with status 0 although the others need its calls."""
    kv = mx.kv.create("dist_sync_mpi")
    kv.barrier()
    if kv.rank != 1:
        time.sleep(1)
    arrays = [mx.nd.ones(3) * (kv.rank + 1) for _ in range(5)]
    for i, array in enumerate(arrays):
        kv.pushpull(i, array)
    print("done", *([] if kv.rank == 1 else [array.asnumpy()[0] for array in arrays]), flush=True)
    sys.exit(0)


def fails_in_its_last_call(how):
    """The ranks disagree in their last call; those that notice it handle the error."""
    kv = mx.kv.create("dist_sync_mpi")
    array = mx.nd.ones(3 + (kv.rank == 0))
    kv.pushpull("weight", array)
    if how == "notices":
        try:
            array.wait_to_read()
        except tutti.MismatchError:
            print("handled", flush=True)


def forks(_how):
    """Forks a child that ends by itself while its parent trains."""
    kv = mx.kv.create("dist_sync_mpi")
    for i in range(3):
        array = mx.nd.ones(3) * (kv.rank + 1)
        kv.pushpull(i, array)
        child = os.fork()  # MXNet waits here until its engine has nothing to do
        if child == 0:
            sys.exit(int((mx.nd.ones(2) + 1).asnumpy().sum()))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
    print("done", array.asnumpy()[0], flush=True)


def waits_for_ever(_how):
    """Waits in MXNet's engine until somebody presses Ctrl-C."""
    kv = mx.kv.create("dist_sync_mpi")
    array = mx.nd.ones(3)
    kv.pushpull(f"only rank {kv.rank} has it", array)
    os.write(1, f"{os.getpid()}\n".encode())  # whole, where print without a buffer writes the line's end by itself
    array.wait_to_read()


def counts_the_dead(how):
    """Counts the dead nodes in a job of asynchronous workers, which go on."""
    kv = mx.kv.create("dist_async")
    kv.set_optimizer(mx.optimizer.SGD(learning_rate=1.0))
    value = mx.nd.zeros(3)
    kv.broadcast("weight", value, out=value)
    value.wait_to_read()
    if kv.rank == 1:
        fail(how)
    end = time.monotonic() + 20
    while kv.num_dead_node() == 0 and time.monotonic() < end:
        time.sleep(0.01)
    kv.push("weight", mx.nd.ones(3))
    kv.pull("weight", out=value)
    value.wait_to_read()
    kv.barrier()
    kv.pull("weight", out=value)
    print(f"dead: {kv.num_dead_node()}, value {value.asnumpy()[0]:g}", flush=True)


def main(place, how=None):
    try:
        globals()[place](how)
    except tutti.PeerLostError as error:
        in_time = "in time" if time.monotonic() - began < 5 else "late"
        found = re.fullmatch(r".*; in flight on rank \d: ('[^']*'(?:, '[^']*')*)", str(error))
        named = found and set(found[1].split(", ")) <= KEYS[place]
        print(type(error).__name__, error.ranks, f"{in_time}, of", "a weight" if named else error, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
