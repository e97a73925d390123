"""One panel for each number of ranks, PNG and SVG."""
import pathlib

COLOURS = {"tutti": "#c0392b", "tutti, shared": "#e67e22", "Open MPI": "#2c3e50", "Intel MPI": "#2980b9", "Gloo": "#27ae60"}


def style(curve):
    if curve.bound:
        return {"color": "#888888", "linestyle": "--", "linewidth": 1.2, "marker": "x", "markersize": 4}
    chosen = {"marker": "o", "markersize": 3.5, "linewidth": 1.6}
    family = max((name for name in COLOURS if curve.label.startswith(name)), key=len, default=None)
    if family:
        chosen["color"] = COLOURS[family]
        if curve.label != family:
            chosen["linestyle"] = ":"
    return chosen


def draw(panel, outcome, axes):
    for curve in (curve for curve in outcome.curves if curve.panel == panel):
        axes.plot(curve.xs, curve.ys, label=curve.label, **style(curve))
    axes.set_title(panel)
    axes.set_xscale("log", base=2)
    axes.set_yscale("log")
    axes.set_xlabel(outcome.axes[0])
    axes.grid(True, which="major", alpha=0.25)
    axes.legend(fontsize=7)


def write(stem, outcome):
    """[files]; none without matplotlib, which the rest does without."""
    try:
        import matplotlib
    except ImportError:
        print("no plot: this Python has no matplotlib; /usr/bin/python3 with python3-matplotlib has")
        return []
    matplotlib.use("Agg")
    from matplotlib import pyplot
    panels = list(dict.fromkeys(curve.panel for curve in outcome.curves))
    figure, all_axes = pyplot.subplots(1, len(panels), figsize=(4.6 * len(panels), 4.4), squeeze=False, sharey=True)
    for panel, axes in zip(panels, all_axes[0]):
        draw(panel, outcome, axes)
    all_axes[0][0].set_ylabel(outcome.axes[1])
    figure.suptitle(outcome.title, fontsize=11)
    figure.tight_layout()
    files = [pathlib.Path(f"{stem}.{kind}") for kind in ("png", "svg")]
    for file in files:
        figure.savefig(file, dpi=110)
    pyplot.close(figure)
    return files
