"""Part of suite lab: several ranks a host, in block and in cyclic mapping, P4."""
import dataclasses

from compare import cases, openmpi, peers
from compare.emulated import Layout
from compare.figures import CAPTION
from compare.outcome import Outcome, Style, curves
from compare.targets import Verdict, judge, missing, unpicked

MOST_VALUES = {"ranks": 0}
LAYOUTS = tuple((hosts, each) for each in (2, 4) for hosts in (2, 3, 4))
QUICK_LAYOUTS = ((2, 2),)
MAPPINGS = ("block", "cyclic")
SIZES = (10 * cases.MB,)
TIMES_FLAT = 1.3
HIERARCHICAL = "hierarchical Open MPI"
# Seconds. Some runs on four hosts never leave its own barrier (4.1.4); a run takes five.
HIERARCHICAL_LIMIT = 60


def contests(stage, lost):
    """Makes the contests. Open MPI's own hierarchical algorithm has a row of its own, because it is not flat."""
    han = dataclasses.replace(cases.allreduce(stage, "mpi"), name=HIERARCHICAL, setting="coll_han", needed=False,
                              names={"mpi": HIERARCHICAL}, env=dict(openmpi.HIERARCHICAL), limit=HIERARCHICAL_LIMIT)
    return [*cases.with_open_mpi(stage, lost), han]


def verdict(case, size):
    what = f"{case.layout}, {cases.size_text(size)}, tutti : flat Open MPI"
    towards = f" (towards {case.layout.each} x)" if case.layout.mapping == "cyclic" else ""
    wanted = f">= {TIMES_FLAT} x{towards}"
    best = case.best("Open MPI", size)
    if best is None:
        return missing("P4", what, wanted, "")
    if not case.picked("Open MPI", size):
        return missing("P4", what, wanted, unpicked("Open MPI", best))
    of = f" of {case.layout.each}" if towards else ""
    return Verdict("P4", what, wanted, f"{best.value:.2f} x{of}",
                   f"{best.own_us / 1e3:.4g} : {best.peer_us / 1e3:.4g} ms ({best.setting})",
                   judge(best.value, TIMES_FLAT))


def drawn(found):
    """A group of bars for each layout, as multiples of its bound; a panel for each mapping and size."""
    groups = list(dict.fromkeys((case.layout.hosts, case.layout.each) for case in found))
    series = {}
    for case in found:
        at = groups.index((case.layout.hosts, case.layout.each))
        for size in case.sizes():
            panel = f"{case.layout.mapping}, {cases.size_text(size)}"
            bound = case.bound_us(size)
            for who, us in {**case.shown(size), "bound": bound}.items():
                series.setdefault((panel, who), {})[at] = us / bound
    ticks = [f"{hosts} x {each}" for hosts, each in groups]
    return ticks, curves(series)


def measure(request):
    sizes = request.sizes or SIZES
    lost, found = peers.elsewhere(), []
    for hosts, each in QUICK_LAYOUTS if request.quick else LAYOUTS:
        for mapping in MAPPINGS:
            found.append(cases.measure(request, Layout(hosts, each, mapping), sizes, contests, lost))
    ticks, bars = drawn(found)
    table = [line for case in found for line in cases.facts(case)]
    return Outcome(
        f"allreduce f32, several ranks a host, {request.links}, median of {request.rounds} rounds",
        [row for case in found for row in case.rows], [verdict(case, size) for case in found for size in case.sizes()],
        lost, cases.COLUMNS, cases.lines(table), bars, ("hosts x ranks a host", "times as long as the bound"),
        cases.notes(found), cases.record(found, table), Style(yscale="linear", ticks=ticks), caption=CAPTION)
