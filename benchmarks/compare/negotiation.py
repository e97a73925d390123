"""Suite negotiation: many small tensors in one list call, P8."""
import statistics

from compare import rounds
from compare.contest import Contest, open_mpi
from compare.outcome import Curve, Outcome
from compare.peers import BROUGHT_BY
from compare.targets import MISSING, PASS, SHORT, Verdict, at_most, missing, times

TENSORS = 160
REPLAYED, ASKED = "tutti, replay", "tutti, replay off"
STEP_US = 30
IDLE = 0.01  # of a core: what the clock's own resolution leaves of 0


def contests(request):
    bench = (request.build / "benchmarks/negotiation_bench", "--tensors", TENSORS)
    return [Contest(who, f"TUTTI_REPLAY={int(replay)}", (*bench, "--replay" if replay else "--no-replay"), open_mpi(),
                    {"tutti": who}, needed=True) for who, replay in ((REPLAYED, True), (ASKED, False))]


def of(rows, ranks, who, value):
    """The values of all rounds; `value` takes a row."""
    return [value(row) for row in rows if row["ranks"] == ranks and row["who"] == who]


def step_us(rows, ranks, who):
    return statistics.median(of(rows, ranks, who, lambda row: row["time_us"]["p50"]))


def messages(rows, ranks, who):
    """Of the steps of the worst round, over all ranks."""
    return max(of(rows, ranks, who, lambda row: row["control_messages"]))


def idle(rows, ranks):
    return max(of(rows, ranks, REPLAYED, lambda row: row["idle_cores"]))


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
        found.append(at_most("P8", f"{n} ranks, idle store", idle(rows, n), IDLE, "of a core"))
    found.append(missing("P8", "tutti : Horovod", ">= 20 x its best", "Horovod is not measured here"))
    return found


def table_lines(rows, ranks):
    lines = []
    for n in ranks:
        for who in (REPLAYED, ASKED):
            steps = of(rows, n, who, lambda row: row["time_us"]["p50"])
            lines.append([n, who, times(step_us(rows, n, who)), f"{times(min(steps))}-{times(max(steps))}",
                          f"{messages(rows, n, who):.0f}", of(rows, n, who, lambda row: row["iters"])[0],
                          f"{100 * max(of(rows, n, who, lambda row: row['idle_cores'])):.2f} %"])
    return lines


def measure(request):
    ranks = request.ranks or (2, 4, 8)
    steps, nap = (200, 0.5) if request.quick else (1000, 3)
    options = ["--steps", str(steps), "--idle", str(nap)]
    rows = []
    for n in ranks:
        rows += rounds.interleave(contests(request), n, request.rounds, lambda contest: contest.run(n, options), {})
    curves = [Curve(f"{TENSORS} tensors of one element a step", who, list(ranks), [step_us(rows, n, who) for n in ranks])
              for who in (REPLAYED, ASKED)]
    curves.append(Curve(curves[0].panel, "target at 2 ranks", [min(ranks), max(ranks)], [STEP_US] * 2, True))
    return Outcome(f"negotiation: {TENSORS} tensors of one element in one list call, median of {request.rounds} rounds",
                   rows, verdicts(rows, ranks), {"Horovod": BROUGHT_BY["Horovod"]},
                   ["ranks", "who", "median of a step", "rounds", "control messages", "steps", "idle, of a core"],
                   table_lines(rows, ranks), curves, ("ranks", "µs a step"))
