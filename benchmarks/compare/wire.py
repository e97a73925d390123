"""Part of suite lab: 16 bits on the wire beside tutti's own f32, P6."""
import dataclasses

from compare import cases, peers
from compare.emulated import Layout
from compare.outcome import Outcome, Style, curves
from compare.targets import Verdict, judge, missing

HOSTS, QUICK_HOSTS = (2, 4, 8), (4,)
SIZES, QUICK_SIZES = (10 * cases.MB, 40 * cases.MB), (10 * cases.MB,)
WIRES = ("bf16", "fp16")
TIMES_F32 = 1.9


def label(wire):
    return f"tutti, {wire} wire"


def contests(stage, _):
    own = dataclasses.replace(cases.allreduce(stage, "tutti"), name="tutti, f32", setting="f32")
    return [own, *(dataclasses.replace(cases.allreduce(stage, "tutti", "--wire", wire), name=label(wire), needed=False,
                                       names={"tutti": label(wire)}, setting=f"set_gradient_compression('{wire}')")
                   for wire in WIRES)]


def verdict(case, size, wire):
    what, wanted = f"{case.layout}, {cases.size_text(size)}, {wire} : f32 on the wire", f">= {TIMES_F32} x"
    narrow = case.best(label(wire), size)
    if narrow is None:
        return missing("P6", what, wanted, "")
    ratio = narrow.own_us / narrow.peer_us
    return Verdict("P6", what, wanted, f"{ratio:.2f} x", f"{narrow.peer_us / 1e3:.4g} : {narrow.own_us / 1e3:.4g} ms",
                   judge(ratio, TIMES_F32))


def drawn(found):
    series = {}
    for case in found:
        for size in case.sizes():
            at = case.shown(size)
            ratios = {who: at["tutti"] / us for who, us in at.items() if who != "tutti"}
            for who, ratio in {**ratios, "bound": 2, "target": TIMES_F32}.items():
                series.setdefault((cases.size_text(size), who), {})[case.layout.hosts] = ratio
    return curves(series)


def halved(case):
    """The table's facts; with 16 bits a link carries half the bytes."""
    return cases.facts(case, share=lambda who: case.layout.share() / (1 if who == "tutti" else 2))


def measure(request):
    sizes = request.sizes or (QUICK_SIZES if request.quick else SIZES)
    lost, found = peers.elsewhere(), []
    for hosts in request.ranks or (QUICK_HOSTS if request.quick else HOSTS):
        found.append(cases.measure(request, Layout(hosts), sizes, contests, lost))
    table = [line for case in found for line in halved(case)]
    return Outcome(
        f"allreduce of f32 tensors with 16 bits on the wire, {request.links}, median of {request.rounds} rounds",
        [row for case in found for row in case.rows],
        [verdict(case, size, wire) for case in found for size in case.sizes() for wire in WIRES],
        lost, cases.COLUMNS, cases.lines(table), drawn(found),
        ("hosts", "times as fast as f32 on the wire"), cases.notes(found), cases.record(found, table),
        Style(xscale="linear", yscale="linear", base=1))
