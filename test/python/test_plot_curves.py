#!/usr/bin/python3
"""examples/plot_curves.py: every run can be seen, whatever the others do."""
import copy
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

try:
    from matplotlib import colors, image
except ImportError:
    print("skipped: this Python has no matplotlib")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "examples"))
import plot_curves

RUN = {"workers": 4, "work_loads": [1], "batch_size": 4, "kv_store": "dist_sync_mpi", "network": "lenet",
       "dataset": "digits",
       "epochs": [{"epoch": number, "step_loss": [2.0 / (number + 1)] * 8, "train_loss": 2.0 / (number + 1),
                   "train_accuracy": 0.1 * number, "test_accuracy": 0.12 * number} for number in range(8)]}


def pixels_like(picture, colour):
    return int((abs(picture[:, :, :3] - colors.to_rgb(colour)).max(axis=2) < 0.1).sum())


class Curves(unittest.TestCase):
    def drawn(self, runs):
        with tempfile.TemporaryDirectory() as folder:
            files = [pathlib.Path(folder, f"{number}.json") for number in range(len(runs))]
            for file, run in zip(files, runs):
                file.write_text(json.dumps(run), encoding="utf-8")
            out = pathlib.Path(folder, "out.png")
            with mock.patch("sys.argv", ["plot_curves.py", "--out", str(out), *map(str, files)]):
                plot_curves.main()
            return image.imread(out)

    def test_runs_that_learn_the_same_are_all_seen(self):
        first = pixels_like(self.drawn([RUN]), plot_curves.COLOURS[0])
        both = self.drawn([RUN, {**copy.deepcopy(RUN), "workers": 1}])
        # Rings do not cover the line below them, as full marks would.
        self.assertGreater(pixels_like(both, plot_curves.COLOURS[0]), first // 4)
        self.assertGreater(pixels_like(both, plot_curves.COLOURS[1]), first // 4)


if __name__ == "__main__":
    unittest.main()
