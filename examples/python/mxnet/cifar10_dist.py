#!/usr/bin/env python3
"""Trains ResNet-18 or VGG with Gluon, on images that are split over workers and over the devices of each.

    mpirun -n 2 python3 cifar10_dist.py --kv-store dist_sync_mpi --dataset cifar10 --data-dir DIR

With any type of store; without a data set's files it learns the digits that come with tutti.
"""
import random
import time

import mxnet as mx
from mxnet import autograd, gluon
import numpy as np

import common
from tutti.mxnet import SplitSampler, split_and_load

NETWORKS = ("resnet18", "vgg11", "vgg16")
DATASETS = ("digits", "cifar10")
CLASSES = 10


def to_color(images):
    """As n x 3 x 32 x 32, which the network takes."""
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


def train_epoch(args, net, trainer, batches, devices, progress):
    loss = gluon.loss.SoftmaxCrossEntropyLoss()
    for images, labels in batches:
        data, label = (split_and_load(part, devices, args.work_load_list) for part in (images, labels))
        with autograd.record():
            losses = [loss(net(x), y) for x, y in zip(data, label)]
        for each in losses:
            each.backward()
        trainer.step(args.batch_size * args.workers)
        progress.step()


def train(args):
    images, labels, test_images, test_labels = common.load(args)
    store = mx.kv.create(args.kv_store)
    args.workers = store.num_workers
    print(f"Total number of workers: {store.num_workers}\nThis worker's rank: {store.rank}", flush=True)
    for seed in (random.seed, np.random.seed, mx.random.seed):
        seed(args.seed + store.rank)
    sampler = SplitSampler(min(len(labels), args.images or len(labels)), store.num_workers, store.rank)
    batches, test = loader(args, images, labels, sampler), loader(args, test_images, test_labels)
    devices = common.contexts(args)
    name = args.network + "_v1" if args.network.startswith("resnet") else args.network
    net = gluon.model_zoo.vision.get_model(name, classes=CLASSES)
    net.initialize(mx.init.Xavier(), ctx=devices)
    net.hybridize()
    trainer = gluon.Trainer(net.collect_params(), "adam", {"learning_rate": args.lr}, kvstore=store)
    accuracies = common.Accuracies()
    for epoch in range(args.epochs):
        begin = time.time()
        progress = common.Progress(f"Epoch {epoch}", len(batches), store.rank)
        train_epoch(args, net, trainer, batches, devices, progress)
        print(f"Epoch {epoch}: {len(sampler) / (time.time() - begin):.1f} samples/s", flush=True)
        accuracies.add(accuracy(net, test, devices))
    weights = net.collect_params()
    common.say_weights(store.rank, store.num_workers, [weights[name].data(devices[0]) for name in sorted(weights)
                                                       if weights[name].grad_req != "null"])
    if args.plot and store.rank == 0:
        accuracies.draw(f"{args.dataset}, {args.network}, {store.num_workers} workers, {store.type}", args.plot)


def main():
    parser = common.options(__doc__, kv_store="dist", network="resnet18", epochs=10, batch_size=64, lr=0.001,
                            dataset="digits")
    parser.add_argument("--work-load-list", type=lambda text: [int(word) for word in text.split(",")], metavar="LIST",
                        help="how much of a batch each device takes, such as 1,2; equal shares")
    parser.add_argument("--images", type=int, metavar="N", help="trains on the first N images alone")
    train(common.parse(parser, NETWORKS, DATASETS))


if __name__ == "__main__":
    main()
