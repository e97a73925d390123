"""Part of suite lab: 40 MB from every worker to every worker, by allreduce and by MXNet's parameter server, P5."""
from compare import cases, peers
from compare.emulated import Layout
from compare.figures import CAPTION
from compare.outcome import Outcome, Style, curves
from compare.targets import FINE, Verdict, judge, missing

MOST_VALUES = {"sizes": 1, "ranks": 1}
WORKERS = 8
SIZE, QUICK_SIZE = 40 * cases.MB, 4 * cases.MB
# {servers: how many times as long as tutti MXNet should take at least}.
SERVERS = {1: 6.5, 2: 3.6, 4: 1.9, 8: 1.25}
QUICK_SERVERS = (1, 8)
OVER_BOUND = 1.06
ONE_ARRAY, KEYS = "one array", "keys of ResNet-50"


def overlapped(workers, servers):
    """How many times the size the busiest host's link carries in each direction, with push and pull at once: what
    all other workers push to its server, and what all other servers give to its worker. A server has 1/servers of
    every array."""
    return ((workers - 1) + (servers - 1)) / servers


def one_after_the_other(workers, servers):
    """The same if nobody pulls before all have pushed: then push and pull each load one direction of a server's
    link."""
    return 2 * (workers - 1) / servers


def servers_of(who):
    """The number of servers in a row's `who`; None for an allreduce."""
    return int(who.split()[1]) if who.startswith("MXNet") else None


def counts(request, workers):
    """The numbers of servers to measure: at most one server for each worker's host."""
    return [servers for servers in (QUICK_SERVERS if request.quick else SERVERS) if servers <= workers]


def share(case, who):
    servers = servers_of(who)
    return overlapped(case.layout.hosts, servers) if servers else case.layout.share()


def mxnet(stage):
    words = ("--master", stage.job.first, "--interface", "eth0")
    return [contest for servers in counts(stage.request, stage.layout.hosts)
            for contest in peers.mxnet(stage.request, stage.job, servers, words)]


def contests(stage, lost):
    others, skipped = peers.found(stage.request, {"MXNet's parameter server": lambda request: mxnet(stage)})
    lost.update(skipped)
    return [*cases.with_open_mpi(stage, lost), *others]


def of_bound(case, size):
    us, bound = case.own(size), case.bound_us(size)
    return Verdict("P5", f"{case.layout}, {cases.size_text(size)}, tutti : bound", f"<= {OVER_BOUND} x",
                   f"{us / bound:.{FINE}f} x", f"{us / 1e3:.4g} : {bound / 1e3:.4g} ms",
                   judge(us / bound, OVER_BOUND, at_most=True, digits=FINE))


def against(case, size, servers):
    """A verdict on the ratio to MXNet's quicker way: one array or many keys."""
    name = peers.mxnet_with(servers)
    what, wanted = f"{case.layout}, {cases.size_text(size)}, tutti : {name}", f">= {SERVERS[servers]} x"
    best = case.best(name, size)
    if best is None:
        return missing("P5", what, wanted, "")
    kind = KEYS if best.peer.endswith("keys") else ONE_ARRAY
    return Verdict("P5", what, wanted, f"{best.value:.2f} x",
                   f"{best.own_us / 1e3:.4g} : {best.peer_us / 1e3:.4g} ms ({kind})",
                   judge(best.value, SERVERS[servers]))


def place(who):
    """(what stands below its group of bars, the bar's label)"""
    name, _, keys = who.partition(", ResNet")
    if servers_of(who) is None:
        return name.replace(", ", ",\n"), name
    return name.replace(", ", ",\n"), f"MXNet, {KEYS if keys else ONE_ARRAY}"


def drawn(case, size):
    """One group of bars for each layout, with its bound; MXNet's have two bars."""
    panel = f"{cases.size_text(size)} a worker, {case.layout.hosts} workers, servers on the workers' hosts"
    series, bounds = {}, {}
    for who, us in case.shown(size).items():
        tick, label = place(who)
        at = list(bounds).index(tick) if tick in bounds else len(bounds)
        bounds[tick] = case.link_us(share(case, who) * size) / 1e3
        series.setdefault((panel, label), {})[at] = us / 1e3
    series[panel, "bound of the layout"] = dict(enumerate(bounds.values()))
    return list(bounds), curves(series)


def layout_notes(case, size, servers_counts):
    """Notes with the exact bound of each layout."""
    n, seconds = case.layout.hosts, lambda sizes: f"{case.link_us(sizes * size) / 1e6:.4g} s"
    share = case.layout.share()
    yield f"# allreduce: a link carries 2(n-1)/n = {share:.4g} sizes either way, {seconds(share)}"
    for servers in servers_counts:
        both, halves = overlapped(n, servers), one_after_the_other(n, servers)
        yield (
            f"# {servers} of the {n} hosts with a server beside the worker: the busiest link carries (n-1 + s-1)/s = "
            f"{both:.4g} sizes "
            f"either way, {seconds(both)} with push and pull at once; 2(n-1)/s = {halves:.4g} sizes, "
            f"{seconds(halves)}, "
            "one after the other")


def facts(case):
    """The table's facts, with each line's number of servers and its own layout's bound."""
    return [{**line, "servers": servers_of(line["who"])} for line in cases.facts(case, lambda who: share(case, who))]


def measure(request):
    size = request.sizes[-1] if request.sizes else QUICK_SIZE if request.quick else SIZE
    workers = request.ranks[-1] if request.ranks else WORKERS
    lost = peers.elsewhere("MXNet's parameter server")
    case = cases.measure(request, Layout(workers), (size,), contests, lost)
    ticks, bars = drawn(case, size)
    table = facts(case)
    return Outcome(
        f"push and pull of {cases.size_text(size)} by {workers} workers, {request.links}, median of {request.rounds} "
        "rounds",
        case.rows, [of_bound(case, size), *(against(case, size, servers) for servers in counts(request, workers))],
        lost, cases.COLUMNS,
        cases.lines(table), bars, ("", "time of push and pull, ms"),
        [*cases.notes([case]), *layout_notes(case, size, counts(request, workers))], cases.record([case], table),
        Style(yscale="linear", ticks=ticks), caption=CAPTION)
