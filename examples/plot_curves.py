#!/usr/bin/env python3
"""Draws loss and accuracy of one training run or more, from the files that `train --json` writes."""
import json
import pathlib
import sys

# An installed copy has the module beside itself.
sys.path.insert(1, str(pathlib.Path(__file__).resolve().parents[1] / "scripts"))
from command_line import Parser

COLOURS = ["#1f6fb4", "#d1495b", "#3a8f5c", "#8d5bb0", "#c98a1b", "#4a4a4a"]


def name_of(run):
    """A label such as "4 workers × 2 devices, batch 4 × 16, dist_sync_mpi"."""
    workers, devices = run["workers"], len(run["work_loads"])
    text = f"{workers} worker{'s' if workers > 1 else ''}"
    if devices > 1:
        text += f" × {devices} devices"
    batch = str(run["batch_size"]) if workers == 1 else f"{workers} × {run['batch_size']}"
    return f"{text}, batch {batch}, {run['kv_store']}"


def style_of(index):
    """The style of a run. The first run is a line, others are rings over it, so that equal runs stay visible."""
    style = {"color": COLOURS[index % len(COLOURS)], "marker": "o"}
    if index == 0:
        return style | {"linestyle": "-", "markersize": 3.5}
    return style | {"linestyle": "--", "linewidth": 0.9, "markersize": 4.5 + 3 * index, "markerfacecolor": "none"}


def draw(axes, run, index):
    loss, accuracy = axes
    style = style_of(index)
    epochs = run["epochs"]
    ends = [epoch["epoch"] + 1 for epoch in epochs]
    steps = [value for epoch in epochs for value in epoch["step_loss"]]
    per_epoch = len(steps) / len(epochs)
    if index == 0:
        at = [(i + 1) / per_epoch for i in range(len(steps))]
        loss.plot(at, steps, color=style["color"], alpha=0.3, linewidth=0.6, label="each step")
    # An epoch's mean is drawn in its middle, the result of the test after it at its end.
    means = [epoch["train_loss"] for epoch in epochs]
    loss.plot([end - 0.5 for end in ends], means, **style, label="mean of each epoch" if index == 0 else None)
    trained = [epoch["train_accuracy"] for epoch in epochs]
    accuracy.plot([end - 0.5 for end in ends], trained, color=style["color"], linestyle=":", linewidth=1.3, marker=".")
    name = name_of(run)
    if "test_accuracy" in epochs[-1]:
        tested = [epoch["test_accuracy"] for epoch in epochs]
        accuracy.plot(ends, tested, **style, label=f"{name}: {tested[-1]:.4f}")


def read(path):
    with open(path, encoding="utf-8") as file:
        return json.load(file)


def parse():
    """(the runs, the file to draw)"""
    parser = Parser(description=__doc__)
    parser.add_argument("runs", nargs="+", metavar="RUN.json",
                        help="the first is drawn as a line, others as rings over it")
    parser.add_argument("--out", required=True, metavar="FILE.png")
    arguments = parser.parse_args()
    try:
        return [read(path) for path in arguments.runs], arguments.out
    except (OSError, ValueError) as error:
        parser.error(str(error))


def main():
    runs, out = parse()
    try:
        import matplotlib
        matplotlib.use("Agg")
        from matplotlib import pyplot, ticker
    except ImportError:
        sys.exit(3)  # `train` tells this apart from other failures

    figure, axes = pyplot.subplots(1, 2, figsize=(10, 3.8), dpi=130)
    for index, run in enumerate(runs):
        draw(axes, run, index)
    loss, accuracy = axes
    loss.set(title="Training loss", ylabel="cross-entropy", yscale="log")
    loss.legend(loc="upper right", frameon=False, fontsize=8.5)
    tested = any("test_accuracy" in run["epochs"][-1] for run in runs)
    title = "Accuracy on test images (dotted: in training)" if tested else "Accuracy in training"
    accuracy.set(title=title, ylabel="share classified right")
    accuracy.set_ylim(top=1.01)
    if accuracy.get_legend_handles_labels()[0]:
        accuracy.legend(loc="lower right", frameon=False, fontsize=8.5)
    for axis in axes:
        axis.set_xlabel("epoch")
        axis.set_xlim(left=0)
        axis.xaxis.set_major_locator(ticker.MaxNLocator(integer=True))
        axis.grid(color="#dddddd", linewidth=0.6)
        axis.set_axisbelow(True)
        axis.spines[["top", "right"]].set_visible(False)
    figure.suptitle(f"{runs[0]['network']} on {runs[0]['dataset']}", fontsize=11)
    figure.tight_layout()
    figure.savefig(out)


if __name__ == "__main__":
    main()
