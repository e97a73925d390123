"""Suite mxnet: Trainer.step with dist_sync_mpi beside MXNet's own dist_sync, and what overlap gains, P13."""
from compare import peers, rounds
from compare.contest import BenchError, Contest, Pace, open_mpi
from compare.figures import Figures
from compare.outcome import Outcome, curves
from compare.served import mxnets, served
from compare.targets import FINE, Verdict, judge, size_text, times

MOST_VALUES = {"ranks": 0}
MIB = 1 << 20
VGG16 = 4 * 138_357_544
STEP_SIZES, QUICK_STEP_SIZES = (VGG16 // 16, VGG16 // 4, VGG16), (VGG16 // 64,)
OVERLAP_SIZES, QUICK_OVERLAP_SIZES = (8 * MIB, 32 * MIB, 128 * MIB), (8 * MIB,)
STEP_RANKS, OVERLAP_RANKS, SERVERS = 4, 2, 4
PACE = Pace(seconds=5, least=3, warmup=6)
QUICK_PACE = Pace(seconds=0.5, least=2, warmup=5)
# {size: times as fast as dist_sync}, and what part of its time a step takes that overlaps.
FASTER, OVERLAPPED = 3, 0.85

# One thread for a processor and one for an accelerator; MXNet begins with one.
ENGINE_THREADS = {"MXNET_CPU_WORKER_NTHREADS": "2"}

OURS, NATIVE = "tutti", f"MXNet, {SERVERS} servers"
APART, TOGETHER = "one after the other", "overlapped"
HOROVOD = "Horovod's binding for MXNet"
NO_HOROVOD = "does not build beside MXNet 1.9.1's wheel: pip gave up after 285 s"


def steps(request):
    program = (request.mxnet_python, peers.PEERS / "mxnet_trainer.py", "--store")
    return [Contest(OURS, "updates on each rank", (*program, "dist_sync_mpi"), open_mpi(), {"dist_sync_mpi": OURS},
                    peers.ONE_THREAD, needed=True),
            Contest(NATIVE, "updates on the servers", (*program, "dist_sync"),
                    served(open_mpi(), SERVERS, mxnets(request), ("--interface", "lo")), {"dist_sync": NATIVE},
                    peers.ONE_THREAD)]


def overlap(request):
    return Contest("overlap", "backward as long as the exchange", (request.mxnet_python,
                                                                   peers.PEERS / "mxnet_overlap.py"), open_mpi(),
                   {name: name for name in (APART, TOGETHER)}, peers.ONE_THREAD | ENGINE_THREADS, needed=True)


def steps_of_sizes(contest, sizes, pace):
    """Each size in processes of its own: where MXNet's dist_sync is created a second time, it hangs."""
    return [row for size in sizes for row in contest.race(STEP_RANKS, (size,), pace)]


def step_verdicts(figures, sizes):
    for size in sizes:
        what, wanted = f"{STEP_RANKS} ranks, Trainer.step, {size_text(size)}, tutti : MXNet", f">= {FASTER} x"
        own, native = (figures.time(who, who, STEP_RANKS, size) for who in (OURS, NATIVE))
        if native is None:
            yield Verdict("P13", what, wanted, "-", "MXNet's dist_sync was not measured", "not measured")
            continue
        yield Verdict("P13", what, wanted, f"{native / own:.2f} x", f"{times(own)} : {times(native)}",
                      judge(native / own, FASTER))


def overlap_verdicts(figures, sizes):
    for size in sizes:
        together, apart = (figures.time("overlap", who, OVERLAP_RANKS, size) for who in (TOGETHER, APART))
        yield Verdict("P13", f"{OVERLAP_RANKS} ranks, {size_text(size)}, overlapped : {APART}", f"<= {OVERLAPPED} x",
                      f"{together / apart:.2f} x", f"{times(together)} : {times(apart)}",
                      judge(together / apart, OVERLAPPED, at_most=True, digits=FINE))


def lines(figures):
    for contest, who, ranks, size in sorted(figures.keys(), key=lambda key: (key[0] == "overlap", *key[2:], key[1])):
        yield ["step" if contest != "overlap" else "backward and step", ranks, size_text(size), who,
               times(figures.time(contest, who, ranks, size))]


def drawn(figures):
    series = {}
    for (contest, who, ranks, size) in figures.keys():
        panel = f"Trainer.step, {ranks} ranks" if contest != "overlap" else f"backward and step, {ranks} ranks"
        series.setdefault((panel, who), {})[size] = figures.time(contest, who, ranks, size)
    return curves(series)


def check(request):
    for module, how in (("mxnet", "numpy==1.23.5 mxnet==1.9.1, with Python 3.10 or 3.11"), ("tutti", ". here")):
        if not peers.has_module(request.mxnet_python, module):
            raise BenchError(f"{request.mxnet_python} has no module {module}: pip install {how}; --mxnet-python "
                             "chooses another")


def measure(request):
    check(request)
    pace, lost = (QUICK_PACE if request.quick else PACE), {HOROVOD: NO_HOROVOD}
    step_sizes = request.sizes or (QUICK_STEP_SIZES if request.quick else STEP_SIZES)
    overlap_sizes = request.sizes or (QUICK_OVERLAP_SIZES if request.quick else OVERLAP_SIZES)
    rows = rounds.interleave(steps(request), STEP_RANKS, request.rounds,
                             lambda one: steps_of_sizes(one, step_sizes, pace), lost)
    rows += rounds.interleave([overlap(request)], OVERLAP_RANKS, request.rounds,
                              lambda one: one.race(OVERLAP_RANKS, overlap_sizes, pace), lost)
    figures = Figures(rows)
    return Outcome(f"MXNet's Trainer, median of {request.rounds} rounds", rows,
                   [*step_verdicts(figures, step_sizes), *overlap_verdicts(figures, overlap_sizes)], lost,
                   ["what", "ranks", "gradients", "who", "median"], list(lines(figures)), drawn(figures),
                   ("size of all gradients", "time, µs"))
