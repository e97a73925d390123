#!/usr/bin/env python3
"""Trains a small convolutional network on handwritten digits, in plain numpy; tutti sums the gradients of all workers.

    mpirun -n 4 python examples/python/train_digits.py --kv-store dist_sync_mpi

n workers of batch b learn what one worker of batch n*b learns. All end with the same weights, bit by bit.
"""
import argparse
import hashlib
import importlib.util
import os
import pathlib

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy starts threads: workers share the cores
import numpy as np

import tutti

DATA = pathlib.Path(__file__).resolve().parents[1] / "data"
CLASSES, FILTERS, MOMENTUM = 10, 16, 0.9


def read_digits():
    """Training images and labels, test images and labels. Images are n x 8 x 8, from 0 to 1."""
    images = np.fromfile(DATA / "digits-images-idx3-ubyte", np.uint8)[16:].reshape(-1, 8, 8).astype(np.float32) / 16
    labels = np.fromfile(DATA / "digits-labels-idx1-ubyte", np.uint8)[8:]
    for_test = np.arange(len(labels)) % 5 == 4
    return images[~for_test], labels[~for_test], images[for_test], labels[for_test]


class Network:
    """3x3 convolution, ReLU, 2x2 maximum pooling, and a dense layer: 2,730 weights."""

    def __init__(self, rng):
        features = FILTERS * 4 * 4
        self.weights = [rng.normal(0, (2 / 9) ** 0.5, (9, FILTERS)), np.zeros(FILTERS),
                        rng.normal(0, features ** -0.5, (features, CLASSES)), np.zeros(CLASSES)]
        self.weights = [weight.astype(np.float32) for weight in self.weights]
        self.gradients = [np.zeros_like(weight) for weight in self.weights]

    def forward(self, images):
        """The score of each class. Keeps what `backward` needs."""
        filters, bias, dense, dense_bias = self.weights
        padded = np.pad(images, ((0, 0), (1, 1), (1, 1)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
        self.patches = windows.reshape(len(images), 8, 8, 9)
        maps = np.maximum(self.patches @ filters + bias, 0)
        # The four pixels that are pooled into one come last but one: n x 4 x 4 x 4 x filters.
        self.quads = maps.reshape(-1, 4, 2, 4, 2, FILTERS).transpose(0, 1, 3, 2, 4, 5).reshape(-1, 4, 4, 4, FILTERS)
        self.pooled = self.quads.max(axis=3)
        return self.pooled.reshape(len(images), dense.shape[0]) @ dense + dense_bias

    def backward(self, scores, labels, ready):
        """Sums the gradients of cross-entropy over the batch; `ready(i)` as soon as weight i has its own."""
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        chances[np.arange(len(labels)), labels] -= 1
        self.gradients[2][:] = self.pooled.reshape(len(labels), -1).T @ chances if len(labels) else 0
        self.gradients[3][:] = chances.sum(axis=0)
        ready(3)
        ready(2)
        # To the pixel that was the maximum, where the ReLU let it pass.
        back = (chances @ self.weights[2].T).reshape(self.pooled.shape)[:, :, :, None]
        back = back * ((self.quads == self.pooled[:, :, :, None]) & (self.quads > 0))
        back = back.reshape(-1, 4, 4, 2, 2, FILTERS).transpose(0, 1, 3, 2, 4, 5).reshape(-1, FILTERS)
        self.gradients[0][:] = self.patches.reshape(-1, 9).T @ back
        self.gradients[1][:] = back.sum(axis=0)
        ready(1)
        ready(0)


def train_epoch(kv, network, velocities, images, labels, batches, lr):
    """One step a batch: every worker takes its share, and all take the same step."""
    for batch in batches:
        share = np.array_split(batch, kv.num_workers)[kv.rank]
        sums = {}

        def exchange(i):
            # At once, while the layers before are still being computed; the first layer is the most urgent.
            sums[i] = kv.pushpull(i, network.gradients[i], priority=-i)

        network.backward(network.forward(images[share]), labels[share], exchange)
        for i, weight in enumerate(network.weights):
            sums[i].wait()  # now gradients[i] is the sum over all workers
            velocities[i] = MOMENTUM * velocities[i] + network.gradients[i] / len(batch)
            weight -= lr * velocities[i]


def train(kv, args):
    """Trains, prints, and returns the test accuracy after each epoch."""
    images, labels, test_images, test_labels = read_digits()
    # Each worker begins with other weights, until it has worker 0's.
    network = Network(np.random.default_rng(args.seed + kv.rank))
    keys = list(range(len(network.weights)))
    kv.broadcast(keys, network.weights, root_rank=0).wait()
    velocities = [np.zeros_like(weight) for weight in network.weights]
    order = np.random.default_rng(args.seed)  # the same on all workers
    accuracies = []
    for epoch in range(args.epochs):
        step = args.batch_size * kv.num_workers
        shuffled = order.permutation(len(labels))
        batches = [shuffled[i:i + step] for i in range(0, len(labels), step)]
        train_epoch(kv, network, velocities, images, labels, batches, args.lr)
        accuracies.append(np.mean(network.forward(test_images).argmax(axis=1) == test_labels))
        if kv.rank == 0:
            print(f"Epoch {epoch}: Test_acc {accuracies[-1]:.6f}", flush=True)
    weights = hashlib.sha256(b"".join(weight.tobytes() for weight in network.weights)).hexdigest()
    print(f"Worker {kv.rank} of {kv.num_workers}: sha256 of the weights {weights}", flush=True)
    return accuracies


def draw(accuracies, title, file):
    from matplotlib.figure import Figure
    figure = Figure(figsize=(6, 3.6), dpi=130, layout="tight")
    axes = figure.subplots()
    axes.plot(range(1, len(accuracies) + 1), accuracies, marker="o", markersize=3)
    axes.set(title=title, xlabel="epoch", ylabel="share of test images classified right")
    axes.grid(color="#dddddd")
    figure.savefig(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kv-store", "--kvstore", default="local", metavar="TYPE", help="of store (%(default)s)")
    parser.add_argument("--epochs", "--num-epochs", type=int, default=20, metavar="N", help="(%(default)s)")
    parser.add_argument("--batch-size", type=int, default=16, metavar="N", help="of each worker (%(default)s)")
    parser.add_argument("--lr", type=float, default=0.05, help="learning rate (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of weights and order (%(default)s)")
    parser.add_argument("--gpus", metavar="LIST", help="not for numpy, which computes on CPUs: start more workers")
    parser.add_argument("--plot", metavar="FILE", help="draws the test accuracy; needs matplotlib")
    args = parser.parse_args()
    if args.gpus is not None:
        parser.error(f"--gpus {args.gpus}: numpy computes on CPUs; more workers (mpirun -n N) take more of these")
    if args.plot and not importlib.util.find_spec("matplotlib"):
        parser.error("--plot needs matplotlib: pip install '.[plot]'")
    with tutti.create(args.kv_store) as kv:
        accuracies = train(kv, args)
        if args.plot and kv.rank == 0:
            draw(accuracies, f"Digits, {kv.num_workers} workers of batch {args.batch_size}, {kv.type}", args.plot)


if __name__ == "__main__":
    main()
