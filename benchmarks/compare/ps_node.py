"""Part of suite ps: workers and servers on one machine, beside MXNet's own."""
from compare import peers, rounds, served
from compare.contest import Contest, Pace, open_mpi
from compare.figures import Figures
from compare.outcome import Outcome, curves
from compare.targets import FINE, Verdict, at_most, judge, missing, size_text, times

MOST_VALUES = {"sizes": 0, "ranks": 0}
KIB, MIB = 1 << 10, 1 << 20
RESNET50 = 4 * 25_557_032
# [(workers, servers, sizes)] of one array each.
ARRAYS = [(2, 1, (4, 64 * KIB, MIB, 16 * MIB)), (2, 2, (4, 64 * KIB, MIB, 16 * MIB)), (4, 1, (4, MIB, 16 * MIB)),
          (4, 4, (4, MIB, 16 * MIB))]
QUICK_ARRAYS = [(2, 1, (4, MIB))]
STEP = (2, 1)  # workers and servers that exchange the keys of ResNet-50
UPDATING, UPDATED = (4, 1), (4, 64 * KIB)
QUICK_UPDATED = (64 * KIB,)
PACE, QUICK_PACE = Pace(seconds=1, least=5, warmup=5), Pace(seconds=0.3, least=3, warmup=2)
STEP_PACE, QUICK_STEP_PACE = Pace(seconds=3, least=3, warmup=2), Pace(seconds=0.3, least=2, warmup=1)
# Between two turns the servers have nothing to do for this many milliseconds.
IDLE_PACE = Pace(seconds=0.1, least=2, warmup=1, rest=1500)
FASTER, IDLE = 2, 0.01
ARRAY, KEYS, UPDATES = "one array", "ResNet-50's keys", "updates"
IDLE_FACT = "servers' least use of a core"
TUTTI, MXNET, IN_MXNET = "tutti", "MXNet", "tutti under MXNet's API"


def named(who, servers, what):
    return f"{peers.with_servers(who, servers)}, {what}"


def ours(request, servers, way, what, words=()):
    program = (request.build / "benchmarks/server_bench", "--as", way, *words)
    return Contest(named(TUTTI, servers, what), "C++", program,
                   served.served(open_mpi(), servers, served.tuttis(request)),
                   {impl: named(TUTTI, servers, what) for impl in ("tutti", "tutti keys", "tutti updates")},
                   needed=True)


def theirs(request, servers, program, what, words=()):
    """MXNet's own program, and, if that Python has the package, the same program with tutti's servers. The second shows
    what a user's script gains."""
    if not peers.has_module(request.mxnet_python, "mxnet"):
        return
    kinds = [(MXNET, (), served.mxnets(request), ("--interface", "lo"), {})]
    if peers.has_module(request.mxnet_python, "tutti"):
        kinds.append((IN_MXNET, ("-m", "tutti"), served.tuttis(request), (), {"TUTTI_MODE": "ps"}))
    for who, starter, role, where, env in kinds:
        name = named(who, servers, what)
        yield Contest(name, "Python", (request.mxnet_python, *starter, peers.PEERS / program, *words),
                      served.served(open_mpi(), servers, role, where),
                      {impl: name for impl in ("mxnet", "mxnet keys", "mxnet updates")}, {**peers.ONE_THREAD, **env})


def exchanges(request, servers, way, what):
    return [ours(request, servers, way, what),
            *theirs(request, servers, "mxnet_pushpull.py", what, ("--as", way))]


def updates(request, servers):
    return [ours(request, servers, "updates", UPDATES, ("--kv-store", "dist_async")),
            *theirs(request, servers, "mxnet_updates.py", UPDATES)]


def works(request):
    """[(workers, contests, sizes, pace)]"""
    quick = request.quick
    found = [(workers, exchanges(request, servers, "array", ARRAY), sizes, QUICK_PACE if quick else PACE)
             for workers, servers, sizes in (QUICK_ARRAYS if quick else ARRAYS)]
    workers, servers = STEP
    found.append((workers, exchanges(request, servers, "keys", KEYS), (RESNET50,),
                  QUICK_STEP_PACE if quick else STEP_PACE))
    workers, servers = UPDATING
    found.append((workers, updates(request, servers), QUICK_UPDATED if quick else UPDATED,
                  QUICK_PACE if quick else PACE))
    return found


def idle(request):
    """The rows of an exchange with long rests, whose facts have what the servers used of a core meanwhile."""
    return ours(request, 1, "array", "idle").race(2, (4,), IDLE_PACE)


def against(figures, workers, servers, size, what, wanted=FASTER):
    """Verdicts on how many times as long MXNet takes as tutti: from C++, and by the same script."""
    native = figures.time(named(MXNET, servers, what), named(MXNET, servers, what), workers, size)
    for who in (TUTTI, IN_MXNET):
        name = named(who, servers, what)
        own = figures.time(name, name, workers, size)
        title = f"{workers} workers, {name}, {size_text(size)} : MXNet"
        if native is None or own is None:
            if who == TUTTI:
                yield missing("F", title, f">= {wanted} x", "MXNet was not measured here")
            continue
        yield Verdict("F", title, f">= {wanted} x", f"{native / own:.2f} x", f"{times(own)} : {times(native)}",
                      judge(native / own, wanted))


def verdicts(figures, request, used):
    workers, servers, _ = (QUICK_ARRAYS if request.quick else ARRAYS)[0]
    yield from against(figures, workers, servers, 4, ARRAY)
    yield from against(figures, *STEP, RESNET50, KEYS)
    for size in QUICK_UPDATED if request.quick else UPDATED:
        yield from against(figures, *UPDATING, size, UPDATES)
    yield at_most("F", "servers between turns, idle", used, IDLE, "of a core", FINE)


def lines(figures):
    for contest, who, workers, size in sorted(figures.keys(), key=lambda key: (key[2], key[3], key[1])):
        us = figures.time(contest, who, workers, size)
        native = MXNET + who[who.index(","):]
        theirs_us = figures.time(native, native, workers, size)
        yield [workers, size_text(size), who, times(us), "-".join(times(each) for each in
                                                                   figures.spread(contest, who, workers, size)),
               f"{theirs_us / us:.2f}" if theirs_us else "-"]


def drawn(figures):
    """A panel for each number of workers that exchange one array."""
    series = {}
    for contest, who, workers, size in figures.keys():
        if who.endswith(ARRAY):
            label = who.removesuffix(f", {ARRAY}")
            series.setdefault((f"one array, {workers} workers", label), {})[size] = figures.time(contest, who, workers,
                                                                                                size)
    return curves(series)


def measure(request):
    lost, rows = peers.elsewhere("MXNet's parameter server"), []
    if not peers.has_module(request.mxnet_python, "mxnet"):
        lost["MXNet's parameter server"] = peers.not_installed("MXNet's parameter server")
    for workers, contests, sizes, pace in works(request):
        rows += rounds.interleave(contests, workers, request.rounds,
                                  lambda one, n=workers, of=sizes, at=pace: one.race(n, of, at), lost)
    rested = idle(request)
    used = max(float(row["facts"][IDLE_FACT]) for row in rested)
    figures = Figures(rows)
    return Outcome(f"push and pull on one machine, median of {request.rounds} rounds", rows,
                   list(verdicts(figures, request, used)), lost,
                   ["workers", "size", "who", "median", "rounds", "x as fast as MXNet"], list(lines(figures)),
                   drawn(figures), ("size of the array", "time of push and pull, µs"),
                   extra={"servers_idle_cores": used})
