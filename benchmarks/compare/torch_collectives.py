"""Part of suite pytorch: torch.distributed's collectives on one machine, P12."""
from compare import rounds, torch_lanes
from compare.contest import Pace
from compare.figures import Figures
from compare.outcome import Outcome, curves
from compare.targets import size_text, times

KIB, MIB = 1 << 10, 1 << 20
SIZES, QUICK_SIZES = (4, KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 64 * MIB), (64 * KIB, MIB)
PACE, QUICK_PACE = Pace(seconds=0.4, least=2, warmup=1), Pace(seconds=0.05, least=2, warmup=1)
RANKS, QUICK_RANKS = (2, 4, 8), (2,)
# {collective: how many times as fast as Gloo it is from LARGE on}. No smaller one is slower.
LARGE, FASTER, FASTER_OTHERS = 64 * KIB, {"allreduce": 4}, 2


def verdicts(figures):
    for op, ranks, size in torch_lanes.cases(figures):
        wanted = FASTER.get(op, FASTER_OTHERS) if size >= LARGE else 1
        yield torch_lanes.over_gloo(figures, (op, ranks, size), f"{op}, {size_text(size)}", wanted)


def lines(figures):
    for op, who, ranks, size, us, ratio in torch_lanes.compared(figures):
        yield [op, ranks, size_text(size), who, times(us), f"{ratio:.2f}" if ratio else "-"]


def drawn(figures):
    """A panel for each number of ranks, a curve for each collective."""
    series = {}
    for op, who, ranks, size, _, ratio in torch_lanes.compared(figures):
        if who == torch_lanes.GLOO and ratio:
            series.setdefault((f"{ranks} ranks", op), {})[size] = ratio
    return curves(series)


def measure(request):
    torch_lanes.check(request)
    sizes, pace = (QUICK_SIZES, QUICK_PACE) if request.quick else (SIZES, PACE)
    sizes, lost, rows = request.sizes or sizes, {}, []
    contest = torch_lanes.contest(request, "tutti", "turn by turn in one process", "torch_collectives.py")
    for ranks in request.ranks or (QUICK_RANKS if request.quick else RANKS):
        rows += rounds.interleave([contest], ranks, request.rounds, lambda one, n=ranks: one.race(n, sizes, pace), lost)
    # Each collective is a contest of its own, though one program runs them all.
    rows = [{**row, "contest": row["op"]} for row in rows]
    figures = Figures(rows)
    return Outcome(f"torch.distributed, median of {request.rounds} rounds", rows, list(verdicts(figures)), lost,
                   ["collective", "ranks", "size", "who", "median", "x tutti"], list(lines(figures)), drawn(figures),
                   ("size of the whole tensor", "Gloo's time over tutti's"))
