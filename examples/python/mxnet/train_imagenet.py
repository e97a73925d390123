#!/usr/bin/env python3
"""Trains a network for large images with MXNet's Module, or measures how fast that would be.

    mpirun -n 4 python3 -m tutti train_imagenet.py --benchmark 1 --network vgg16 --kv-store dist_sync_mpi

Without --benchmark it reads train.rec and val.rec, files of MXNet's im2rec, from --data-dir; several workers also need
train.idx, which im2rec.py writes beside train.rec.
"""
import sys

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


def records(args, name, **more):
    return mx.io.ImageRecordIter(path_imgrec=str(args.data_dir / f"{name}.rec"), data_shape=args.image_shape,
                                 batch_size=args.batch_size, resize=max(args.image_shape), **more)


def training_records(args, rank, workers):
    """Returns this worker's share of train.rec, in another order each time. All workers have equally many batches."""
    index = args.data_dir / "train.idx"
    if workers == 1 and not index.exists():
        return records(args, "train", shuffle=True, seed=args.seed)
    batches = batches_of_epoch(args, index, workers)
    # Without the index MXNet cuts the file by bytes, so that one worker has more images than another.
    parted = records(args, "train", shuffle=True, seed=args.seed, path_imgidx=str(index), part_index=rank,
                     num_parts=workers)
    # A reset would begin the share anew. So the images that an epoch has left over are read in the next one.
    return mx.io.ResizeIter(parted, batches, reset_internal=False)


def batches_of_epoch(args, index, workers):
    if not index.exists():
        sys.exit(f"there is no {index}, by which {workers} workers have equal shares of train.rec: im2rec.py of MXNet "
                 "writes it, and rec2idx.py makes it of train.rec")
    images = len(index.read_text().splitlines())
    # MXNet rounds shares up. If there are fewer images than the square of the number of workers, the last worker may
    # have none.
    if images < workers * max(workers, args.batch_size):
        sys.exit(f"{images} images in {index} are too few for batches of {args.batch_size} on {workers} workers")
    return images // (workers * args.batch_size)


def accuracy(args, module):
    """The accuracy over the images of val.rec. Each counts once; images that fill up the last batch do not count."""
    metric = mx.metric.Accuracy()
    # The file is read anew each time. After a reset MXNet would leave out the images with which it filled up a batch.
    for [scores], _, batch in module.iter_predict(records(args, "val"), reset=False):
        metric.update([batch.label[0][:len(scores)]], [scores])
    return metric.get()[1]


def train(args):
    if not args.benchmark and not (args.data_dir / "val.rec").exists():
        sys.exit(f"there is no {args.data_dir / 'val.rec'}, to test with after each epoch")
    kv = mx.kv.create(args.kv_store)
    common.say_data(args, kv.rank)
    mx.random.seed(args.seed + kv.rank)
    np.random.seed(args.seed + kv.rank)
    accuracies = common.Accuracies()
    module = mx.mod.Module(network(args), context=common.contexts(args))
    training = (common.Random(args, args.image_shape, args.num_classes) if args.benchmark else
                training_records(args, kv.rank, kv.num_workers))
    module.fit(training, kvstore=kv,
               epoch_end_callback=None if args.benchmark else lambda *_: accuracies.add(accuracy(args, module)),
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
