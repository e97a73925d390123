"""Code that the examples share: options, data sets and output. Nothing here uses tutti."""
import argparse
import gzip
import hashlib
import importlib.util
import pathlib
import sys
import time

import mxnet as mx
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
#: The folders in which a data set is looked for if there is no --data-dir: the script's own folder, which the launcher
#: may have copied to a host without the rest of the repository, and the folder of the repository's digits.
PLACES = (HERE, HERE / "data", HERE.parent.parent / "data")
#: The files by which a data set is recognised.
FILES = {"digits": ["digits-images-idx3-ubyte"], "mnist": ["train-images-idx3-ubyte", "train-images-idx3-ubyte.gz"],
         "cifar10": ["cifar-10-batches-bin/data_batch_1.bin", "data_batch_1.bin"], "imagenet": ["train.rec"]}
SHAPES = {"digits": (1, 8, 8), "mnist": (1, 28, 28), "cifar10": (3, 32, 32)}


def _gpus(text):
    """The indices in a list such as 0,2."""
    found = [int(word) if word.isdecimal() else None for word in text.split(",")]
    if None in found or len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"'{text}' is no list of different GPUs such as 0,2")
    return found


def _count(text):
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"'{text}' is not 1 or more")
    return int(text)


def options(description, **defaults):
    """Returns a parser of the options that every example has."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kv-store", "--kvstore", metavar="TYPE", help="the type of the store (%(default)s)")
    parser.add_argument("--network", "--model", metavar="NAME", help="(%(default)s)")
    parser.add_argument("--epochs", "--num-epochs", type=_count, metavar="N", help="(%(default)s)")
    parser.add_argument("--batch-size", type=_count, metavar="N",
                        help="the samples of each worker in a step (%(default)s)")
    parser.add_argument("--lr", type=float, help="learning rate (%(default)s)")
    parser.add_argument("--dataset", metavar="NAME",
                        help="the data set (default: the first of the script's data sets whose files are found)")
    parser.add_argument("--data-dir", type=pathlib.Path, metavar="DIR",
                        help="the folder of the data set's files (default: beside the script, or the digits of "
                             "examples/data)")
    parser.add_argument("--benchmark", type=int, choices=(0, 1), default=0,
                        help="1: trains on random data, and prints samples/s")
    parser.add_argument("--steps", type=_count, default=50, metavar="N",
                        help="the batches in an epoch of the benchmark (%(default)s)")
    parser.add_argument("--disp-batches", type=_count, default=5, metavar="N",
                        help="prints the speed every N batches (%(default)s)")
    devices = parser.add_mutually_exclusive_group()
    devices.add_argument("--devices", type=_count, metavar="N", help="the number of CPU devices of each worker (1)")
    devices.add_argument("--gpus", type=_gpus, metavar="LIST", help="the GPUs of each worker, such as 0,2")
    parser.add_argument("--seed", type=int, metavar="N",
                        help="the seed of the weights and of the samples' order (%(default)s)")
    parser.add_argument("--plot", metavar="FILE", help="draws the test accuracy into this file; needs matplotlib")
    parser.set_defaults(devices=1, seed=1, plot=None, is_found=False, **defaults)
    return parser


def _find_data(parser, args, datasets):
    """Chooses the data set and its folder, if the options do not. `say_data` says which."""
    places = [args.data_dir] if args.data_dir else PLACES
    for name in datasets:
        for place in places:
            if any((place / file).exists() for file in FILES[name]):
                args.is_found = not args.dataset
                args.dataset, args.data_dir = name, place
                return
    files = ", ".join(FILES[name][0] for name in datasets)
    parser.error(f"no files of {' or '.join(datasets)} in {' or '.join(map(str, places))} (such as {files}); "
                 "--data-dir DIR says where they are")


def parse(parser, networks, datasets):
    """Parses the options. `datasets` are those of the script, the preferred one first."""
    args = parser.parse_args()
    wanted = [args.dataset] if args.dataset else datasets
    for value, known, what in ((args.network, networks, "network"), (wanted[0], datasets, "data set")):
        if value not in known:
            parser.error(f"no {what} {value!r}; there are {', '.join(known)}")
    there = mx.context.num_gpus() if args.gpus else 0
    missing = [str(index) for index in args.gpus or () if index >= there]
    if missing:
        parser.error(f"--gpus: there is no GPU {', '.join(missing)}: MXNet finds {there} here; --devices N takes N CPU "
                     "devices")
    if args.plot and args.benchmark:
        parser.error("--plot draws the test accuracy, and --benchmark 1 tests nothing")
    if args.plot and not importlib.util.find_spec("matplotlib"):
        parser.error("--plot needs matplotlib")
    if args.benchmark:
        args.dataset = wanted[0]
    else:
        _find_data(parser, args, wanted)
    return args


def contexts(args):
    if args.gpus:
        return [mx.gpu(index) for index in args.gpus]
    return [mx.cpu(index) for index in range(args.devices)]


def _opened(path):
    """The bytes of a file, compressed or not."""
    return path.read_bytes() if path.exists() else gzip.decompress(path.with_name(path.name + ".gz").read_bytes())


def _idx(path):
    """Reads an array in MNIST's format."""
    content = _opened(path)
    if content[:3] != b"\0\0\x08" or len(content) < 4 + 4 * content[3]:
        raise ValueError(f"{path} is no IDX file of bytes")
    shape = np.frombuffer(content, ">i4", content[3], 4)
    if np.prod(shape) != len(content) - 4 - 4 * content[3]:
        raise ValueError(f"{path} has {len(content)} bytes, not those of {'x'.join(map(str, shape))} values")
    return np.frombuffer(content, np.uint8, offset=4 + 4 * content[3]).reshape(shape)


def _digits(folder):
    images = _idx(folder / "digits-images-idx3-ubyte").astype(np.float32)[:, None] / 16
    labels = _idx(folder / "digits-labels-idx1-ubyte").astype(np.float32)
    test = np.arange(len(labels)) % 5 == 4
    return images[~test], labels[~test], images[test], labels[test]


def _mnist(folder):
    read = [_idx(folder / f"{part}-{what}-ubyte")
            for part in ("train", "t10k") for what in ("images-idx3", "labels-idx1")]
    return tuple(each.astype(np.float32)[:, None] / 255 if each.ndim == 3 else each.astype(np.float32) for each in read)


def _records(folder, name):
    """Returns (images, labels) of a file of CIFAR-10's binary version. Looks in the folder, and in the one that the
    archive unpacks to."""
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


def say_data(args, rank):
    """Prints on worker 0 which data set the script has found, unless the options name one."""
    if args.is_found and rank == 0:
        print(f"The data set is {args.dataset}, of {args.data_dir}", flush=True)


def part_of(arrays, rank, num_workers):
    """This worker's share of arrays of equal length; all workers' shares are equally long."""
    length = len(arrays[0]) // num_workers
    return [array[rank:length * num_workers:num_workers] for array in arrays]


def random_batch(args, shape, classes):
    """Images of this shape and their labels."""
    labels = np.random.randint(0, classes, args.batch_size)
    return mx.nd.random.uniform(-1, 1, (args.batch_size, *shape)), mx.nd.array(labels)


class Random(mx.io.DataIter):
    """The same batch again and again, so that reading files is not measured."""

    def __init__(self, args, shape, classes):
        super().__init__(args.batch_size)
        images, labels = random_batch(args, shape, classes)
        self.provide_data = [mx.io.DataDesc("data", images.shape)]
        self.provide_label = [mx.io.DataDesc("softmax_label", labels.shape)]
        self.batch = mx.io.DataBatch([images], [labels], pad=0, provide_data=self.provide_data,
                                     provide_label=self.provide_label)
        self.left = self.steps = args.steps

    def next(self):
        if self.left == 0:
            raise StopIteration
        self.left -= 1
        return self.batch

    def reset(self):
        self.left = self.steps


class Speed:
    """Prints after every few batches how many samples a second this worker has processed."""

    def __init__(self, args, rank):
        self.args, self.rank, self.begin = args, rank, None

    def __call__(self, at):
        mx.nd.waitall()  # operations that are under way belong to these batches
        now = time.time()
        if at.nbatch == 0:
            self.begin = now, 0
        elif at.nbatch % self.args.disp_batches == 0:
            speed = (at.nbatch - self.begin[1]) * self.args.batch_size / (now - self.begin[0])
            print(f"Worker {self.rank}: Epoch {at.epoch} Batch {at.nbatch}: {speed:.2f} samples/s", flush=True)
            self.begin = now, at.nbatch


class Progress:
    """A bar of worker 0 on a terminal, and nothing elsewhere."""

    def __init__(self, title, total, rank):
        self.title, self.total, self.done = title, max(1, total), 0
        self.shown = rank == 0 and sys.stderr.isatty()

    def __call__(self, _):
        self.done += 1
        if self.shown:
            filled = min(30, 30 * self.done // self.total)
            ends = "\n" if self.done >= self.total else ""
            print(f"\r{self.title} [{'=' * filled}{' ' * (30 - filled)}] {self.done}/{self.total}", end=ends,
                  file=sys.stderr, flush=True)


def after_batch(args, title, total, rank):
    """Returns the function to call after each batch, with MXNet's BatchEndParam."""
    return Speed(args, rank) if args.benchmark else Progress(title, total, rank)


class Accuracies(list):
    """The accuracy of each epoch."""

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
    """Prints a line that is the same for all workers if, and only if, their weights are."""
    digest = hashlib.sha256(b"".join(array.asnumpy().tobytes() for array in arrays)).hexdigest()
    print(f"Worker {rank} of {num_workers}: sha256 of the weights {digest}", flush=True)
