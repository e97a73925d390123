#!/usr/bin/env python3
"""Trains a small convolutional network on handwritten digits with PyTorch; tutti carries torch.distributed.

    mpirun -n 4 python examples/python/torch/train.py

n processes with batches of b learn the same as one process with batches of n*b. All end with the same weights, bit by
bit.
"""
import argparse
import contextlib
import hashlib
import importlib.util
import pathlib
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import tutti.torch

# The digits and the plot are those of the example without PyTorch.
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from train_digits import CLASSES, DATA, FILTERS, MOMENTUM, draw, positive, read_digits


def network():
    """3x3 convolution, ReLU, 2x2 maximum pooling, and a dense layer: 2,730 weights."""
    return nn.Sequential(nn.Conv2d(1, FILTERS, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                         nn.Linear(FILTERS * 4 * 4, CLASSES))


def spread(model, args):
    """The model whose gradients all processes share."""
    if args.fsdp:
        from torch.distributed.fsdp import fully_shard  # torch 2 has it
        # Each rank begins with other weights, and FSDP2 itself does not distribute them.
        tutti.torch.broadcast_parameters(model.state_dict())
        return fully_shard(model)
    model = DistributedDataParallel(model)
    if args.bf16 and args.backend == "tutti":
        model.register_comm_hook(None, tutti.torch.ddp_hook(wire="bf16"))
    return model


def progress(done, of_all, epoch):
    """Shows a bar, on a terminal and in one process only."""
    if dist.get_rank() == 0 and sys.stderr.isatty():
        filled = 30 * done // of_all
        sys.stderr.write(f"\rEpoch {epoch}: [{'#' * filled}{'.' * (30 - filled)}] {done}/{of_all}"
                         + "\r\x1b[K" * (done == of_all))
        sys.stderr.flush()


def train_epoch(model, optimizer, images, labels, batches, args, epoch):
    """Makes one step for each batch. Every process takes its share of the batch."""
    rank, size = dist.get_rank(), dist.get_world_size()
    for i, batch in enumerate(batches):
        share = batch.tensor_split(size)[rank]
        with torch.autocast("cpu", torch.bfloat16) if args.bf16 else contextlib.nullcontext():
            scores = model(images[share])
        # DDP and FSDP2 average over processes, so that the sum over the whole batch is divided by its length once.
        loss = nn.functional.cross_entropy(scores.float(), labels[share], reduction="sum") * size / len(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        progress(i + 1, len(batches), epoch)


def whole_weights(model):
    """Returns each weight as one tensor, even if FSDP2 has cut it into shards. Collective."""
    return [weight.full_tensor() if hasattr(weight, "full_tensor") else weight for weight in model.parameters()]


def train(data, args):
    """Trains, prints, and returns the test accuracy after each epoch."""
    images, labels, test_images, test_labels = (torch.as_tensor(array) for array in data)
    images, labels, test_images = images[:, None], labels.long(), test_images[:, None]
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed + rank)  # each begins with other weights, until it gets rank 0's
    model = spread(network(), args)
    optimizer = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=MOMENTUM)
    order = torch.Generator().manual_seed(args.seed)  # the same on all processes
    accuracies = []
    for epoch in range(args.epochs):
        batches = torch.randperm(len(labels), generator=order).split(args.batch_size * size)
        train_epoch(model, optimizer, images, labels, batches, args, epoch)
        with torch.no_grad():
            right = model(test_images).argmax(dim=1) == test_labels
        accuracies.append(right.float().mean().item())
        if rank == 0:
            print(f"Epoch {epoch}: Test_acc {accuracies[-1]:.6f}", flush=True)
    weights = b"".join(weight.detach().numpy().tobytes() for weight in whole_weights(model))
    print(f"Worker {rank} of {size}: sha256 of the weights {hashlib.sha256(weights).hexdigest()}", flush=True)
    return accuracies


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="tutti", metavar="NAME",
                        help="the backend of torch.distributed (%(default)s)")
    parser.add_argument("--fsdp", action="store_true",
                        help="shards the weights with FSDP2 instead of DDP; needs PyTorch 2.6 or later")
    parser.add_argument("--bf16", action="store_true",
                        help="computes in bfloat16; DDP's gradients also travel in bfloat16")
    parser.add_argument("--data-dir", type=pathlib.Path, default=DATA, metavar="DIR",
                        help="the folder of the data set's files")
    parser.add_argument("--epochs", type=positive, default=20, metavar="N", help="(%(default)s)")
    parser.add_argument("--batch-size", type=positive, default=16, metavar="N",
                        help="the samples of each process in a step (%(default)s)")
    parser.add_argument("--lr", type=float, default=0.05, help="learning rate (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, metavar="N",
                        help="the seed of the weights and of the samples' order (%(default)s)")
    parser.add_argument("--plot", metavar="FILE", help="draws the test accuracy into this file; needs matplotlib")
    return parser


def main():
    parser = options()
    args = parser.parse_args()
    if args.plot and not importlib.util.find_spec("matplotlib"):
        parser.error("--plot needs matplotlib: pip install '.[plot]'")
    try:
        data = read_digits(args.data_dir)
    except (OSError, ValueError) as error:
        parser.error(f"--data-dir {args.data_dir}: {error}")
    torch.set_num_threads(1)  # processes share the cores
    dist.init_process_group(args.backend)
    accuracies = train(data, args)
    if args.plot and dist.get_rank() == 0:
        draw(accuracies, f"Digits, {dist.get_world_size()} processes of batch {args.batch_size}, PyTorch", args.plot)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
