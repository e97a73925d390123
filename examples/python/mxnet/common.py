"""What the examples share: options, data sets, and what they print. Nothing here knows tutti."""
import argparse
import gzip
import hashlib
import importlib.util
import pathlib
import sys

import mxnet as mx
import numpy as np

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "data"


def _gpus(text):
    """The indices in a list such as 0,2."""
    found = [int(word) if word.isdecimal() else None for word in text.split(",")]
    if None in found or len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"'{text}' is no list of different GPUs such as 0,2")
    return found


def options(description, **defaults):
    """The parser of the options that every example has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kv-store", "--kvstore", metavar="TYPE", help="of store (%(default)s)")
    parser.add_argument("--network", "--model", metavar="NAME", help="(%(default)s)")
    parser.add_argument("--epochs", "--num-epochs", type=int, metavar="N", help="(%(default)s)")
    parser.add_argument("--batch-size", type=int, metavar="N", help="of each worker (%(default)s)")
    parser.add_argument("--lr", type=float, help="learning rate (%(default)s)")
    parser.add_argument("--dataset", metavar="NAME", help="(%(default)s)")
    parser.add_argument("--data-dir", type=pathlib.Path, metavar="DIR", help="the data set's files; digits need none")
    devices = parser.add_mutually_exclusive_group()
    devices.add_argument("--devices", type=int, metavar="N", help="so many CPU devices for each worker (1)")
    devices.add_argument("--gpus", type=_gpus, metavar="LIST", help="these GPUs for each worker, such as 0,2")
    parser.add_argument("--seed", type=int, metavar="N", help="of the weights and the order (%(default)s)")
    parser.add_argument("--plot", metavar="FILE", help="draws the test accuracy; needs matplotlib")
    parser.set_defaults(devices=1, seed=1, plot=None, **defaults)
    return parser


def parse(parser, networks, datasets):
    args = parser.parse_args()
    for value, known, what in ((args.network, networks, "network"), (args.dataset, datasets, "data set")):
        if value not in known:
            parser.error(f"no {what} {value!r}; there are {', '.join(known)}")
    if args.dataset not in ("digits", "none") and args.data_dir is None:
        parser.error(f"--dataset {args.dataset} needs --data-dir, the folder of its files")
    there = mx.context.num_gpus() if args.gpus else 0
    missing = [str(index) for index in args.gpus or () if index >= there]
    if missing:
        parser.error(f"--gpus: there is no GPU {', '.join(missing)}: MXNet finds {there} here; --devices N takes N CPU "
                     "devices")
    if args.plot and not importlib.util.find_spec("matplotlib"):
        parser.error("--plot needs matplotlib")
    return args


def contexts(args):
    if args.gpus:
        return [mx.gpu(index) for index in args.gpus]
    return [mx.cpu(index) for index in range(args.devices)]


def _opened(path):
    """The bytes of a file, compressed or not."""
    return path.read_bytes() if path.exists() else gzip.decompress(path.with_name(path.name + ".gz").read_bytes())


def _idx(path):
    """An array of MNIST's format."""
    content = _opened(path)
    if content[:3] != b"\0\0\x08" or len(content) < 4 + 4 * content[3]:
        raise ValueError(f"{path} is no IDX file of bytes")
    shape = np.frombuffer(content, ">i4", content[3], 4)
    if np.prod(shape) != len(content) - 4 - 4 * content[3]:
        raise ValueError(f"{path} has {len(content)} bytes, not those of {'x'.join(map(str, shape))} values")
    return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(shape)


def _digits(folder):
    folder = folder or DIGITS
    images = _idx(folder / "digits-images-idx3-ubyte").astype(np.float32)[:, None] / 16
    labels = _idx(folder / "digits-labels-idx1-ubyte").astype(np.float32)
    test = np.arange(len(labels)) % 5 == 4
    return images[~test], labels[~test], images[test], labels[test]


def _mnist(folder):
    read = [_idx(folder / f"{part}-{what}-ubyte")
            for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1")]
    return tuple(each.astype(np.float32)[:, None] / 255 if each.ndim == 3 else each.astype(np.float32) for each in read)


def _records(folder, name):
    """(images, labels) of a file of CIFAR-10's binary version, in the folder that it is unpacked to, or above."""
    path = folder / "cifar-10-batches-bin" / name
    content = (path if path.exists() else folder / name).read_bytes()
    if not content or len(content) % (1 + 3 * 32 * 32):
        raise ValueError(f"{path} has {len(content)} bytes, not records of {1 + 3 * 32 * 32}")
    records = np.frombuffer(content, np.uint8).reshape(-1, 1 + 3 * 32 * 32)
    return records[:, 1:].reshape(-1, 3, 32, 32).astype(np.float32) / 255, records[:, 0].astype(np.float32)


def _cifar10(folder):
    batches = [_records(folder, f"data_batch_{i}.bin") for i in range(1, 6)]
    images, labels = (np.concatenate(parts) for parts in zip(*batches))
    return images, labels, *_records(folder, "test_batch.bin")


_READERS = {"digits": _digits, "mnist": _mnist, "cifar10": _cifar10}


def load(args):
    """Images and labels for training, and for the test. Ends the program if the files are not what they should be."""
    try:
        return _READERS[args.dataset](args.data_dir)
    except FileNotFoundError as error:
        sys.exit(f"--dataset {args.dataset}: there is no {error.filename}")
    except (OSError, ValueError) as error:
        sys.exit(f"--dataset {args.dataset}: {error}")


def part_of(arrays, rank, num_workers):
    """This worker's share of arrays of equal length; all workers' shares are equally long."""
    length = len(arrays[0]) // num_workers
    return [array[rank:length * num_workers:num_workers] for array in arrays]


class Progress:
    """A bar of worker 0 on a terminal, and nothing elsewhere."""

    def __init__(self, title, total, rank):
        self.title, self.total, self.done = title, max(1, total), 0
        self.shown = rank == 0 and sys.stderr.isatty()

    def step(self, *_):
        self.done += 1
        if self.shown:
            filled = min(30, 30 * self.done // self.total)
            ends = "\n" if self.done >= self.total else ""
            print(f"\r{self.title} [{'=' * filled}{' ' * (30 - filled)}] {self.done}/{self.total}", end=ends,
                  file=sys.stderr, flush=True)


class Accuracies(list):
    """Of each epoch, as they come."""

    def add(self, accuracy):
        print(f"Epoch {len(self)}: Test_acc {accuracy:.6f}", flush=True)
        self.append(accuracy)

    def draw(self, title, file):
        from matplotlib.figure import Figure
        figure = Figure(figsize=(6, 3.6), dpi=130, layout="tight")
        axes = figure.subplots()
        axes.plot(range(1, len(self) + 1), self, marker="o", markersize=3)
        axes.set(title=title, xlabel="epoch", ylabel="share of test images classified right")
        axes.grid(color="#dddddd")
        figure.savefig(file)


def say_weights(rank, num_workers, arrays):
    """One line that is the same for all workers if, and only if, their weights are."""
    digest = hashlib.sha256(b"".join(array.asnumpy().tobytes() for array in arrays)).hexdigest()
    print(f"Worker {rank} of {num_workers}: sha256 of the weights {digest}", flush=True)
