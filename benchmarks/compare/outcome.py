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
