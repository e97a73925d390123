#!/usr/bin/env python3
"""Trains a network for large images with MXNet's Module, or measures how fast it would.

    mpirun -n 4 python3 -m tutti train_imagenet.py --benchmark 1 --network vgg16 --kv-store dist_sync_mpi

Without --benchmark it reads train.rec and val.rec, files of MXNet's im2rec, from --data-dir.
"""
import mxnet as mx
from mxnet.gluon.model_zoo import vision
import numpy as np

import common

NETWORKS = ("resnet18", "resnet34", "resnet50", "resnet101", "resnet152", "vgg11", "vgg13", "vgg16", "vgg19")
DATASETS = ("imagenet",)


def network(args):
    name = args.network + "_v1" if args.network.startswith("resnet") else args.network
    scores = vision.get_model(name, classes=args.num_classes)(mx.sym.var("data"))
    return mx.sym.SoftmaxOutput(scores, name="softmax")


def records(args, file, rank=0, parts=1):
    return mx.io.ImageRecordIter(path_imgrec=str(args.data_dir / file), data_shape=args.image_shape,
                                 batch_size=args.batch_size, shuffle=parts > 1, part_index=rank, num_parts=parts,
                                 resize=max(args.image_shape), round_batch=True)


def train(args):
    kv = mx.kv.create(args.kv_store)
    mx.random.seed(args.seed + kv.rank)
    np.random.seed(args.seed + kv.rank)
    accuracies = common.Accuracies()
    module = mx.mod.Module(network(args), context=common.contexts(args))
    training, test = common.Random(args, args.image_shape, args.num_classes), None
    if not args.benchmark:
        training, test = records(args, "train.rec", kv.rank, kv.num_workers), records(args, "val.rec")
    module.fit(training, eval_data=test, kvstore=kv,
               eval_end_callback=lambda ended: accuracies.add(ended.eval_metric.get()[1]),
               batch_end_callback=common.Speed(args, kv.rank), optimizer="sgd",
               optimizer_params={"learning_rate": args.lr, "momentum": 0.9, "wd": 1e-4},
               initializer=mx.init.Xavier(magnitude=2), num_epoch=args.epochs)
    weights, _ = module.get_params()
    common.say_weights(kv.rank, kv.num_workers, [weights[name] for name in sorted(weights)])
    if args.plot and kv.rank == 0:
        accuracies.draw(f"{args.network}, {kv.num_workers} workers, {kv.type}", args.plot)


def main():
    parser = common.options(__doc__, kv_store="device", network="resnet50", epochs=1, batch_size=32, lr=0.05)
    parser.add_argument("--image-shape", type=lambda text: tuple(int(word) for word in text.split(",")),
                        default=(3, 224, 224), metavar="C,H,W", help="(3,224,224)")
    parser.add_argument("--num-classes", type=int, default=1000, metavar="N", help="(%(default)s)")
    train(common.parse(parser, NETWORKS, DATASETS))


if __name__ == "__main__":
    main()
