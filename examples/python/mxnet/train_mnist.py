#!/usr/bin/env python3
"""Trains a network on handwritten digits with MXNet's Module.

    python3 train_mnist.py --network lenet
    mpirun -n 4 python3 -m tutti train_mnist.py --network lenet --kv-store dist_sync_mpi

Each worker trains on its share of the images: n workers with batches of b learn the same as one worker with batches of
n*b. If neither the script's folder nor --data-dir has the files of MNIST, the script trains on the digits of
examples/data. If you copy the script to other hosts, copy one of the two data sets to its folder, too.
"""
import mxnet as mx
import numpy as np

import common


def mlp(data):
    hidden = mx.sym.Activation(mx.sym.FullyConnected(mx.sym.flatten(data), num_hidden=128, name="fc1"), "relu")
    hidden = mx.sym.Activation(mx.sym.FullyConnected(hidden, num_hidden=64, name="fc2"), "relu")
    return mx.sym.FullyConnected(hidden, num_hidden=10, name="fc3")


def lenet(data):
    """LeCun's network. It has padding, so that it takes images of 8 x 8 as well as of 28 x 28."""
    for number, filters in ((1, 20), (2, 50)):
        data = mx.sym.Convolution(data, kernel=(5, 5), pad=(2, 2), num_filter=filters, name=f"conv{number}")
        data = mx.sym.Pooling(mx.sym.Activation(data, "tanh"), pool_type="max", kernel=(2, 2), stride=(2, 2))
    hidden = mx.sym.Activation(mx.sym.FullyConnected(mx.sym.flatten(data), num_hidden=500, name="fc1"), "tanh")
    return mx.sym.FullyConnected(hidden, num_hidden=10, name="fc2")


NETWORKS = {"mlp": mlp, "lenet": lenet}
DATASETS = ("mnist", "digits")
CLASSES = 10


def iterators(args, loaded, rank, workers):
    """Returns this worker's batches, their number, and the images of the test."""
    if args.benchmark:
        return common.Random(args, common.SHAPES[args.dataset], CLASSES), args.steps, None
    *training, test_images, test_labels = loaded
    images, labels = common.part_of(training, rank, workers)
    return (mx.io.NDArrayIter(images, labels, args.batch_size, shuffle=True, last_batch_handle="discard"),
            len(labels) // args.batch_size, mx.io.NDArrayIter(test_images, test_labels, min(len(test_labels), 1000)))


def train(args):
    loaded = None if args.benchmark else common.load(args)
    kv = mx.kv.create(args.kv_store)
    common.say_data(args, kv.rank)
    mx.random.seed(args.seed + kv.rank)  # for the first weights; those of worker 0 count
    np.random.seed(args.seed + kv.rank)  # for the order of the batches
    batches, count, test = iterators(args, loaded, kv.rank, kv.num_workers)
    module = mx.mod.Module(mx.sym.SoftmaxOutput(NETWORKS[args.network](mx.sym.var("data")), name="softmax"),
                           context=common.contexts(args))
    accuracies = common.Accuracies()
    module.fit(batches, eval_data=test,
               eval_end_callback=lambda ended: accuracies.add(ended.eval_metric.get()[1]),
               batch_end_callback=common.after_batch(args, "training", args.epochs * count, kv.rank), kvstore=kv,
               optimizer="sgd", optimizer_params={"learning_rate": args.lr, "momentum": 0.9},
               initializer=mx.init.Xavier(), num_epoch=args.epochs)
    weights, _ = module.get_params()
    common.say_weights(kv.rank, kv.num_workers, [weights[name] for name in sorted(weights)])
    if args.plot and kv.rank == 0:
        accuracies.draw(f"{args.dataset}, {args.network}, {kv.num_workers} workers, {kv.type}", args.plot)


def main():
    # Training is stable at this rate with every type of store. dist_async applies gradients of older weights, so it is
    # not stable at a much larger rate.
    parser = common.options(__doc__, kv_store="local", network="mlp", epochs=10, batch_size=16, lr=0.01)
    train(common.parse(parser, NETWORKS, DATASETS))


if __name__ == "__main__":
    main()
