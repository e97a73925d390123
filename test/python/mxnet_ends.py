"""MXNet programs in which rank 1 fails in the middle of the training; the others say what they see of it.

    scripts/launch.py --launcher local -n N python mxnet_ends.py PLACE [HOW]
"""
import os
import re
import signal
import sys
import time

import mxnet as mx
from mxnet import autograd, gluon

import tutti
import tutti.mxnet


def fail(how):
    if how == "raises":
        raise ValueError("what went wrong")
    if how == "exits":
        sys.exit(3)
    if how == "raises_system_exit":
        raise SystemExit(3)
    os.kill(os.getpid(), {"killed": signal.SIGKILL, "interrupted": signal.SIGINT}[how])
    time.sleep(60)


def train(how):
    net = gluon.nn.Dense(4, in_units=3)
    net.initialize()
    trainer = gluon.Trainer(net.collect_params(), "sgd", kvstore="dist_sync_mpi")
    for step in range(10):
        with autograd.record():
            loss = net(mx.nd.ones((2, 3))).sum()
        loss.backward()
        if trainer._kvstore and trainer._kvstore.rank == 1 and step == 5:
            fail(how)
        trainer.step(2)
        net.weight.data().wait_to_read()


def with_a_call_in_flight(how):
    """Which the others never make: they wait for another one."""
    kv = mx.kv.create("dist_sync_mpi")
    if kv.rank == 1:
        kv.pushpull("mine", mx.nd.ones(3))
        fail(how)
    array = mx.nd.ones(3)
    kv.pushpull("weight", array)
    array.wait_to_read()


def ends_without_a_wait(_how):
    """While the engine still has to exchange what the other ranks count on."""
    kv = mx.kv.create("dist_sync_mpi")
    big = mx.nd.ones((1000, 1000))
    for _ in range(20):
        big = mx.nd.dot(big, big) / 1000
    for i in range(10):
        kv.pushpull(i, big[i] * (kv.rank + 1))
    print("done", flush=True)


def exits_in_order_with_calls_in_flight(_how):
    """In a forked child too, which has no part in them."""
    kv = mx.kv.create("dist_sync_mpi")
    array = mx.nd.ones(3) * (kv.rank + 1)
    if kv.rank != 1:
        kv.barrier()
    kv.pushpull("last", array)
    if kv.rank == 1:
        child = os.fork()
        if child:
            assert os.waitpid(child, 0)[1] == 0
            kv.barrier()
            print("done", flush=True)
        sys.exit(0)
    array.wait_to_read()
    print("done", array.asnumpy()[0], flush=True)


def main(place, how=None):
    begin = time.monotonic()
    try:
        globals()[place](how)
    except tutti.PeerLostError as error:
        in_time = "in time" if time.monotonic() - begin < 10 else "late"
        named = re.search(r"in flight on rank \d: (0|1|'weight')", str(error))
        print(type(error).__name__, error.ranks, f"{in_time}, of", "a weight" if named else error, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
