"""Parts of suite ps: 40 MB from every worker to every worker over links, by allreduce and by parameter servers on the
workers' hosts, P5, or on hosts of their own."""
import dataclasses
import os

from compare import cases, peers, served
from compare.contest import Contest
from compare.emulated import Layout, hosts
from compare.figures import CAPTION
from compare.outcome import Outcome, Style, curves
from compare.targets import FINE, Verdict, judge, missing

MOST_VALUES = {"sizes": 1, "ranks": 1}
WORKERS = 8
SIZE, QUICK_SIZE = 40 * cases.MB, 4 * cases.MB
# {servers: how many times as long as tutti's allreduce MXNet should take at least}.
SERVERS = {1: 6.5, 2: 3.6, 4: 1.9, 8: 1.25}
QUICK_SERVERS = (1, 8)
OVER_BOUND, SERVERS_OVER_BOUND = 1.06, 1.15
# Headers and heartbeats may add this much to the bytes that the bound counts.
ON_THE_WIRE = 1.05
ONE_ARRAY, KEYS = "one array", "keys of ResNet-50"


def beside(workers, servers):
    """The load of the busiest host's link in each direction, as a multiple of the size, with push and pull at once: it
    carries the bytes that all other workers push to this host's server, and the bytes that all other servers give to
    this host's worker. A server has 1/servers of every array."""
    return ((workers - 1) + (servers - 1)) / servers


def apart(workers, servers):
    """The same multiple if servers have hosts of their own: a server's link carries all pushes."""
    return max(workers / servers, 1)


def one_after_the_other(workers, servers):
    """The multiple if the servers are on the workers' hosts and nobody pulls before all have pushed: then push and pull
    each load one direction of a server's link."""
    return 2 * (workers - 1) / servers


def servers_of(who):
    """The number of servers in a row's `who`; None for an allreduce."""
    words = who.split(", ")
    return int(words[1].split()[0]) if len(words) > 1 and "server" in words[1] else None


def counts(request, workers):
    """The numbers of servers to measure: at most one server for each worker's host."""
    return [servers for servers in (QUICK_SERVERS if request.quick else SERVERS) if servers <= workers]


def share(case, who):
    servers = servers_of(who)
    if servers is None:
        return case.layout.share()
    return (apart if case.layout.apart else beside)(case.layout.hosts, servers)


def where(stage, servers):
    names = stage.job.lab.names
    return served.on_hosts(stage.job, (names[stage.layout.hosts:] or names)[:servers])


def tutti(stage):
    """tutti's servers: one array, or many keys."""
    request, found = stage.request, []
    for servers in counts(request, stage.layout.hosts):
        name = peers.with_servers("tutti", servers)
        found.append(Contest(name, "dist_sync, sums on the servers",
                             (request.build / "benchmarks/server_bench", "--as", "array,keys"),
                             served.served(stage.job, servers, served.tuttis(request), where(stage, servers)),
                             {"tutti": name, "tutti keys": f"{name}, ResNet-50's keys"}, needed=True))
    return found


def mxnet(stage):
    """MXNet's programs, with as many servers. A short run has only the largest number of servers, because each process
    loads MXNet anew."""
    every = counts(stage.request, stage.layout.hosts)
    return [contest for servers in (every[-1:] if stage.request.quick else every)
            for contest in peers.mxnet(stage.request, stage.job, servers, where(stage, servers))]


def contests(stage, lost):
    others, skipped = peers.found(stage.request, {"MXNet's parameter server": lambda request: mxnet(stage)})
    lost.update(skipped)
    return [*cases.with_open_mpi(stage, lost), *tutti(stage), *others]


def of_bound(case, size):
    us, bound = case.own(size), case.bound_us(size)
    return Verdict("P5", f"{case.layout}, {cases.size_text(size)}, tutti : bound", f"<= {OVER_BOUND} x",
                   f"{us / bound:.{FINE}f} x", f"{us / 1e3:.4g} : {bound / 1e3:.4g} ms",
                   judge(us / bound, OVER_BOUND, at_most=True, digits=FINE))


def against(case, size, servers):
    """A verdict on the ratio of MXNet's quicker way, one array or many keys, to tutti's allreduce."""
    name = peers.with_servers("MXNet", servers)
    what, wanted = f"{case.layout}, {cases.size_text(size)}, tutti : {name}", f">= {SERVERS[servers]} x"
    best = case.best(name, size)
    if best is None:
        return missing("P5", what, wanted, "")
    return Verdict("P5", what, wanted, f"{best.value:.2f} x",
                   f"{best.own_us / 1e3:.4g} : {best.peer_us / 1e3:.4g} ms ({way(best.peer)})",
                   judge(best.value, SERVERS[servers]))


def way(who):
    return KEYS if who.endswith("keys") else ONE_ARRAY


def quicker(case, size, name):
    """(the time of the quicker way, its `who`); None if it was not measured."""
    return min(((us, who) for who, us in case.shown(size).items() if f"{who}, ".startswith(f"{name}, ")), default=None)


def servers_of_bound(case, size, servers):
    """A verdict on tutti's servers beside what the busiest link must carry."""
    us, who = quicker(case, size, peers.with_servers("tutti", servers))
    bound = case.link_us(share(case, who) * size)
    return Verdict("F", f"{case.layout}, {cases.size_text(size)}, {peers.with_servers('tutti', servers)} : bound",
                   f"<= {SERVERS_OVER_BOUND} x", f"{us / bound:.{FINE}f} x",
                   f"{us / 1e3:.4g} : {bound / 1e3:.4g} ms ({way(who)})",
                   judge(us / bound, SERVERS_OVER_BOUND, at_most=True, digits=FINE))


def servers_against(case, size, servers):
    """A verdict on tutti's servers beside as many of MXNet's."""
    us, who = quicker(case, size, peers.with_servers("tutti", servers))
    native = quicker(case, size, peers.with_servers("MXNet", servers))
    what, wanted = f"{case.layout}, {cases.size_text(size)}, {peers.with_servers('tutti', servers)} : MXNet", ">= 1 x"
    if native is None:
        return missing("F", what, wanted, "")
    return Verdict("F", what, wanted, f"{native[0] / us:.2f} x",
                   f"{us / 1e3:.4g} : {native[0] / 1e3:.4g} ms ({way(who)} : {way(native[1])})",
                   judge(native[0] / us, 1))


def on_the_wire(case, servers, warmup):
    """A verdict on the bytes that the busiest host sent, compared with the bound's bytes, over all turns of a program.
    """
    name = peers.with_servers("tutti", servers)
    ratios = []
    for number in sorted({row["round"] for row in case.rows}):
        rows = [row for row in case.rows if row["round"] == number and row["contest"] == name]
        turns = sum((row["iters"] + warmup) * row["bytes"] for row in rows)
        ratios.append(rows[0]["sent_bytes_of_program"] / (share(case, name) * turns))
    most = max(ratios)
    return Verdict("F", f"{case.layout}, {name}, bytes on the wire : bound", f"<= {ON_THE_WIRE} x",
                   f"{most:.{FINE}f} x", "of the host that sent most, in any round",
                   judge(most, ON_THE_WIRE, at_most=True, digits=FINE))


def verdicts(case, size, request):
    warmup = cases.pace(request).warmup
    for servers in counts(request, case.layout.hosts):
        yield servers_of_bound(case, size, servers)
        yield servers_against(case, size, servers)
        yield on_the_wire(case, servers, warmup)


def place(who):
    """(what stands below its group of bars, the bar's label)"""
    servers = servers_of(who)
    if servers is None:
        return who.replace(", ", ",\n"), who
    family = who.partition(",")[0]
    return peers.with_servers("", servers)[2:], f"{family if family == 'MXNet' else 'tutti, servers'}, {way(who)}"


def drawn(case, size):
    """One group of bars for each layout, with its bound."""
    beside_them = f"{case.layout.apart} further hosts for servers" if case.layout.apart else \
        "servers on the workers' hosts"
    panel = f"{cases.size_text(size)} a worker, {case.layout.hosts} workers, {beside_them}"
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
    own = case.layout.share()
    yield f"# allreduce: a link carries 2(n-1)/n = {own:.4g} sizes either way, {seconds(own)}"
    for servers in servers_counts:
        if case.layout.apart:
            most = apart(n, servers)
            yield (f"# {servers} hosts with a server alone: the busiest link carries max(n/s, 1) = {most:.4g} sizes "
                   f"either way, {seconds(most)}")
            continue
        both, halves = beside(n, servers), one_after_the_other(n, servers)
        yield (
            f"# {servers} of the {n} hosts with a server beside the worker: the busiest link carries (n-1 + s-1)/s = "
            f"{both:.4g} sizes "
            f"either way, {seconds(both)} with push and pull at once; 2(n-1)/s = {halves:.4g} sizes, "
            f"{seconds(halves)}, "
            "one after the other")


def facts(case):
    """The table's facts, with each line's number of servers and its own layout's bound."""
    return [{**line, "servers": servers_of(line["who"])} for line in cases.facts(case, lambda who: share(case, who))]


def outcome(request, layout):
    """The Outcome of one layout's case, but for verdicts that hold for some layouts alone."""
    size = request.sizes[-1] if request.sizes else QUICK_SIZE if request.quick else SIZE
    lost = peers.elsewhere("MXNet's parameter server")
    case = cases.measure(request, layout, (size,), contests, lost)
    ticks, bars = drawn(case, size)
    table = facts(case)
    return case, Outcome(
        f"push and pull of {cases.size_text(size)} by {layout.hosts} workers, {request.links}, median of "
        f"{request.rounds} rounds",
        case.rows, list(verdicts(case, size, request)), lost, cases.COLUMNS,
        cases.lines(table), bars, ("", "time of push and pull, ms"),
        [*cases.notes([case]), *layout_notes(case, size, counts(request, layout.hosts))],
        cases.record([case], table), Style(yscale="linear", ticks=ticks), caption=CAPTION)


class Beside:
    """Servers on the workers' hosts."""
    MOST_VALUES = MOST_VALUES

    @staticmethod
    def measure(request):
        workers = request.ranks[-1] if request.ranks else WORKERS
        case, found = outcome(request, Layout(workers))
        size = case.sizes()[-1]
        found.verdicts[:0] = [of_bound(case, size), *(against(case, size, n) for n in counts(request, workers))]
        return found


class Apart:
    """Servers on hosts of their own, whose links are as fast as the processors can push for all of them."""
    MOST_VALUES = MOST_VALUES

    @staticmethod
    def measure(request):
        workers = request.ranks[-1] if request.ranks else WORKERS
        layout = Layout(workers, apart=counts(request, workers)[-1])
        most = len(os.sched_getaffinity(0)) * hosts.BITS_PER_CORE / (layout.hosts + layout.apart)
        links = dataclasses.replace(request.links, rate=min(request.links.rate, most))
        return outcome(dataclasses.replace(request, links=links), layout)[1]
