"""Suite negotiation: many small tensors in one list call, P8."""
import statistics

from compare import peers, rounds
from compare.contest import Contest, open_mpi
from compare.outcome import Outcome, Style, curves
from compare.targets import FINE, PASS, SHORT, Verdict, at_most, judge, missing, times

# The number of values that an option may have here.
MOST_VALUES = {"sizes": 0}
TENSORS = 160
REPLAYED, ASKED = OWN = "tutti, replay", "tutti, replay off"
STEP_US = 30
HOROVOD_BEST = 20
IDLE = 0.01  # of a core: the resolution of the clock cannot tell less from 0
# About half a second of tutti's steps. During most of the first thousand the processors are not at full speed yet. A
# peer's step takes twenty to some hundred times as long.
STEPS, QUICK_STEPS = 20_000, 4_000
# Before the measured steps, one step is run for each 20 of them, but at least 20.
WARMUP_PART, LEAST_WARMUP = 20, 20
PEERS_PART = 40
# The target P8 is about two ranks. With more ranks, starting the peers would take most of the suite's time.
PEERS_RANKS = 2


def options(steps, nap):
    return ["--tensors", str(TENSORS), "--steps", str(steps), "--warmup", str(max(LEAST_WARMUP, steps // WARMUP_PART)),
            "--idle", str(nap)]


def contests(request):
    bench = request.build / "benchmarks/negotiation_bench"
    return [Contest(who, f"TUTTI_REPLAY={int(replay)}", (bench, "--replay" if replay else "--no-replay"), open_mpi(),
                    {"tutti": who}, needed=True) for who, replay in ((REPLAYED, True), (ASKED, False))]


def of(rows, ranks, who, value):
    """The values of all rounds; `value` computes one from a row."""
    return [value(row) for row in rows if row["ranks"] == ranks and row["who"] == who]


def everyone(rows, ranks):
    """All whose steps were measured, in the order of the first round."""
    return list(dict.fromkeys(row["who"] for row in rows if row["ranks"] == ranks))


def step_us(rows, ranks, who):
    return statistics.median(of(rows, ranks, who, lambda row: row["time_us"]["p50"]))


def messages(rows, ranks, who):
    """The most control messages of a round, over all ranks."""
    return max(of(rows, ranks, who, lambda row: row["control_messages"]))


def idle(rows, ranks):
    return max(of(rows, ranks, REPLAYED, lambda row: row["idle_cores"]))


def against_horovod(rows, ranks):
    """A verdict on the ratio to the best of Horovod's settings with this many ranks."""
    what, wanted = f"{ranks} ranks, tutti : Horovod", f">= {HOROVOD_BEST} x its best"
    steps = {who: step_us(rows, ranks, who) for who in everyone(rows, ranks) if who.startswith(peers.HOROVOD)}
    if not steps:
        return missing("P8", what, wanted, "Horovod was not measured here")
    best, own = min(steps, key=steps.get), step_us(rows, ranks, REPLAYED)
    ratio = steps[best] / own
    return Verdict("P8", what, wanted, f"{ratio:.2f} x", f"{times(own)} : {times(steps[best])} ({best})",
                   judge(ratio, HOROVOD_BEST))


def verdicts(rows, ranks):
    found = []
    for n in ranks:
        us, sent, asked = step_us(rows, n, REPLAYED), messages(rows, n, REPLAYED), messages(rows, n, ASKED)
        if n == 2:
            found.append(at_most("P8", f"{n} ranks, {TENSORS} tensors a step", us, STEP_US, "µs"))
        found.append(Verdict("P8", f"{n} ranks, messages to the coordinator", "0", f"{sent:.0f}",
                             "most of any round", PASS if sent == 0 else SHORT))
        found.append(Verdict("P8", f"{n} ranks, the same with replay off", "> 0", f"{asked:.0f}",
                             "by the same counter", PASS if asked > 0 else SHORT))
        found.append(at_most("P8", f"{n} ranks, idle store", idle(rows, n), IDLE, "of a core", FINE))
        if n == PEERS_RANKS:
            found.append(against_horovod(rows, n))
    return found


def table_lines(rows, ranks):
    lines = []
    for n in ranks:
        own = step_us(rows, n, REPLAYED)
        for who in everyone(rows, n):
            steps = of(rows, n, who, lambda row: row["time_us"]["p50"])
            setting, count = of(rows, n, who, lambda row: (row["setting"], row["iters"]))[0]
            sent = f"{messages(rows, n, who):.0f}" if who in OWN else "-"
            lines.append([n, who, setting, times(step_us(rows, n, who)), f"{times(min(steps))}-{times(max(steps))}",
                          f"{step_us(rows, n, who) / own:.2f}", sent, count,
                          f"{100 * max(of(rows, n, who, lambda row: row['idle_cores'])):.2f} %"])
    return lines


def drawn(rows, ranks):
    panel = f"{TENSORS} tensors of one element a step"
    series = {}
    for who in dict.fromkeys(who for n in ranks for who in everyone(rows, n)):
        series[panel, who] = {place: step_us(rows, n, who) for place, n in enumerate(ranks) if who in everyone(rows, n)}
    if 2 in ranks:
        series[panel, "target"] = {ranks.index(2): STEP_US}
    return curves(series)


def measure(request):
    ranks = request.ranks or (2, 4, 8)
    steps, nap = (QUICK_STEPS, 0.5) if request.quick else (STEPS, 3)
    others, lost = peers.installed_for_steps(request)
    rows = []
    for n in ranks:
        rows += rounds.interleave(
            contests(request) + (peers.fitting(others, n) if n == PEERS_RANKS else []), n, request.rounds,
            lambda one: one.run(n, options(steps if one.needed else steps // PEERS_PART, nap)), lost)
    return Outcome(f"negotiation: {TENSORS} tensors of one element in one list call, median of {request.rounds} rounds",
                   rows, verdicts(rows, ranks), lost,
                   ["ranks", "who", "setting", "median of a step", "rounds", "x tutti", "control messages", "steps",
                    "idle, of a core"], table_lines(rows, ranks), drawn(rows, ranks), ("", "time of a step, µs"),
                   style=Style(ticks=[f"{n} ranks" for n in ranks]))
