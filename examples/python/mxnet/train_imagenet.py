#!/usr/bin/env python3
"""Trains a network for large images with MXNet's Module, or measures how fast it would.

    mpirun -n 4 python3 -m tutti train_imagenet.py --benchmark 1 --network vgg16 --kv-store dist_sync_mpi

Without --benchmark it reads train.rec and val.rec, files of MXNet's im2rec, from --data-dir.
"""
import time

import mxnet as mx
from mxnet.gluon.model_zoo import vision
import numpy as np

import common

NETWORKS = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "vgg11", "vgg13", "vgg16", "vgg19")
DATASETS = ("none", "imagenet")


def network(args):
    name = args.network + "_v1" if args.network.startswith("resnet") else args.network
    scores = vision.get_model(name, classes=args.num_classes)(mx.sym.var("data"))
    return mx.sym.SoftmaxOutput(scores, name="softmax")


class Random(mx.io.DataIter):
    """The same batch again and again: what is measured is not the reading."""

    def __init__(self, args):
        super().__init__(args.batch_size)
        shape = (args.batch_size, *args.image_shape)
        self.provide_data = [mx.io.DataDesc("data", shape)]
        self.provide_label = [mx.io.DataDesc("softmax_label", shape[:1])]
        labels = np.random.randint(0, args.num_classes, shape[:1])
        self.batch = mx.io.DataBatch([mx.nd.random.uniform(-1, 1, shape)], [mx.nd.array(labels)], pad=0,
                                     provide_data=self.provide_data, provide_label=self.provide_label)
        self.left = self.steps = args.steps

    def next(self):
        if self.left == 0:
            raise StopIteration
        self.left -= 1
        return self.batch

    def reset(self):
        self.left = self.steps


class Speed:
    """Says after every few batches how many samples a second this worker has processed."""

    def __init__(self, args, rank):
        self.args, self.rank, self.begin = args, rank, None

    def __call__(self, at):
        mx.nd.waitall()  # what is under way belongs to these batches
        now = time.time()
        if self.begin is None:
            self.begin = now, at.nbatch
        elif at.nbatch > self.begin[1] and (at.nbatch - self.begin[1]) % self.args.disp_batches == 0:
            speed = (at.nbatch - self.begin[1]) * self.args.batch_size / (now - self.begin[0])
            print(f"Worker {self.rank}: Epoch {at.epoch} Batch {at.nbatch}: {speed:.2f} samples/s", flush=True)
            self.begin = now, at.nbatch


def records(args, file, rank=0, parts=1):
    return mx.io.ImageRecordIter(path_imgrec=str(args.data_dir / file), data_shape=args.image_shape,
                                 batch_size=args.batch_size, shuffle=parts > 1, part_index=rank, num_parts=parts,
                                 resize=max(args.image_shape), round_batch=True)


def train(args):
    kv = mx.kv.create(args.kv_store)
    mx.random.seed(args.seed + kv.rank)
    np.random.seed(args.seed + kv.rank)
    training = Random(args) if args.benchmark else records(args, "train.rec", kv.rank, kv.num_workers)
    accuracies = common.Accuracies()
    module = mx.mod.Module(network(args), context=common.contexts(args))
    module.fit(training, eval_data=None if args.benchmark else records(args, "val.rec"), kvstore=kv,
               eval_end_callback=lambda ended: accuracies.add(ended.eval_metric.get()[1]),
               batch_end_callback=Speed(args, kv.rank), optimizer="sgd",
               optimizer_params={"learning_rate": args.lr, "momentum": 0.9, "wd": 1e-4},
               initializer=mx.init.Xavier(magnitude=2), num_epoch=args.epochs)
    weights, _ = module.get_params()
    common.say_weights(kv.rank, kv.num_workers, [weights[name] for name in sorted(weights)])
    if args.plot and kv.rank == 0:
        accuracies.draw(f"{args.network}, {kv.num_workers} workers, {kv.type}", args.plot)


def main():
    parser = common.options(__doc__, kv_store="device", network="resnet50", epochs=1, batch_size=32, lr=0.05,
                            dataset="none")
    parser.add_argument("--benchmark", type=int, choices=(0, 1), default=0, help="1: no data, prints samples/s")
    parser.add_argument("--image-shape", type=lambda text: tuple(int(word) for word in text.split(",")),
                        default=(3, 224, 224), metavar="C,H,W", help="(3,224,224)")
    parser.add_argument("--num-classes", type=int, default=1000, metavar="N", help="(%(default)s)")
    parser.add_argument("--steps", type=int, default=50, metavar="N", help="batches of an epoch of the benchmark")
    parser.add_argument("--disp-batches", type=int, default=5, metavar="N", help="speed every N batches")
    args = common.parse(parser, NETWORKS, DATASETS)
    if not args.benchmark and args.data_dir is None:
        parser.error("without --benchmark 1 it needs --data-dir, the folder of train.rec and val.rec")
    train(args)


if __name__ == "__main__":
    main()
