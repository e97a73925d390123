"""This module describes a layout of emulated hosts, everything that ran on it in turn, and the bounds that its links
set."""
import dataclasses
import pathlib
import tempfile

from compare import emulated, lanes, openmpi, rounds
from compare.contest import Contest, Pace
from compare.figures import MAIN, Figures
from compare.targets import times

MB = 10**6
# The turns limit sizes that take long, the time limits others: 40 MB has few turns, 1 MB has many.
PACE = Pace(seconds=0.5, least=1, warmup=1)
QUICK_PACE = Pace(seconds=0.2, least=1, warmup=1)
COLUMNS = ["hosts", "ranks a host", "mapping", "size", "who", "setting", "median", "rounds", "MB/s", "of bound",
           "x tutti"]


def pace(request):
    """All links rest before each turn: a link that has rested lets a burst pass at once, and the bound assumes
    that."""
    return dataclasses.replace(QUICK_PACE if request.quick else PACE, rest=request.links.rest)


def stream_seconds(request):
    """The time that makes a link's first burst a thousandth of the bytes that the link has carried."""
    return 0.4 if request.quick else 0.8


@dataclasses.dataclass
class Case:
    """The results of one layout. `rate`: bytes of payload a second that a link carried in this run."""
    layout: emulated.Layout
    rows: list
    rate: float
    links: emulated.Links = emulated.Links()

    def __post_init__(self):
        self.figures = Figures(self.rows)

    def link_us(self, carried):
        """The time in which a link that has rested carries this many bytes, at least 1: even a burst takes some
        time."""
        return max((carried - self.links.burst) / self.rate * 1e6, 1)

    def bound_us(self, size):
        """The bound of an allreduce of this size."""
        return self.link_us(self.layout.share() * size)

    def own(self, size, who="tutti"):
        return self.figures.own(MAIN, who, self.layout.ranks, size)

    def best(self, family, size):
        return self.figures.best("tutti", family, self.layout.ranks, size)

    def picked(self, family, size):
        return self.figures.picked("tutti", family, self.layout.ranks, size)

    def sizes(self):
        return sorted({row["bytes"] for row in self.rows})

    def shown(self, size):
        """{who: the time that is shown for it}"""
        return {who: us for (who, _, its_size), us in self.figures.shown().items() if its_size == size}


@dataclasses.dataclass(frozen=True)
class Stage:
    """The means that contests need: `job` starts programs on the layout's hosts. The folder exists as long as they run.
    """
    request: object
    layout: emulated.Layout
    sizes: tuple
    job: emulated.OnHosts
    folder: pathlib.Path


def race(stage, contest):
    """The contest's rows, each with the bytes that the busiest host sent while the program ran, in all sizes and
    turns."""
    before = stage.job.lab.traffic()
    rows = contest.race(stage.layout.ranks, stage.sizes, pace(stage.request))
    sent = max(link["sent_bytes"] for link in emulated.mpi_job.since(before, stage.job.lab.traffic()))
    return [{**row, "sent_bytes_of_program": sent} for row in rows]


def measure(request, layout, sizes, contests_for, lost):
    """Measures one layout and returns a Case. `contests_for(stage, lost)` gives all contests that take turns."""
    missing = {}
    with emulated.launcher(layout, request.links) as job, tempfile.TemporaryDirectory() as folder:
        stage = Stage(request, layout, sizes, job, pathlib.Path(folder))
        seconds = stream_seconds(request)
        rates = [emulated.payload_rate(job, request.links, seconds)]
        rows = rounds.interleave(contests_for(stage, lost), layout.ranks, request.rounds,
                                 lambda contest: race(stage, contest), missing)
        rates.append(emulated.payload_rate(job, request.links, seconds))
    lost.update({f"{who} ({layout})": why for who, why in missing.items()})
    placed = {"hosts": layout.hosts, "ranks_a_host": layout.each, "mapping": layout.mapping}
    # The higher rate: that stream was held up least by anything but the link.
    return Case(layout, [{**row, **placed} for row in rows], max(rates), request.links)


def allreduce(stage, impls, *words):
    """A contest of tutti, Open MPI with its defaults, or both, in one process."""
    program = (stage.request.build / "benchmarks/allreduce_bench", "--impl", impls, *words)
    return Contest(MAIN, "default", program, stage.job, {"tutti": "tutti", "mpi": "Open MPI"}, needed=True)


def with_open_mpi(stage, lost):
    """Contests of tutti and Open MPI: with Open MPI's defaults, and with the quickest of its algorithms for each
    size."""
    ranks, quick = stage.layout.ranks, stage.request.quick
    alone = dataclasses.replace(allreduce(stage, "mpi"), name="screening", needed=False)
    choice = openmpi.screen(alone, ranks, stage.sizes, openmpi.on_hosts(quick), lost, stage.request.links.rest)
    main = allreduce(stage, "tutti,mpi")
    pair = dataclasses.replace(main, needed=False, names={"tutti": "tutti", "mpi": "Open MPI, picked"})
    return [main, *openmpi.picked(pair, ranks, choice, stage.folder)]


def size_text(size):
    """The size in MB of 10^6 bytes, as links are measured."""
    return f"{size / MB:g} MB"


def facts(case, share=None):
    """A dictionary for each line of the table. share(row's who): how many times the size the busiest link carries,
    where that differs from an allreduce."""
    figures, layout = case.figures, case.layout
    for contest, who, ranks, size in sorted(figures.keys(), key=lambda key: key[3]):
        us = figures.time(contest, who, ranks, size)
        own = figures.own(contest, "tutti", ranks, size)
        carried = (share(who) if share else layout.share()) * size
        yield {"hosts": layout.hosts, "ranks_a_host": layout.each, "mapping": layout.mapping, "bytes": size, "who": who,
               "setting": figures.settings[contest, ranks], "median_us": us,
               "rounds_us": figures.spread(contest, who, ranks, size),
               "bound_us": case.link_us(carried), "link_bytes": carried, "times_tutti": us / own if own else None}


def lines(found):
    """The lines of the table, made of facts."""
    return [[at["hosts"], at["ranks_a_host"], at["mapping"] if at["ranks_a_host"] > 1 else "-", size_text(at["bytes"]),
             at["who"],
             at["setting"], times(at["median_us"]), "-".join(times(us) for us in at["rounds_us"]),
             f"{at['link_bytes'] / at['median_us']:.1f}", f"{100 * at['bound_us'] / at['median_us']:.0f} %",
             f"{at['times_tutti']:.2f}" if at["times_tutti"] else "-"] for at in found]


def rate_notes(cases):
    links = cases[0].links
    listed = ", ".join(f"{case.layout}: {case.rate / MB:.1f} MB/s" for case in cases)
    return [f"# payload of a link, by single TCP streams before the rounds and behind (the quickest counts; "
            f"{links.payload / MB:.1f} expected): {listed}",
            "# the bound is 2(n-1)/n of the bytes at that rate, n being the hosts, but for the first "
            f"{links.burst / 1e3:.0f} kB, which a link that has rested, as all do "
            f"for {links.rest:g} ms before each turn, lets pass at once"]


def notes(cases):
    """Notes about the links, and what the programs said about themselves."""
    return [*rate_notes(cases), *lanes.describe([row for case in cases for row in case.rows])]


def record(found, table):
    """The record has the links' rate, the rate measured in each layout, and the table's lines as numbers."""
    return {"links_bps": found[0].links.rate, "payload_Bps": {str(case.layout): case.rate for case in found},
            "table": table}
