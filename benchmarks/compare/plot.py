"""A panel for each of the curves' names of one, and one legend beside them, PNG and SVG."""
import pathlib

from compare import looks
from compare.targets import size_text

COLUMNS = 3
PANEL_WIDTH, MOST_WIDTH, HEIGHT = 4.8, 16, 4.6  # inches
BAR_WIDTH, BESIDE_BARS = 0.3, 1.1  # inches: of a bar, wide enough for its figure; of the axis and its margin
BETWEEN = 1.4  # space between groups, in bars: wide enough for the text below one bar
OF_BOUND = {"target": ":"}  # the other bounds are dashed


def bound_style(curve):
    return {"color": "#333333", "linestyle": OF_BOUND.get(curve.label, "--"), "linewidth": 1.4}


def draw_lines(curves, look_of, style, axes):
    for curve in curves:
        shown = {**bound_style(curve), "marker": "x", "markersize": 4} if curve.bound else look_of[curve.label].line()
        axes.plot(curve.xs, curve.ys, label=curve.label, **shown)
    axes.set_xscale(style.xscale)
    measured = sorted({x for curve in curves for x in curve.xs})
    if style.xscale == "log":
        axes.set_xticks(measured, map(size_text, measured), rotation=60, fontsize=8)
        axes.minorticks_off()
    else:
        axes.set_xticks(measured)
    axes.grid(True, alpha=0.25)


def groups_of(curves, count):
    """[(where a group's bars begin, the curves with a bar in it)]; every bar is 1 wide."""
    groups, begin = [], 0
    for x in range(count):
        there = [curve for curve in curves if not curve.bound and x in curve.xs]
        groups.append((begin, there))
        begin += len(there) + BETWEEN
    return groups


def draw_bars(curves, look_of, style, axes):
    """Draws groups of bars, each as wide as it has bars; a bound is a line across the group."""
    from matplotlib import patheffects
    groups = groups_of(curves, len(style.ticks))
    for curve in curves:
        begins = [groups[x][0] for x in curve.xs]
        if curve.bound:
            ends = [begin + len(groups[x][1]) for begin, x in zip(begins, curve.xs)]
            axes.hlines(curve.ys, [begin - 0.25 for begin in begins], [end + 0.25 for end in ends], label=curve.label,
                        zorder=3,
                        **{f"{name}s": value for name, value in bound_style(curve).items()})
            continue
        lefts = [begin + groups[x][1].index(curve) for begin, x in zip(begins, curve.xs)]
        drawn = axes.bar(lefts, curve.ys, 1, align="edge", label=curve.label, **look_of[curve.label].bar())
        axes.bar_label(drawn, [f"{y:.0f}" if y >= 100 else f"{y:.3g}" for y in curve.ys], padding=1, fontsize=7,
                       zorder=4,
                       path_effects=[patheffects.withStroke(linewidth=2, foreground="white")])
    axes.set_xticks([begin + len(there) / 2 for begin, there in groups], style.ticks, fontsize=8)
    axes.grid(True, axis="y", alpha=0.25)


def panel_width(curves, count):
    """The width of a panel in inches; bars are wide enough for their figures."""
    begin, there = groups_of(curves, count)[-1] if count else (0, [])
    return max(PANEL_WIDTH, BESIDE_BARS + BAR_WIDTH * (begin + len(there)))


def limit(curves, style, axes):
    """Sets the limits of y, the same for all panels, so that nothing touches the edge."""
    ys = [y for curve in curves for y in curve.ys]
    if style.yscale == "log":
        axes.set_yscale("log")  # bars begin below the shortest, so that it is seen, too
        axes.set_ylim(min(ys) / (3 if style.ticks else 1.6), max(ys) * 1.6)
    else:
        axes.set_ylim(min(style.base, *ys), style.base + (max(ys) - style.base) * 1.06)


def legend(figure, curves):
    """Draws one legend for all panels, where it hides nothing; bounds come last."""
    handles = {}
    for axes in figure.axes:
        handles.update((label, handle) for handle, label in zip(*axes.get_legend_handles_labels()))
    labels = dict.fromkeys(curve.label for curve in sorted(curves, key=lambda curve: curve.bound))
    figure.legend([handles[label] for label in labels], labels, loc="upper left", bbox_to_anchor=(1, 0.92), fontsize=8,
                  handlelength=3.5, handleheight=1.2)


def panels_of(curves):
    """{panel: its curves}, in order."""
    panels = {}
    for curve in curves:
        panels.setdefault(curve.panel, []).append(curve)
    return panels


def places(figure, panels, width):
    """Axes by rows, one for each panel: as many beside each other as are not too wide, at most COLUMNS."""
    columns = min(COLUMNS, len(panels), max(1, int(MOST_WIDTH / width)))
    rows = -(-len(panels) // columns)
    figure.set_size_inches(width * columns, HEIGHT * rows)
    found = figure.subplots(rows, columns, squeeze=False, sharey=True)
    for empty in found.flat[len(panels):]:
        empty.remove()
    return found


def draw(figure, outcome):
    curves, style = outcome.curves, outcome.style
    panels = panels_of(curves)
    grid = places(figure, panels, max(panel_width(own, len(style.ticks)) for own in panels.values()))
    look_of = looks.of(dict.fromkeys(curve.label for curve in curves if not curve.bound))
    for axes, (panel, own) in zip(grid.flat, panels.items()):
        (draw_bars if style.ticks else draw_lines)(own, look_of, style, axes)
        axes.set_title(panel)
        axes.set_xlabel(outcome.axes[0])
        axes.set_axisbelow(True)
    limit(curves, style, grid[0, 0])
    for axes in grid[:, 0]:
        axes.set_ylabel(outcome.axes[1])
    figure.suptitle("\n".join(filter(None, [outcome.title, outcome.caption])), fontsize=11, wrap=True)
    figure.tight_layout()
    legend(figure, curves)


def write(stem, outcome):
    """Draws the plots and returns their files; none without curves, or matplotlib, which nothing else needs."""
    if not outcome.curves:
        return []
    try:
        import matplotlib
    except ImportError:
        print("no plot: this Python has no matplotlib; /usr/bin/python3 with python3-matplotlib has")
        return []
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure = pyplot.figure()
    draw(figure, outcome)
    files = [pathlib.Path(f"{stem}.{kind}") for kind in ("png", "svg")]
    for file in files:
        figure.savefig(file, dpi=110, bbox_inches="tight")
    pyplot.close(figure)
    return files
