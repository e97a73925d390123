"""Loss curves of training with MXNet: n workers of batch b beside one process of batch n*b, which learns the same.

    mpirun -n 4 python mxnet_curves.py --json curves-4.json      # exits with 1 where they differ by more than 1e-4
    python mxnet_curves.py --draw curves.png curves-2.json curves-3.json curves-4.json

Each network is trained by a Module and by Gluon's Trainer, with sgd (momentum and weight decay) and with adam.

Workers and process differ by the order of sums alone. Training amplifies that: lenet has average pooling, for maximum
pooling follows rounding where two values almost tie. resnet18 is trained in double precision, for in single precision
its curves part by more than 1e-4 within three epochs of 4 workers. Where it has batch normalisation in training, each
worker normalises its own part of a batch; one process with n devices does so, too, and stands beside the workers.
"""
import argparse
import dataclasses
import json
import pathlib
import sys

import mxnet as mx
from mxnet import autograd, gluon
import numpy as np

EXAMPLES = pathlib.Path(__file__).resolve().parents[2] / "examples"
sys.path.insert(0, str(EXAMPLES / "python/mxnet"))
import common

EPOCHS, JOINT_BATCH, LIMIT = 3, 48, 1e-4
OPTIMIZERS = ("sgd", "adam")


class Lstm(gluon.HybridBlock):
    """Reads an image line by line."""

    def __init__(self):
        super().__init__()
        self.cell = gluon.rnn.LSTMCell(32, input_size=8)
        self.scores = gluon.nn.Dense(10, in_units=32)

    def hybrid_forward(self, F, x):
        outputs, _ = self.cell.unroll(8, F.reshape(x, (0, 8, 8)), layout="NTC", merge_outputs=False)
        return self.scores(outputs[-1])


def lenet():
    net = gluon.nn.HybridSequential()
    for before, filters in ((1, 20), (20, 50)):
        net.add(gluon.nn.Conv2D(filters, 5, padding=2, in_channels=before, activation="tanh"), gluon.nn.AvgPool2D())
    net.add(gluon.nn.Dense(100, in_units=200, activation="tanh"), gluon.nn.Dense(10, in_units=100))
    return net


def resnet18(fixed):
    net = gluon.model_zoo.vision.resnet18_v1(classes=10)

    def fix(block):
        if isinstance(block, gluon.nn.BatchNorm):
            block._kwargs["use_global_stats"] = fixed
    net.apply(fix)
    return net


@dataclasses.dataclass(frozen=True)
class Case:
    make: object
    images: int
    rate: float  # of sgd
    dtype: str = "float32"
    devices: bool = False  # beside the workers stands a process with as many devices

    def options(self, optimizer):
        if optimizer == "adam":
            return {"learning_rate": 3e-3}
        return {"learning_rate": self.rate, "momentum": 0.9, "wd": 1e-3}


CASES = {"lenet": Case(lenet, 1392, 0.1), "lstm": Case(Lstm, 1392, 0.1),
         "resnet18, fixed batch norm": Case(lambda: resnet18(True), 96, 0.1, "float64"),
         "resnet18": Case(lambda: resnet18(False), 96, 0.01, "float64", True)}


def batches(case, name, rank, workers):
    """This worker's part of each batch of an epoch."""
    images, labels, *_ = common.load(argparse.Namespace(dataset="digits", data_dir=EXAMPLES / "data"))
    if name.startswith("resnet"):
        images = images.repeat(3, axis=1).repeat(4, axis=2).repeat(4, axis=3)
    size = JOINT_BATCH // workers
    for start in range(rank * size, case.images, JOINT_BATCH):
        yield [mx.nd.array(part[start:start + size], dtype=case.dtype) for part in (images, labels)]


def network(case, contexts):
    mx.random.seed(7)
    with mx.name.NameManager():  # the same names each time, in the order of which a Module takes its weights
        net = case.make()
    net.initialize(mx.init.Xavier(), ctx=contexts)
    net.cast(case.dtype)
    return net


def by_gluon(case, optimizer, data, contexts, kvstore, workers):
    """Yields the sum of the losses of each step, of this worker."""
    net, loss_of = network(case, contexts), gluon.loss.SoftmaxCrossEntropyLoss()
    net.hybridize()
    net(data[0][0][:1].as_in_context(contexts[0]))  # shapes
    trainer = gluon.Trainer(net.collect_params(), optimizer, case.options(optimizer), kvstore=kvstore)
    for _ in range(EPOCHS):
        for images, labels in data:
            parts = zip(*(gluon.utils.split_and_load(each, contexts) for each in (images, labels)))
            with autograd.record():
                losses = [loss_of(net(x), y) for x, y in parts]
            autograd.backward(losses)
            trainer.step(len(labels) * workers)
            yield sum(float(loss.sum().asscalar()) for loss in losses)


def by_module(case, optimizer, data, contexts, kvstore, workers):
    """Does with Module what by_gluon does with a Trainer."""
    net = network(case, mx.cpu())
    scores = net(mx.sym.var("data"))
    net(data[0][0][:1])  # shapes
    weights = {name: value.data() for name, value in net.collect_params().items()}
    module = mx.mod.Module(mx.sym.SoftmaxOutput(scores, name="softmax"), context=contexts)
    module.bind([mx.io.DataDesc("data", data[0][0].shape, case.dtype)],
                [mx.io.DataDesc("softmax_label", data[0][1].shape, case.dtype)])
    module.init_params(arg_params=weights, aux_params=weights, allow_extra=True)
    module.init_optimizer(kvstore, optimizer, case.options(optimizer))
    for _ in range(EPOCHS):
        for images, labels in data:
            module.forward_backward(mx.io.DataBatch([images], [labels]))
            module.update()
            shares = module.get_outputs()[0].asnumpy()
            yield -np.log(shares[np.arange(len(labels)), labels.asnumpy().astype(int)]).sum()


WAYS = {"Gluon": by_gluon, "Module": by_module}


@dataclasses.dataclass(frozen=True)
class Training:
    """One network, trained in one of the ways."""
    network: str
    way: str
    optimizer: str

    def losses(self, rank, workers, contexts, kvstore):
        case = CASES[self.network]
        data = list(batches(case, self.network, rank, workers))
        return np.array(list(WAYS[self.way](case, self.optimizer, data, contexts, kvstore, workers))) / JOINT_BATCH

    def by_workers(self, kv):
        """This worker's share of the mean loss of each step."""
        return self.losses(kv.rank, kv.num_workers, [mx.cpu()], kv)

    def alone(self, kv):
        """The mean loss of each step in this process, with the workers' joint batch."""
        devices = CASES[self.network].devices
        contexts = [mx.cpu(i) for i in range(kv.num_workers if devices else 1)]
        return self.losses(0, 1, contexts, "local" if devices else None)


def over_ranks(kv, curves):
    """The sum of the ranks' curves."""
    arrays = [mx.nd.array(curve, dtype="float64") for curve in curves]
    kv.pushpull([f"curve {i}" for i in range(len(arrays))], arrays)
    return [array.asnumpy() for array in arrays]


def within_limit(apart):
    """Whether all values are within the limit. NaN is not; Python's max would ignore it."""
    return bool(np.max(apart) <= LIMIT)


def measure(names, file):
    import tutti.mxnet  # pylint: disable=unused-import
    kv = mx.kv.create("dist_sync_mpi")
    trainings = [Training(name, way, optimizer) for name in names for way in WAYS for optimizer in OPTIMIZERS]
    stores = {way: mx.kv.create("dist_sync_mpi") for way in WAYS}  # Modules have names for keys, Trainers numbers
    joint = [each.by_workers(stores[each.way]) for each in trainings]
    # One rank or another does the work of one process. All ranks work at the same time.
    alone = [each.alone(kv) if i % kv.num_workers == kv.rank else np.zeros_like(joint[i])
             for i, each in enumerate(trainings)]
    curves = list(zip(trainings, over_ranks(kv, joint), over_ranks(kv, alone)))
    apart = [np.abs(both - one).max() for _, both, one in curves]
    if kv.rank == 0:
        for (each, _, one), far in zip(curves, apart):
            print(f"{each.network}, {each.way}, {each.optimizer}: {kv.num_workers} workers, {len(one)} steps, loss "
                  f"{one[0]:.4f} to {one[-1]:.4f}, at most {far:.1e} apart", flush=True)
        if file:
            file.write_text(json.dumps([{**dataclasses.asdict(each), "workers": kv.num_workers,
                                         "joint": both.tolist(), "alone": one.tolist()} for each, both, one in curves]))
    return within_limit(apart)


def draw(curves, file):
    """Draws the curves in the upper row, and the differences between them in the lower row."""
    from matplotlib.figure import Figure
    figure = Figure(figsize=(3.4 * len(CASES), 5.5), dpi=90, layout="tight")
    axes = figure.subplots(2, len(CASES), squeeze=False, sharex="col")
    ways = [(way, optimizer) for way in WAYS for optimizer in OPTIMIZERS]
    for each in curves:
        above, below = axes[:, list(CASES).index(each["network"])]
        number, workers, steps = ways.index((each["way"], each["optimizer"])), each["workers"], len(each["joint"])
        shown = slice((4 * number + workers) % max(1, steps // 8), None, max(1, steps // 8))
        style = {"color": f"C{number}", "marker": "os^"[workers - 2], "markersize": 5, "markerfacecolor": "none"}
        above.plot(range(1, steps + 1), each["alone"], color=f"C{number}", linewidth=1)
        above.plot(range(1, steps + 1)[shown], each["joint"][shown], linestyle="", **style,
                   label=f"{each['way']}, {each['optimizer']}" if workers == 2 else None)
        apart = np.maximum.accumulate(np.abs(np.subtract(each["joint"], each["alone"])))
        below.plot(range(1, steps + 1), np.maximum(apart, 1e-17), linewidth=0.8, markevery=max(1, steps // 8), **style)
    for name, (above, below) in zip(CASES, axes.T):
        above.set(title=name, ylim=(0, None))
        below.axhline(LIMIT, color="black", linestyle="--", linewidth=0.8)
        below.set(yscale="log", xlabel="step", ylim=(5e-18, 1e-3))
        below.grid(color="#dddddd")
    axes[0][0].set_ylabel("loss: lines 1 process;\n○ 2, □ 3, △ 4 workers")
    axes[1][0].set_ylabel("apart at most so far\n(dashed: limit)")
    axes[0][0].legend(fontsize=8)
    figure.savefig(file)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=CASES, action="append", help="of the networks; all")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="for the curves")
    parser.add_argument("--draw", metavar="FILE", help="draws the curves of these files, and trains nothing")
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    given = parser.parse_args()
    if given.draw:
        draw([each for file in given.files for each in json.loads(file.read_text())], given.draw)
        return 0
    return 0 if measure(given.only or CASES, given.json) else 1


if __name__ == "__main__":
    sys.exit(main())
