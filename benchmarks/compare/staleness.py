"""Suite staleness: how networks learn the digits over servers, by how far workers may run ahead of one another."""
import dataclasses
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import tempfile
from typing import Optional

from compare import rounds
from compare.contest import LIMIT, BenchError, last_words
from compare.outcome import Outcome, Style, curves
from compare.targets import PASS, SHORT, Verdict

MOST_VALUES = {"sizes": 0, "ranks": 0}
LAUNCH = pathlib.Path(__file__).resolve().parents[2] / "scripts/launch.py"
SERVERS = 2
# Its gradients are 45 MB, so it takes long, and is trained once.
LONG = "resnet18"
WORKERS, EPOCHS = {"lenet": 4, LONG: 2}, {"lenet": 16, LONG: 4}
QUICK_EPOCHS = 3
# Gradients of older weights bear a smaller rate than joint ones. All have the same here.
RATE = 0.02
TOGETHER, ASYNCHRONOUS = 0.95, 0.93  # the accuracies that are wanted


@dataclasses.dataclass(frozen=True)
class Setting:
    name: str
    store: str
    staleness: Optional[str]  # the value of TUTTI_STALENESS
    wanted: float
    needed = True


SETTINGS = (Setting("dist_sync", "dist_sync", None, TOGETHER),
            *(Setting(f"dist_async, {said}", "dist_async", value, ASYNCHRONOUS)
              for value, said in (("0", "staleness 0"), ("2", "staleness 2"), ("off", "no bound"))))


def words_for(request, network, setting, seed, file):
    return [sys.executable, LAUNCH, "--launcher", "local", "-n", WORKERS[network], "-s", SERVERS,
            request.build / "examples/train", "--network", network, "--dataset", "digits", "--kv-store", setting.store,
            "--epochs", epochs_of(request, network), "--lr", RATE, "--seed", seed, "--json", file]


def epochs_of(request, network):
    return QUICK_EPOCHS if request.quick else EPOCHS[network]


def environment(setting):
    """This process's environment, without the variables that a user has set for other jobs."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("TUTTI_", "DMLC_", "PS_"))}
    return env if setting.staleness is None else {**env, "TUTTI_STALENESS": setting.staleness}


def run(request, network, setting, seed):
    """The row of one training."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "run.json")
        words = [str(word) for word in words_for(request, network, setting, seed, file)]
        try:
            done = subprocess.run(words, env=environment(setting), text=True, check=False, timeout=LIMIT,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        except subprocess.TimeoutExpired:
            raise BenchError(f"{setting.name}, {network}: still running after {LIMIT} s") from None
        if done.returncode != 0:
            raise BenchError(f"{setting.name}, {network}: {last_words(done.stderr)}")
        weights = re.findall(r"rank \d+ weights sha256 (\w+)", done.stdout)
        if len(weights) != WORKERS[network] or len(set(weights)) != 1:
            raise BenchError(f"{setting.name}, {network}: the workers did not end with the same weights")
        epochs = json.loads(file.read_text())["epochs"]
    return {"network": network, "who": setting.name, "contest": setting.name, "seed": seed, "wrong": 0,
            "accuracy": [epoch["test_accuracy"] for epoch in epochs], "loss": [epoch["train_loss"] for epoch in epochs],
            "samples_per_second": [epoch["all_samples_per_second"] for epoch in epochs]}


def cells(rows):
    """{(network, setting): its rows}, in order."""
    return {(network, setting): own for network in EPOCHS for setting in SETTINGS
            if (own := [row for row in rows if (row["network"], row["who"]) == (network, setting.name)])}


def middle(rows, what, epoch):
    return statistics.median(row[what][epoch] for row in rows)


def verdicts(found):
    for (network, setting), rows in found.items():
        ends = [row["accuracy"][-1] for row in rows]
        reached = statistics.median(ends)
        yield Verdict("F", f"{network}, {setting.name}, accuracy", f">= {setting.wanted}", f"{reached:.4f}",
                      f"{min(ends):.4f} to {max(ends):.4f}", PASS if reached >= setting.wanted else SHORT)


def lines(found):
    for (network, setting), rows in found.items():
        yield [network, setting.name, len(rows[0]["accuracy"]), f"{middle(rows, 'accuracy', 0):.3f}",
               f"{middle(rows, 'accuracy', -1):.3f}", f"{middle(rows, 'loss', -1):.4f}",
               f"{statistics.median(speed for row in rows for speed in row['samples_per_second']):.0f}"]


def drawn(found):
    return curves({(network, setting.name): {epoch + 1: middle(rows, "accuracy", epoch)
                                             for epoch in range(len(rows[0]["accuracy"]))}
                   for (network, setting), rows in found.items()})


def seeds_of(request, network):
    """A seed for each round: of the first weights and of the samples' order, the same for all stores."""
    return range(1, 1 + (1 if network == LONG else request.rounds))


def measure(request):
    lost, rows = {}, []
    for network in [one for one in EPOCHS if one != LONG or not request.quick]:
        for seed in seeds_of(request, network):
            rows += [{**row, "round": seed - 1} for row in rounds.interleave(
                SETTINGS, WORKERS[network], 1,
                lambda one, seed=seed, network=network: [run(request, network, one, seed)], lost)]
    found = cells(rows)
    lines_drawn = drawn(found)
    lowest = min(accuracy for curve in lines_drawn for accuracy in curve.ys)
    workers = ", ".join(f"{network}: {count} workers" for network, count in WORKERS.items())
    return Outcome(
        f"digits, {workers} of batch 16, {SERVERS} servers, learning rate {RATE}", rows, list(verdicts(found)), lost,
        ["network", "store", "epochs", "accuracy after the first", "after the last", "loss of the last", "samples/s"],
        list(lines(found)), lines_drawn, ("epoch", "share of the test images classified right"),
        [f"# lenet: median of {request.rounds} rounds with other weights, the same for all stores; {LONG}: one round"],
        {"learning_rate": RATE}, Style(xscale="linear", yscale="linear", base=int(lowest * 10) / 10))
