#!/usr/bin/env python3
"""Trains ResNet-18 or VGG with Gluon, on images that are split over workers and over the devices of each.

    mpirun -n 2 python3 cifar10_dist.py --kv-store dist_sync_mpi --data-dir DIR

Any type of store will do. If neither the script's folder nor --data-dir has the files of CIFAR-10, the script trains on
the digits of examples/data. If you copy the script to other hosts, copy one of the two data sets to its folder, too.
"""
import random
import sys
import time

import mxnet as mx
from mxnet import autograd, gluon
import numpy as np

import common
from tutti.mxnet import SplitSampler, split_and_load

NETWORKS = ("resnet18", "vgg11", "vgg16")
DATASETS = ("cifar10", "digits")
CLASSES = 10


def to_color(images):
    """Returns the images as n x 3 x 32 x 32, the form that the network takes."""
    return images if images.shape[1] == 3 else images.repeat(3, axis=1).repeat(4, axis=2).repeat(4, axis=3)


def loader(args, images, labels, sampler=None):
    dataset = gluon.data.ArrayDataset(to_color(images), labels)
    return gluon.data.DataLoader(dataset, args.batch_size, sampler=sampler, last_batch="discard" if sampler else "keep")


def accuracy(net, batches, devices):
    metric = mx.metric.Accuracy()
    for images, labels in batches:
        for data, label in zip(*(gluon.utils.split_and_load(part, devices, even_split=False)
                                 for part in (images, labels))):
            metric.update([label], [net(data)])
    return metric.get()[1]


def train_epoch(args, epoch, net, trainer, batches, devices):
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    after_batch = common.after_batch(args, f"Epoch {epoch}", len(batches), args.rank)
    for number, (images, labels) in enumerate(batches):
        data, label = (split_and_load(part, devices, args.work_load_list) for part in (images, labels))
        with autograd.record():
            losses = [loss(net(x), y) for x, y in zip(data, label)]
        for each in losses:
            each.backward()
        trainer.step(args.batch_size * args.workers)
        after_batch(mx.model.BatchEndParam(epoch, number, None, None))


def all_batches(args, loaded):
    """Returns this worker's batches for training, and the batches of the test."""
    if args.benchmark:
        return [common.random_batch(args, common.SHAPES["cifar10"], CLASSES)] * args.steps, None
    images, labels, test_images, test_labels = loaded
    sampler = SplitSampler(min(len(labels), args.images or len(labels)), args.workers, args.rank)
    if len(sampler) < args.batch_size:
        sys.exit(f"--batch-size {args.batch_size}: each worker's share has {len(sampler)} images alone")
    return loader(args, images, labels, sampler), loader(args, test_images, test_labels)


def network(args, devices):
    name = args.network + "_v1" if args.network.startswith("resnet") else args.network
    net = gluon.model_zoo.vision.get_model(name, classes=CLASSES)
    net.initialize(mx.init.Xavier(), ctx=devices)
    net.hybridize()
    return net


def train(args):
    loaded = None if args.benchmark else common.load(args)
    store = mx.kv.create(args.kv_store)
    common.say_data(args, store.rank)
    args.rank, args.workers = store.rank, store.num_workers
    print(f"Total number of workers: {args.workers}\nThis worker's rank: {args.rank}", flush=True)
    for seed in (random.seed, np.random.seed, mx.random.seed):
        seed(args.seed + args.rank)
    batches, test = all_batches(args, loaded)
    devices = common.contexts(args)
    net = network(args, devices)
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": args.lr}, kvstore=store)
    accuracies = common.Accuracies()
    for epoch in range(args.epochs):
        begin = time.time()
        train_epoch(args, epoch, net, trainer, batches, devices)
        print(f"Epoch {epoch}: {len(batches) * args.batch_size / (time.time() - begin):.1f} samples/s", flush=True)
        if test:
            accuracies.add(accuracy(net, test, devices))
    weights = net.collect_params()
    common.say_weights(args.rank, args.workers, [weights[name].data(devices[0]) for name in sorted(weights)
                                                 if weights[name].grad_req != "null"])
    if args.plot and args.rank == 0:
        accuracies.draw(f"{args.dataset}, {args.network}, {args.workers} workers, {store.type}", args.plot)


def main():
    parser = common.options(__doc__, kv_store="dist", network="resnet18", epochs=10, batch_size=64, lr=0.001)
    parser.add_argument("--work-load-list", type=lambda text: [int(word) for word in text.split(",")], metavar="LIST",
                        help="the share of a batch that each device takes, such as 1,2 (default: equal shares)")
    parser.add_argument("--images", type=int, metavar="N", help="trains only on the first N images")
    train(common.parse(parser, NETWORKS, DATASETS))


if __name__ == "__main__":
    main()
