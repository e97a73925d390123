"""Suite python: the package beside the C++ library and mpi4py, P12."""
import statistics

from compare import peers, rounds
from compare.contest import BenchError, Contest, Pace, open_mpi
from compare.figures import Figures
from compare.outcome import Outcome, curves
from compare.targets import FINE, Verdict, against, at_most, judge, size_text, times

KIB, MIB = 1 << 10, 1 << 20
SIZES = tuple(4 ** power for power in range(1, 14))  # 4 B to 64 MiB
QUICK_SIZES = (4, 16 * KIB, 4 * MIB)
PACE = Pace(seconds=1, least=1, warmup=2)
QUICK_PACE = Pace(seconds=0.1, least=1, warmup=1)

OURS, MPI4PY, CPP = "tutti", "mpi4py", "tutti, C++"
NOT_SLOWER_FROM, LARGE_FROM, LARGE = 16 * KIB, 4 * MIB, 1.5
# {tensors in a call: how many µs it may take more than from C++}
CALLS = {1: 5, 160: 40}
CALL_RANKS = (1, 2)
STEPS, QUICK_STEPS = 20_000, 1_000
CREATE_RANKS, CREATE_US = 4, 0.3e6
# A product takes a thread, and each rank multiplies.
MULTIPLY_RANKS, MULTIPLY = 2, 0.99
IMPORT_MS = 150
IMPORT, FIRST_CREATE, ALONE, BESIDE = "import tutti", "first create", "numpy alone", "numpy beside an idle store"
IDLE_NAMES = {"import": IMPORT, "first create": FIRST_CREATE, "later creates": "later creates", "alone": ALONE,
              "idle store": BESIDE}
#: The table's names for the measurements that are no matrix product.
IDLE_WHAT = {IMPORT: "import", FIRST_CREATE: "create", "later creates": "create"}


def python(request, program):
    return (request.peers_python, peers.PEERS / program)


def one_thread():
    return {**peers.ONE_THREAD, "OPENBLAS_NUM_THREADS": "1"}


def allreduces(request):
    return Contest(MPI4PY, "turn by turn in one process", python(request, "numpy_allreduce.py"), open_mpi(),
                   {"python": OURS, "mpi4py": MPI4PY}, one_thread())


def calls(request):
    return [Contest(CPP, "negotiation_bench", (request.build / "benchmarks/negotiation_bench",), open_mpi(),
                    {"tutti": CPP}, needed=True),
            Contest(OURS, "numpy_steps.py", python(request, "numpy_steps.py"), open_mpi(), {"python": OURS},
                    one_thread(), needed=True)]


def idle(request):
    return Contest("idle", "numpy_idle.py", python(request, "numpy_idle.py"), open_mpi(), IDLE_NAMES, one_thread(),
                   needed=True)


def call_words(tensors, quick):
    steps = QUICK_STEPS if quick else STEPS
    return ["--tensors", str(tensors), "--steps", str(steps), "--warmup", str(steps // 20), "--idle", "0.1"]


def idle_words(ranks, quick):
    """If there are more ranks than cores, only the create counts."""
    if ranks == CREATE_RANKS:
        return ["--stores", "1", "--products", "1"]
    return ["--stores", "2", "--products", "20"] if quick else []


def median(rows, **wanted):
    """The median over rounds of each round's median; None if there is no such row."""
    found = [row["time_us"]["p50"] for row in rows if all(row.get(name) == value for name, value in wanted.items())]
    return statistics.median(found) if found else None


def over_cpp(rows, ranks, tensors):
    """(how many µs a call takes more than from C++, its own)."""
    own = median(rows, who=OURS, ranks=ranks, tensors=tensors)
    return own - median(rows, who=CPP, ranks=ranks, tensors=tensors), own


def call_text(tensors):
    return "pushpull of 4 B" if tensors == 1 else f"{tensors} tensors in one list call"


def call_verdicts(rows):
    for tensors, limit in CALLS.items():
        for ranks in CALL_RANKS:
            more, own = over_cpp(rows, ranks, tensors)
            wanted = f"<= {limit} µs over C++"
            yield Verdict("P12", f"{ranks} rank{'s' * (ranks > 1)}, {call_text(tensors)}", wanted, f"{more:.1f} µs",
                          f"{times(own)} : {times(own - more)}", judge(more, limit, at_most=True, digits=1))


def idle_verdicts(rows):
    create = median(rows, who=FIRST_CREATE, ranks=CREATE_RANKS)
    yield at_most("P12", f"{CREATE_RANKS} ranks, first create", create / 1e6, CREATE_US / 1e6, "s")
    yield at_most("P12", "import tutti, beyond numpy", median(rows, who=IMPORT, ranks=MULTIPLY_RANKS) / 1e3,
                  IMPORT_MS, "ms of a processor")
    alone, beside = (median(rows, who=who, ranks=MULTIPLY_RANKS) for who in (ALONE, BESIDE))
    yield Verdict("P12", f"{MULTIPLY_RANKS} ranks, numpy's speed beside an idle store", f">= {MULTIPLY} of before",
                  f"{alone / beside:.3f}", f"{times(beside)} : {times(alone)}",
                  judge(alone / beside, MULTIPLY, digits=FINE))


def allreduce_verdicts(figures, ranks, sizes):
    for n in ranks:
        for size in (size for size in sizes if size >= NOT_SLOWER_FROM):
            yield against("P12", figures, OURS, MPI4PY, n, size, LARGE if size >= LARGE_FROM else 1)


def call_lines(rows):
    for tensors in CALLS:
        for ranks in CALL_RANKS:
            for who in (CPP, OURS):
                us = median(rows, who=who, ranks=ranks, tensors=tensors)
                yield [call_text(tensors), ranks, "4 B", who, times(us), "-"]


def idle_lines(rows):
    for who in IDLE_NAMES.values():
        ranks = CREATE_RANKS if "create" in who else MULTIPLY_RANKS
        us = median(rows, who=who, ranks=ranks)
        if us is not None:
            yield [IDLE_WHAT.get(who, "matrix product"), ranks, "-", who, times(us), "-"]


def allreduce_lines(figures):
    for contest, who, ranks, size in sorted(figures.keys(), key=lambda key: key[2:]):
        us, own = figures.time(contest, who, ranks, size), figures.time(contest, OURS, ranks, size)
        yield ["allreduce", ranks, size_text(size), who, times(us), f"{us / own:.2f}"]


def drawn(figures):
    series = {}
    for (who, ranks, size), us in figures.shown().items():
        series.setdefault((f"{ranks} ranks", who), {})[size] = us
    return curves(series)


def check_package(request):
    if not peers.has_module(request.peers_python, "tutti"):
        raise BenchError(f"{request.peers_python} has no package tutti: {request.peers_python} -m pip install . in the "
                         "repository, or --peers-python")


def measure(request):
    check_package(request)
    ranks = request.ranks or (2, 4, 8)
    sizes = request.sizes or (QUICK_SIZES if request.quick else SIZES)
    pace, lost, small, large = QUICK_PACE if request.quick else PACE, {}, [], []
    for n in CALL_RANKS:
        for tensors in CALLS:
            small += rounds.interleave(calls(request), n, request.rounds,
                                       lambda one: one.run(n, call_words(tensors, request.quick)), lost)
    for n in (CREATE_RANKS, MULTIPLY_RANKS):
        small += rounds.interleave([idle(request)], n, request.rounds,
                                   lambda one: one.run(n, idle_words(n, request.quick)), lost)
    beside = [allreduces(request)] if peers.has_module(request.peers_python, "mpi4py") else []
    if not beside:
        lost[MPI4PY] = "not installed; pip install mpi4py, and --peers-python"
    for n in ranks:
        large += rounds.interleave(beside, n, request.rounds, lambda one: one.race(n, sizes, pace), lost)
    figures = Figures(large)
    return Outcome(f"the Python package, median of {request.rounds} rounds", small + large,
                   [*call_verdicts(small), *idle_verdicts(small), *allreduce_verdicts(figures, ranks, sizes)], lost,
                   ["what", "ranks", "size", "who", "median", "x tutti"],
                   [*call_lines(small), *idle_lines(small), *allreduce_lines(figures)], drawn(figures),
                   ("size of an allreduce of numpy arrays", "time, µs"))
