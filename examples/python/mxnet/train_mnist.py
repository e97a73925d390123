#!/usr/bin/env python3
"""Trains a network on handwritten digits with MXNet's Module.

    python3 train_mnist.py --network lenet
    mpirun -n 4 python3 -m tutti train_mnist.py --network lenet --kv-store dist_sync_mpi

Each worker trains on its share of the images; n workers of batch b learn what one of batch n*b learns.
"""
import mxnet as mx
import numpy as np

import common


def mlp(data):
    hidden = mx.sym.Activation(mx.sym.FullyConnected(mx.sym.flatten(data), num_hidden=128, name="fc1"), "relu")
    hidden = mx.sym.Activation(mx.sym.FullyConnected(hidden, num_hidden=64, name="fc2"), "relu")
    return mx.sym.FullyConnected(hidden, num_hidden=10, name="fc3")


def lenet(data):
    """LeCun's network; with padding, so that it takes images of 8 x 8 as well as of 28 x 28."""
    for number, filters in ((1, 20), (2, 50)):
        data = mx.sym.Convolution(data, kernel=(5, 5), pad=(2, 2), num_filter=filters, name=f"conv{number}")
        data = mx.sym.Pooling(mx.sym.Activation(data, "tanh"), pool_type="max", kernel=(2, 2), stride=(2, 2))
    hidden = mx.sym.Activation(mx.sym.FullyConnected(mx.sym.flatten(data), num_hidden=500, name="fc1"), "tanh")
    return mx.sym.FullyConnected(hidden, num_hidden=10, name="fc2")


NETWORKS = {"mlp": mlp, "lenet": lenet}
DATASETS = ("digits", "mnist")


def train(args):
    *training, test_images, test_labels = common.load(args)
    kv = mx.kv.create(args.kv_store)
    mx.random.seed(args.seed + kv.rank)  # the first weights: those of worker 0 count
    np.random.seed(args.seed + kv.rank)  # the order of the batches
    images, labels = common.part_of(training, kv.rank, kv.num_workers)
    test = mx.io.NDArrayIter(test_images, test_labels, min(len(test_labels), 1000))
    batches = mx.io.NDArrayIter(images, labels, args.batch_size, shuffle=True, last_batch_handle="discard")
    module = mx.mod.Module(mx.sym.SoftmaxOutput(NETWORKS[args.network](mx.sym.var("data")), name="softmax"),
                           context=common.contexts(args))
    accuracies = common.Accuracies()
    progress = common.Progress("training", args.epochs * (len(labels) // args.batch_size), kv.rank)
    module.fit(batches, eval_data=test,
               eval_end_callback=lambda ended: accuracies.add(ended.eval_metric.get()[1]),
               batch_end_callback=progress.step, kvstore=kv, optimizer="sgd",
               optimizer_params={"learning_rate": args.lr, "momentum": 0.9}, initializer=mx.init.Xavier(),
               num_epoch=args.epochs)
    weights, _ = module.get_params()
    common.say_weights(kv.rank, kv.num_workers, [weights[name] for name in sorted(weights)])
    if args.plot and kv.rank == 0:
        accuracies.draw(f"{args.dataset}, {args.network}, {kv.num_workers} workers, {kv.type}", args.plot)


def main():
    parser = common.options(__doc__, kv_store="local", network="mlp", epochs=10, batch_size=16, lr=0.05,
                            dataset="digits")
    train(common.parse(parser, NETWORKS, DATASETS))


if __name__ == "__main__":
    main()
