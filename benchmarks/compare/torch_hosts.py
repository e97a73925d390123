"""Part of suite pytorch: what DDP exchanges in a step between emulated hosts, P12."""
from compare import emulated, rounds, torch_exchange, torch_lanes
from compare.contest import Pace
from compare.emulated import Layout

MOST_VALUES = {"sizes": 0, "ranks": 1}
HOSTS, QUICK_HOSTS = 4, 2
# {who: how many times as fast as Gloo with float32}
FASTER = {torch_lanes.OURS: 1.1, torch_lanes.OURS_BF16: 1.8}
MODEL, SCALE = "resnet50", 0.25


def judged(figures):
    for name, ranks, size in torch_lanes.cases(figures):
        for who, wanted in FASTER.items():
            yield torch_lanes.over_gloo(figures, (name, ranks, size), f"exchange of {name} between hosts", wanted, who)


def measure(request):
    torch_lanes.check(request)
    hosts, = request.ranks or (QUICK_HOSTS if request.quick else HOSTS,)
    pace = Pace(seconds=1, least=1, warmup=1) if request.quick else Pace(seconds=6, least=2, warmup=1)
    lost = {}
    with emulated.launcher(Layout(hosts), request.links) as job:
        contest = torch_exchange.contest(request, "ddp", MODEL, job, SCALE)
        rows = rounds.interleave([contest], hosts, request.rounds, lambda one: one.run(hosts, pace.words()), lost)
    return torch_exchange.outcome(request, f"between hosts, {request.links}", rows, judged, lost)
