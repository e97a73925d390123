"""What a suite hands back."""
import dataclasses


@dataclasses.dataclass
class Curve:
    """A line of the plot: y over x; `bound` ones are no series of anybody's."""
    panel: str
    label: str
    xs: list
    ys: list
    bound: bool = False


def curves(series):
    """Of {(panel, label): {x: y}}. A bound's label says so, or that it is a target."""
    return [Curve(panel, label, sorted(points), [points[x] for x in sorted(points)], label.startswith(("bound", "target")))
            for (panel, label), points in series.items()]


@dataclasses.dataclass
class Style:
    """How curves are drawn: as lines, or, with ticks, as bars in groups that these stand below."""
    xscale: str = "log"  # of bytes
    yscale: str = "log"
    base: float = 0  # where a linear y begins, unless something is below it
    ticks: list = dataclasses.field(default_factory=list)


@dataclasses.dataclass
class Outcome:
    title: str
    rows: list
    verdicts: list
    skipped: dict
    columns: list
    lines: list  # of the table, each as long as columns
    curves: list
    axes: tuple  # what x and y are
    notes: list = dataclasses.field(default_factory=list)
    extra: dict = dataclasses.field(default_factory=dict)  # further measurements for the record
    style: Style = dataclasses.field(default_factory=Style)
    caption: str = ""  # what of the rows the curves are, where there is a choice
