"""Part of suite lab: one rank a host, held up by the links, P3."""
from compare import cases, intel_on_hosts, peers
from compare.emulated import Layout
from compare.figures import CAPTION
from compare.outcome import Outcome, Style, curves
from compare.targets import SHORT, Verdict, judge, judge_share, missing, unpicked

HOSTS, QUICK_HOSTS = (2, 3, 4, 5, 6, 8), (4,)
SIZES, QUICK_SIZES = (cases.MB, 10 * cases.MB, 40 * cases.MB), (cases.MB, 10 * cases.MB)
OF_BOUND = 0.95
TIMES_OPEN_MPI = 1.1
NO_ROOM = "no room"


def contests(stage, lost):
    others, skipped = peers.found(stage.request, {
        "Intel MPI": lambda request: intel_on_hosts.contests(stage),
        "Gloo": lambda request: peers.gloo(request, stage.job, "between hosts", ("--master", stage.job.first))})
    lost.update(skipped)
    return [*cases.with_open_mpi(stage, lost), *others]


def of_bound(target, case, size, wanted):
    """A verdict on the part of the links' rate that was reached."""
    us, bound = case.own(size), case.bound_us(size)
    return Verdict(target, f"{case.layout}, {cases.size_text(size)}, part of the bound", f">= {100 * wanted:.0f} %",
                   f"{100 * bound / us:.1f} %", f"{us / 1e3:.4g} ms, bound {bound / 1e3:.4g} ms",
                   judge_share(bound / us, wanted))


def against_open_mpi(case, size):
    """A verdict on the ratio to Open MPI's best. If that is within 1.1 times the bound, no implementation can be 1.1
    times as fast."""
    what, wanted = f"{case.layout}, {cases.size_text(size)}, tutti : Open MPI", f">= {TIMES_OPEN_MPI} x"
    best = case.best("Open MPI", size)
    if best is None:
        return missing("P3", what, wanted, "")
    if not case.picked("Open MPI", size):
        return missing("P3", what, wanted, unpicked("Open MPI", best))
    room = best.peer_us / case.bound_us(size)
    verdict = judge(best.value, TIMES_OPEN_MPI)
    if verdict == SHORT and room < TIMES_OPEN_MPI:
        verdict = NO_ROOM
    detail = f"{best.own_us / 1e3:.4g} : {best.peer_us / 1e3:.4g} ms ({best.setting}); at most {room:.2f} x"
    return Verdict("P3", what, wanted, f"{best.value:.2f} x", detail, verdict)


def verdicts(found):
    return [verdict for case in found for size in case.sizes()
            for verdict in (of_bound("P3", case, size, OF_BOUND), against_open_mpi(case, size))]


def drawn(found):
    """MB/s over each link, without the first burst, by the number of hosts; a panel for each size."""
    series = {}
    for case in found:
        for size in case.sizes():
            rates = {who: case.bound_us(size) / us * case.rate for who, us in case.shown(size).items()}
            for who, rate in {**rates, "bound: payload of a link": case.rate}.items():
                series.setdefault((cases.size_text(size), who), {})[case.layout.hosts] = rate / cases.MB
    return curves(series)


def measure(request):
    sizes = request.sizes or (QUICK_SIZES if request.quick else SIZES)
    lost, found = peers.elsewhere("Intel MPI", "Gloo"), []
    for hosts in request.ranks or (QUICK_HOSTS if request.quick else HOSTS):
        found.append(cases.measure(request, Layout(hosts), sizes, contests, lost))
    table = [line for case in found for line in cases.facts(case)]
    return Outcome(
        f"allreduce f32, one rank a host, {request.links}, median of {request.rounds} rounds",
        [row for case in found for row in case.rows], verdicts(found), lost, cases.COLUMNS,
        cases.lines(table), drawn(found), ("hosts", "MB/s over a link, either way"),
        cases.notes(found), cases.record(found, table), Style(xscale="linear", yscale="linear"), caption=CAPTION)
