"""The result of a suite."""
import dataclasses


@dataclasses.dataclass
class Curve:
    """A line of the plot: y over x. `bound`: it is a bound or a target, not measured."""
    panel: str
    label: str
    xs: list
    ys: list
    bound: bool = False


def curves(series):
    """Makes curves of {(panel, label): {x: y}}. The label of a bound begins with "bound" or "target"."""
    return [
        Curve(panel, label, sorted(points), [points[x] for x in sorted(points)], label.startswith(("bound", "target")))
        for (panel, label), points in series.items()]


@dataclasses.dataclass
class Style:
    """The way in which curves are drawn: as lines, or, if there are ticks, as groups of bars with the ticks below."""
    xscale: str = "log"  # the x axis of sizes in bytes
    yscale: str = "log"
    base: float = 0  # a linear y begins here, unless a value is lower
    ticks: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Outcome:
    title: str
    rows: list
    verdicts: list
    skipped: dict
    columns: list
    lines: list  # the lines of the table; each has as many fields as `columns`
    curves: list
    axes: tuple  # labels of x and y
    notes: list = dataclasses.field(default_factory=list)
    extra: dict = dataclasses.field(default_factory=dict)  # further measurements for the record
    style: Style = dataclasses.field(default_factory=Style)
    caption: str = ""  # which rows the curves show, if that is a choice
