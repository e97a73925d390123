"""Part of suite pytorch: what DDP and FSDP2 exchange in a step, on one machine, P12."""
from compare import rounds, torch_lanes
from compare.contest import Pace
from compare.figures import Figures
from compare.outcome import Outcome, Style, curves
from compare.targets import size_text, times

MOST_VALUES = {"sizes": 0, "ranks": 1}
PACE, QUICK_PACE = Pace(seconds=3, least=2, warmup=2), Pace(seconds=0.1, least=1, warmup=1)
RANKS, QUICK_RANKS = 4, 2
# {how the model is spread: how many times as fast as Gloo the exchange is}
FASTER = {"ddp": 3, "fsdp": 2}
MODELS = ("resnet50", "vgg16")
SCALE, QUICK_SCALE = 1, 0.02
COLUMNS = ["exchange", "ranks", "parameters", "who", "median", "x tutti"]


def contest(request, wrap, model, launcher=None, scale=SCALE):
    words = ("--wrap", wrap, "--model", model, "--scale", f"{QUICK_SCALE if request.quick else scale:g}")
    return torch_lanes.contest(request, f"{wrap}, {model}", "forward and backward without compute", "torch_exchange.py",
                               words, launcher)


def lines(figures):
    for name, who, ranks, size, us, ratio in torch_lanes.compared(figures):
        yield [name, ranks, size_text(size), who, times(us), f"{ratio:.2f}" if ratio else "-"]


def drawn(figures):
    """A group of bars for each exchange, a bar for each library."""
    names = list(dict.fromkeys(name for name, *_ in figures.keys()))
    series = {}
    for name, who, _, _, us, _ in torch_lanes.compared(figures):
        series.setdefault(("a step's exchange", who), {})[names.index(name)] = us / 1e3
    return curves(series), Style(yscale="linear", ticks=names)


def outcome(request, where, rows, verdicts, lost):
    figures = Figures(rows)
    bars, style = drawn(figures)
    return Outcome(f"what PyTorch exchanges in a step {where}, median of {request.rounds} rounds", rows,
                   list(verdicts(figures)), lost, COLUMNS, list(lines(figures)), bars, ("", "time, ms"), style=style)


def judged(figures):
    for name, ranks, size in torch_lanes.cases(figures):
        yield torch_lanes.over_gloo(figures, (name, ranks, size), f"exchange of {name}",
                                    FASTER[name.partition(",")[0]])


def measure(request):
    torch_lanes.check(request)
    pace = QUICK_PACE if request.quick else PACE
    ranks, = request.ranks or (QUICK_RANKS if request.quick else RANKS,)
    lost, rows = {}, []
    for wrap in FASTER:
        for model in MODELS:
            rows += rounds.interleave([contest(request, wrap, model)], ranks, request.rounds,
                                      lambda one: one.run(ranks, pace.words()), lost)
    return outcome(request, "on one machine", rows, judged, lost)
