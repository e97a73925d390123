"""What a suite hands back."""
import dataclasses


@dataclasses.dataclass
class Curve:
    """A line of the plot: y over x; `bound` ones are drawn dashed."""
    panel: str
    label: str
    xs: list
    ys: list
    bound: bool = False


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
