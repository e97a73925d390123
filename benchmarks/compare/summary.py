"""Prints the results of tutti beside each peer at its best, from a kept record of suite node: a small table, the sizes
at which tutti loses, and a chart."""
import dataclasses
import json
import pathlib

from compare import looks
from compare.figures import Figures
from compare.targets import size_text, times

PEERS = ("Open MPI", "Intel MPI", "Gloo", "Horovod")
KIB, MIB = 1 << 10, 1 << 20
SIZES = (4, 64 * KIB, MIB, 64 * MIB)  # the table's sizes: all peers were measured there
DIGITS = 3  # significant digits of a time


@dataclasses.dataclass(frozen=True)
class Cell:
    """The times for one number of ranks and one size, in µs as they are shown. `peers`: {peer measured here: its
    best}."""
    ranks: int
    size: int
    tutti: float
    peers: dict

    @property
    def best(self):
        """The quickest peer's name."""
        return min(self.peers, key=self.peers.get)

    def ratio(self, peer):
        """The peer's time divided by tutti's, computed from the times that are shown."""
        return self.peers[peer] / self.tutti


def shown(us):
    """The time rounded as it is printed, so that printed times divide to the ratio beside them."""
    return float(f"{us:.{DIGITS}g}")


def cells(record):
    """The cells by ranks, then by size. All times are medians over the same rounds."""
    found = Figures(record["rows"]).shown()
    for ranks, size in sorted({(ranks, size) for _, ranks, size in found}):
        of = lambda family: [us for (who, *at), us in found.items() if at == [ranks, size]
                             and looks.family_of(who) == family]
        peers = {peer: shown(min(of(peer))) for peer in PEERS if of(peer)}
        if peers:
            yield Cell(ranks, size, shown(found["tutti", ranks, size]), peers)


def row(cell):
    texts = [times(cell.peers[peer]) if peer in cell.peers else "-" for peer in PEERS]
    return " | ".join(["", str(cell.ranks), size_text(cell.size), times(cell.tutti), *texts, cell.best,
                       f"{cell.ratio(cell.best):.2f}", ""]).strip()


def table(record):
    """The table in Markdown."""
    head = " | ".join(["", "ranks", "size", "tutti", *PEERS, "quickest peer", "ratio", ""]).strip()
    return "\n".join(
        [head, "|" + "---|" * (5 + len(PEERS)), *(row(cell) for cell in cells(record) if cell.size in SIZES)])


def loses(cell):
    """Whether tutti loses, by the ratio as it is printed."""
    return round(cell.ratio(cell.best), 2) < 1


def stretches(found):
    """Sizes of one number of ranks at which tutti loses: [[first ... last], ...]."""
    runs = [[]]
    for cell in found:
        if loses(cell):
            runs[-1].append(cell.size)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def stretch_text(run):
    return f"{size_text(run[0])} to {size_text(run[-1])}" if len(run) > 1 else size_text(run[0])


def losses(ranks, found):
    lost = [cell for cell in found if loses(cell)]
    if not lost:
        return None
    ratios = sorted(cell.ratio(cell.best) for cell in lost)
    span = " to ".join(dict.fromkeys(f"{ratio:.2f}" for ratio in (ratios[0], ratios[-1])))
    winners = " or ".join(dict.fromkeys(cell.best for cell in lost))
    return f"{ranks} ranks, {', '.join(map(stretch_text, stretches(found)))} ({winners}: {span} of tutti's time)"


def where_it_loses(record):
    found = list(cells(record))
    texts = (losses(ranks, [cell for cell in found if cell.ranks == ranks])
             for ranks in sorted({cell.ranks for cell in found}))
    return "; ".join(filter(None, texts)) or "nowhere"


def draw(figure, record):
    """A panel for each number of ranks: how many times as long as tutti each peer took."""
    found = list(cells(record))
    every = sorted({cell.ranks for cell in found})
    panels = figure.subplots(1, len(every), sharey=True, squeeze=False)[0]
    for axes, ranks in zip(panels, every):
        own = [cell for cell in found if cell.ranks == ranks]
        for peer in PEERS:
            there = [cell for cell in own if peer in cell.peers]
            axes.plot([cell.size for cell in there], [cell.ratio(peer) for cell in there], label=f"{peer}, its best",
                      color=looks.FAMILIES[peer], marker="o", markersize=3.5, linewidth=1.6)
        axes.axhline(1, color=looks.FAMILIES[looks.TUTTI], linewidth=2.4, label="tutti")
        axes.axhspan(1e-3, 1, color=looks.FAMILIES[looks.TUTTI], alpha=0.08, linewidth=0)
        sizes = [cell.size for cell in own]
        axes.set(title=f"{ranks} ranks", xscale="log", yscale="log", xlabel="size of an allreduce")
        axes.set_xticks(sizes, map(size_text, sizes), rotation=60, fontsize=8)
        axes.minorticks_off()
        axes.grid(True, alpha=0.25)
    ratios = [cell.ratio(peer) for cell in found for peer in cell.peers]
    low, high = min(ratios) / 1.4, max(ratios) * 1.4
    ticks = [tick for tick in (0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500) if low <= tick <= high]
    panels[0].set_ylim(low, high)
    panels[0].set_yticks(ticks, [f"{tick:g} ×" for tick in ticks])
    panels[0].set_ylabel("its time over tutti's\n(shaded: tutti loses)")
    machine = record["machine"]
    figure.suptitle(
        f"allreduce f32 on one machine ({machine['cpu']}, {machine['cores']} cores), median of {record['rounds']} "
        "rounds", fontsize=11)
    figure.legend(*panels[0].get_legend_handles_labels(), loc="lower center", ncols=len(PEERS) + 1, fontsize=9,
                  frameon=False)


def write_chart(file, record):
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot
    figure = pyplot.figure(figsize=(12, 4.6), layout="constrained")
    draw(figure, record)
    figure.get_layout_engine().set(rect=(0, 0.07, 1, 0.93))  # below it is the legend
    figure.savefig(file, dpi=110)
    pyplot.close(figure)


def read(file):
    record = json.loads(pathlib.Path(file).read_text())
    if record["suite"] != "node":
        raise ValueError(f"is a record of suite {record['suite']}, not of suite node")
    return record


def text(record):
    return f"{table(record)}\n\nWhere it loses ({record['machine']['cpu']}): {where_it_loses(record)}."
