"""Helpers for the tests of compare.py's modules: the path to the modules, and made-up rows and contests."""
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))

from compare.contest import Contest, Launcher

KIB, MIB = 1 << 10, 1 << 20


def row(contest, who, us, ranks=2, size=4):
    return {"contest": contest, "who": who, "ranks": ranks, "bytes": size, "time_us": {"p50": us},
            "setting": f"setting of {contest}", "wrong": 0}


def contest(name, needed=False, covers=None):
    return Contest(name, "as it comes", ("true",), Launcher(), {}, covers=covers, needed=needed)


def is_drawn(file):
    """Whether a picture shows more than a background, a title and a legend: at least one pixel in fifty is drawn on."""
    from matplotlib import image
    pixels = image.imread(file)[..., :3]
    return (pixels != pixels[0, 0]).any(axis=2).mean() > 0.02
