"""A panel for each of the curves' names of one, PNG and SVG."""
import pathlib

COLOURS = {"tutti": "#c0392b", "tutti, replay": "#c0392b", "tutti, replay off": "#e6a79f", "tutti, shared": "#e67e22",
           "Open MPI": "#2c3e50", "Intel MPI": "#2980b9", "Gloo": "#27ae60",
           "hierarchical Open MPI": "#8e44ad", "MXNet, one array": "#2980b9",
           "MXNet, keys": "#16a085"}
COLUMNS = 3
LINES_WIDTH, BARS_WIDTH = 4.6, 7


def style(curve):
    if curve.bound:
        return {"color": "#888888", "linestyle": "--", "linewidth": 1.2, "marker": "x", "markersize": 4}
    chosen = {"marker": "o", "markersize": 3.5, "linewidth": 1.6}
    family = max((name for name in COLOURS if curve.label.startswith(name)), key=len, default=None)
    if family:
        chosen["color"] = COLOURS[family]
        if curve.label != family and not curve.label.startswith("MXNet"):
            chosen["linestyle"] = ":"
    return chosen


def draw_lines(curves, look, axes):
    for curve in curves:
        axes.plot(curve.xs, curve.ys, label=curve.label, **style(curve))
    axes.set_xscale(look.xscale, **({"base": 2} if look.xscale == "log" else {}))
    axes.set_yscale(look.yscale)
    if look.xscale == "linear":
        axes.set_xticks(sorted({x for curve in curves for x in curve.xs}))
    if look.yscale == "linear":
        axes.set_ylim(bottom=0)


def draw_bars(curves, look, axes):
    """Those that are there share the width of a group; the bound is a line across it."""
    bars = [curve for curve in curves if not curve.bound]
    for curve in bars:
        lefts, widths = [], []
        for x in curve.xs:
            there = [other for other in bars if x in other.xs]
            widths.append(0.8 / len(there))
            lefts.append(x - 0.4 + widths[-1] * there.index(curve))
        chosen = style(curve)
        drawn = axes.bar(lefts, curve.ys, widths, align="edge", label=curve.label, color=chosen.get("color"),
                         alpha=0.55 if "linestyle" in chosen else 1)
        axes.bar_label(drawn, [f"{y:.0f}" if y >= 100 else f"{y:.3g}" for y in curve.ys], fontsize=6)
    for curve in (curve for curve in curves if curve.bound):
        axes.hlines(curve.ys, [x - 0.45 for x in curve.xs], [x + 0.45 for x in curve.xs], colors="#333333", linestyles="--",
                    linewidth=1.4, zorder=3, label=curve.label)
    if look.yscale == "log":  # so that the shortest bar is seen, too
        axes.set_yscale("log")
        axes.set_ylim(bottom=min(y for curve in curves for y in curve.ys) / 3)
    axes.set_xticks(range(len(look.ticks)), look.ticks, fontsize=7)


def draw(panel, outcome, axes):
    curves = [curve for curve in outcome.curves if curve.panel == panel]
    (draw_bars if outcome.style.ticks else draw_lines)(curves, outcome.style, axes)
    axes.set_title(panel)
    axes.set_xlabel(outcome.axes[0])
    axes.grid(True, which="major", alpha=0.25)
    axes.legend(fontsize=7)


def grid_of(panels, pyplot, width):
    """(figure, axes by panel, those at the left), at most COLUMNS beside each other."""
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(width * columns, 4.4 * rows), squeeze=False, sharey="row")
    places = list(axes.flat)
    for empty in places[len(panels):]:
        empty.remove()
    return figure, dict(zip(panels, places)), [line[0] for line in axes]


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
    figure, places, firsts = grid_of(panels, pyplot, BARS_WIDTH if outcome.style.ticks else LINES_WIDTH)
    for panel, axes in places.items():
        draw(panel, outcome, axes)
    for axes in firsts:
        axes.set_ylabel(outcome.axes[1])
    figure.suptitle(outcome.title, fontsize=11, wrap=True)
    figure.tight_layout()
    files = [pathlib.Path(f"{stem}.{kind}") for kind in ("png", "svg")]
    for file in files:
        figure.savefig(file, dpi=110)
    pyplot.close(figure)
    return files
