#!/usr/bin/env python3
"""Trains a small convolutional network on handwritten digits, in plain numpy; tutti sums the gradients of all workers.

    mpirun -n 4 python examples/python/train_digits.py --kv-store dist_sync_mpi

n workers with batches of b learn the same as one worker with batches of n*b. All end with the same weights, bit by bit.
With dist_async, servers update the weights by each worker's gradients as they come, at a smaller learning rate.
"""
import argparse
import copy
import hashlib
import importlib.util
import os
import pathlib
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # set before numpy starts threads, because workers share the cores
import numpy as np

import tutti

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
CLASSES, FILTERS, MOMENTUM = 10, 16, 0.9


def read_digits(folder):
    """Returns training images and labels, test images and labels. Images are n x 8 x 8, from 0 to 1."""
    images = np.fromfile(folder / "digits-images-idx3-ubyte", np.uint8)[16:].reshape(-1, 8, 8).astype(np.float32) / 16
    labels = np.fromfile(folder / "digits-labels-idx1-ubyte", np.uint8)[8:]
    if len(images) != len(labels):
        raise ValueError(f"there are {len(images)} images and {len(labels)} labels")
    for_test = np.arange(len(labels)) % 5 == 4
    return images[~for_test], labels[~for_test], images[for_test], labels[for_test]


def random_digits(count):
    """Returns made-up data in the same form, and no test images."""
    rng = np.random.default_rng(0)
    images = rng.random((count, 8, 8), np.float32)
    return images, rng.integers(CLASSES, size=count), images[:0], np.zeros(0, np.int64)


class Network:
    """3x3 convolution, ReLU, 2x2 maximum pooling, and a dense layer: 2,730 weights."""

    def __init__(self, rng):
        features = FILTERS * 4 * 4
        self.weights = [rng.normal(0, (2 / 9) ** 0.5, (9, FILTERS)), np.zeros(FILTERS),
                        rng.normal(0, features ** -0.5, (features, CLASSES)), np.zeros(CLASSES)]
        self.weights = [weight.astype(np.float32) for weight in self.weights]
        self.gradients = [np.zeros_like(weight) for weight in self.weights]

    def on_another_device(self):
        """Returns a network with the same weights, which CPU devices share, and with gradients of its own."""
        other = copy.copy(self)
        other.gradients = [np.zeros_like(weight) for weight in self.weights]
        return other

    def forward(self, images):
        """Returns the score of each class. Keeps the arrays that `backward` needs."""
        filters, bias, dense, dense_bias = self.weights
        padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
        self.patches = windows.reshape(len(images), 8, 8, 9)
        maps = np.maximum(self.patches @ filters + bias, 0)
        # The four pixels that are pooled into one are the last axis but one: n x 4 x 4 x 4 x filters.
        self.quads = maps.reshape(-1, 4, 2, 4, 2, FILTERS).transpose(0, 1, 3, 2, 4, 5).reshape(-1, 4, 4, 4, FILTERS)
        self.pooled = self.quads.max(axis=3)
        return self.pooled.reshape(len(images), dense.shape[0]) @ dense + dense_bias

    def backward(self, scores, labels, ready):
        """Sums the gradients of cross-entropy over the batch. Calls `ready(i)` once weight i has its gradient."""
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        chances[np.arange(len(labels)), labels] -= 1
        self.gradients[2][:] = self.pooled.reshape(len(labels), -1).T @ chances if len(labels) else 0
        self.gradients[3][:] = chances.sum(axis=0)
        ready(3)
        ready(2)
        # The gradient goes to the pixel that was the maximum, if the ReLU let it pass.
        back = (chances @ self.weights[2].T).reshape(self.pooled.shape)[:, :, :, None]
        back = back * ((self.quads == self.pooled[:, :, :, None]) & (self.quads > 0))
        back = back.reshape(-1, 4, 4, 2, 2, FILTERS).transpose(0, 1, 3, 2, 4, 5).reshape(-1, FILTERS)
        self.gradients[0][:] = self.patches.reshape(-1, 9).T @ back
        self.gradients[1][:] = back.sum(axis=0)
        ready(1)
        ready(0)


class OnGpu:
    """Arrays that lie on a GPU for the store, and on the CPU for numpy, which computes there."""

    def __init__(self, kv, gpu, arrays):
        self.there = arrays if gpu is None else [kv.allocate(array.shape, gpu=gpu) for array in arrays]
        self.here = arrays

    def send(self, i):
        """Returns the array at the place where the store takes it."""
        if self.there is not self.here:
            self.there[i].copy_from(self.here[i])
        return self.there[i]

    def fetch(self, i):
        if self.there is not self.here:
            self.there[i].copy_to(self.here[i])


def store_updates(kind):
    """Whether a store of this type updates the weights. The others add up gradients, and each worker updates."""
    return "async" in kind


def usual_rate(kind):
    """The learning rate without --lr. Smaller with dist_async, where other workers change the weights meanwhile."""
    return 0.01 if store_updates(kind) else 0.05


def update(network, i, velocities, batch, lr):
    """Updates weight i and its velocity by the gradient, which is the sum over all devices of all workers."""
    velocities[i] = MOMENTUM * velocities[i] + network.gradients[i] / len(batch)
    network.weights[i] -= lr * velocities[i]


def train_epoch(kv, networks, gradients, velocities, images, labels, batches, lr):
    """Makes one step for each batch. Every device of every worker takes its share, and all make the same step."""
    served = store_updates(kv.type)
    for batch in batches:
        share = np.array_split(batch, kv.num_workers)[kv.rank]
        sums = {}

        def exchange(i):
            for of_device in networks if served else ():
                of_device.gradients[i] /= len(batch)
            # The exchange begins while the layers before are still computed. The first layer is the most urgent.
            sums[i] = kv.pushpull(i, [of_device.send(i) for of_device in gradients], priority=-i)

        *others, last = zip(networks, np.array_split(share, len(networks)))
        for network, part in others:
            network.backward(network.forward(images[part]), labels[part], lambda i: None)
        network, part = last
        network.backward(network.forward(images[part]), labels[part], exchange)
        for i, weight in enumerate(network.weights):
            sums[i].wait()  # now gradients[i] is the sum over all devices of all workers, or the new weight
            gradients[-1].fetch(i)
            if served:
                weight[:] = network.gradients[i]  # the store has put the new weight there
            else:
                update(network, i, velocities, batch, lr)
    if served:
        kv.barrier()  # all workers have pushed everything
        kv.pull(list(range(len(network.weights))), network.weights).wait()


def train(kv, data, args):
    """Trains, prints, and returns the test accuracy after each epoch."""
    images, labels, test_images, test_labels = data
    # Each worker begins with other weights, until it gets worker 0's.
    network = Network(np.random.default_rng(args.seed + kv.rank))
    networks = [network] + [network.on_another_device() for _ in range(args.devices - 1)]
    keys = list(range(len(network.weights)))
    if store_updates(kv.type):
        kv.set_optimizer("sgd", learning_rate=args.lr, momentum=MOMENTUM)
    weights = OnGpu(kv, args.gpu, network.weights)
    kv.broadcast(keys, [weights.send(i) for i in keys], root_rank=0).wait()
    for i in keys:
        weights.fetch(i)
    gradients = [OnGpu(kv, args.gpu, network.gradients) for network in networks]
    velocities = [np.zeros_like(weight) for weight in network.weights]
    order = np.random.default_rng(args.seed)  # the same on all workers
    accuracies = []
    for epoch in range(args.epochs):
        step = args.batch_size * kv.num_workers
        shuffled = order.permutation(len(labels))
        batches = [shuffled[i:i + step] for i in range(0, len(labels), step)]
        begin = time.perf_counter()
        train_epoch(kv, networks, gradients, velocities, images, labels, batches, args.lr)
        if args.benchmark:
            speed = len(labels) / kv.num_workers / (time.perf_counter() - begin)
            print(f"Worker {kv.rank}: Epoch {epoch}: {speed:.2f} samples/s", flush=True)
            continue
        accuracies.append(np.mean(network.forward(test_images).argmax(axis=1) == test_labels))
        if kv.rank == 0:
            print(f"Epoch {epoch}: Test_acc {accuracies[-1]:.6f}", flush=True)
    digest = hashlib.sha256(b"".join(weight.tobytes() for weight in network.weights)).hexdigest()
    print(f"Worker {kv.rank} of {kv.num_workers}: sha256 of the weights {digest}", flush=True)
    return accuracies


def draw(accuracies, title, file):
    from matplotlib.figure import Figure
    figure = Figure(figsize=(6, 3.6), dpi=130, layout="tight")
    axes = figure.subplots()
    axes.plot(range(1, len(accuracies) + 1), accuracies, marker="o", markersize=3)
    axes.set(title=title, xlabel="epoch", ylabel="share of test images classified right")
    axes.grid(color="#dddddd")
    figure.savefig(file)


def positive(text):
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not a whole number of 1 or more")
    return int(text)


def natural(text):
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"'{text}' is not the number of a GPU; a worker has one GPU, such as 0")
    return int(text)


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kv-store", "--kvstore", default="local", metavar="TYPE",
                        help="the type of the store (%(default)s)")
    parser.add_argument("--network", "--model", choices=["lenet"], default="lenet",
                        help="the network to train (%(default)s)")
    parser.add_argument("--dataset", choices=["digits"], default="digits", help="(%(default)s)")
    parser.add_argument("--data-dir", type=pathlib.Path, default=DATA, metavar="DIR",
                        help="the folder of the data set's files")
    parser.add_argument("--benchmark", type=int, choices=(0, 1), default=0,
                        help="1: trains on random data, and prints samples/s")
    parser.add_argument("--epochs", "--num-epochs", type=positive, default=20, metavar="N", help="(%(default)s)")
    parser.add_argument("--batch-size", type=positive, default=16, metavar="N",
                        help="the samples of each worker in a step (%(default)s)")
    parser.add_argument("--lr", type=float, help=f"learning rate ({usual_rate('local')}; with dist_async "
                        f"{usual_rate('dist_async')})")
    parser.add_argument("--seed", type=int, default=1, metavar="N",
                        help="the seed of the weights and of the samples' order (%(default)s)")
    parser.add_argument("--devices", type=positive, default=1, metavar="N",
                        help="the number of CPU devices of each worker (1)")
    parser.add_argument("--gpus", dest="gpu", type=natural, metavar="N",
                        help="the GPU of each worker, for weights and gradients; numpy computes on the CPU")
    parser.add_argument("--plot", metavar="FILE", help="draws the test accuracy into this file; needs matplotlib")
    return parser


def data_for(parser, args):
    """Returns the data, or nothing for the benchmark. Ends the program if the files are not as expected."""
    if args.benchmark:
        return None
    try:
        return read_digits(args.data_dir)
    except (OSError, ValueError) as error:
        parser.error(f"--data-dir {args.data_dir}: {error}")


def main():
    parser = options()
    args = parser.parse_args()
    if args.gpu is not None and args.devices > 1:
        parser.error("--gpus is for one device in each worker; more workers (mpirun -n N) take more GPUs")
    if args.plot and args.benchmark:
        parser.error("--plot draws the test accuracy, and --benchmark 1 tests nothing")
    if args.plot and not importlib.util.find_spec("matplotlib"):
        parser.error("--plot needs matplotlib: pip install '.[plot]'")
    if args.lr is None:
        args.lr = usual_rate(args.kv_store)
    data = data_for(parser, args)
    with tutti.create(args.kv_store, gpu=args.gpu) as kv:
        # The epochs of the benchmark have 50 batches.
        accuracies = train(kv, data or random_digits(50 * args.batch_size * kv.num_workers), args)
        if args.plot and kv.rank == 0:
            draw(accuracies, f"Digits, {kv.num_workers} workers of batch {args.batch_size}, {kv.type}", args.plot)


if __name__ == "__main__":
    main()
