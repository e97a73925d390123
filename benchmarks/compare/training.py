"""Suite training: steps with real networks' gradients and made-up compute on emulated hosts, P7."""
import statistics

from compare import cases, emulated, rounds
from compare.contest import Contest
from compare.emulated import Layout
from compare.outcome import Curve, Outcome, Style
from compare.targets import Verdict, judge

MODELS = {"vgg16": 138_357_544, "resnet50": 25_557_032}  # elements
HOSTS, QUICK_HOSTS = (2, 4, 8), (4,)
# Of the networks: links of 1 Gbit/s are a tenth of those that they are trained over.
SCALE, QUICK_SCALE = 0.1, 0.01
# Of each kind, steps and those before them.
STEPS, QUICK_STEPS = (4, 2), (2, 1)
AS_IT_COMES = "as it comes"
SETTINGS = {AS_IT_COMES: (), "no priority": ("--priority", "off"), "no fusion": ("--fusion-bytes", "0"),
            "no replay": ("--replay", "off"), "bf16 wire": ("--wire", "bf16")}
REACHED = 0.98
COLUMNS = ["network", "hosts", "setting", "step", "rounds", "compute", "exchange", "bound", "reached", "messages"]


def words_for(request, layout, model, rate):
    """Forward and backward together take as long as the links need for the gradients: with less compute, or with
    more, there is less to gain from doing both at once."""
    scale = QUICK_SCALE if request.quick else SCALE
    exchange_ms = layout.share() * 4 * MODELS[model] * scale / rate * 1e3
    steps, warmup = QUICK_STEPS if request.quick else STEPS
    return ["--model", model, "--scale", str(scale), "--compute-ms", f"{exchange_ms * 2 / 3:.3f}",
            "--forward-ms", f"{exchange_ms / 3:.3f}", "--link-gbps", f"{rate * 8 / 1e9:.5f}",
            "--steps", str(steps), "--warmup", str(warmup)]


def contests(request, job):
    program = request.build / "benchmarks/training_step"
    return [Contest(name, " ".join(words) or "defaults", (program, *words), job, {"tutti": name}, needed=name == AS_IT_COMES)
            for name, words in SETTINGS.items()]


def on_hosts(request, layout, lost):
    """(rows of both networks, bytes a second of payload)."""
    rows = []
    with emulated.launcher(layout) as job:
        seconds = 1 if request.quick else 3
        rate = max(emulated.payload_rate(job, seconds) for _ in range(2))
        for model in MODELS:
            missing_ones = {}
            words = words_for(request, layout, model, rate)
            rows += rounds.interleave(contests(request, job), layout.ranks, request.rounds,
                                      lambda contest: contest.run(layout.ranks, words), missing_ones)
            lost.update({f"{who}, {model}": why for who, why in missing_ones.items()})
    return rows, rate


def cells(rows):
    """{(network, hosts, setting): its rows}, in order."""
    found = {}
    for row in rows:
        found.setdefault((row["model"], row["hosts"], row["who"]), []).append(row)
    return found


def middle(rows, value):
    return statistics.median(value(row) for row in rows)


def reached(rows):
    """Of the speed that the bound allows: the median over rounds."""
    return middle(rows, lambda row: row["reached"])


def verdicts(found, most):
    """Every network and number of hosts with the defaults; the target is for the most hosts."""
    result = []
    for (model, hosts, who), rows in found.items():
        share, what = reached(rows), f"{model}, {hosts} hosts, {who}"
        target = hosts == most and who == AS_IT_COMES
        bound = f"step {middle(rows, lambda row: row['step_ms']['p50']):.4g} ms, bound {middle(rows, lambda row: row['bound_ms']):.4g} ms"
        result.append(Verdict("P7", what, f">= {100 * REACHED:.0f} %" if target else "-", f"{100 * share:.1f} %", bound,
                              judge(share, REACHED) if target else "-"))
    return result


def lines(found):
    for (model, hosts, who), rows in found.items():
        steps = [row["step_ms"]["p50"] for row in rows]
        yield [model, hosts, who, f"{statistics.median(steps):.4g} ms", f"{min(steps):.4g}-{max(steps):.4g}",
               f"{middle(rows, lambda row: row['compute_ms']['p50']):.4g} ms",
               f"{middle(rows, lambda row: row['communication_ms']['p50']):.4g} ms",
               f"{middle(rows, lambda row: row['bound_ms']):.4g} ms", f"{100 * reached(rows):.1f} %",
               f"{max(row['control_messages'] for row in rows)}"]


def curves(found):
    series = {}
    for (model, hosts, who), rows in found.items():
        for label, value in ((who, reached(rows)), ("bound", 1), ("target", REACHED)):
            series.setdefault((model, label), {})[hosts] = 100 * value
    return [Curve(model, label, list(points), list(points.values()), label in ("bound", "target"))
            for (model, label), points in series.items()]


def measure(request):
    hosts = request.ranks or (QUICK_HOSTS if request.quick else HOSTS)
    rows, rates, lost = [], {}, {}
    for count in hosts:
        new, rates[count] = on_hosts(request, Layout(count), lost)
        rows += new
    found = cells(rows)
    scale = QUICK_SCALE if request.quick else SCALE
    listed = ", ".join(f"{count} hosts: {rate / cases.MB:.1f} MB/s" for count, rate in rates.items())
    notes = [f"# payload of a link, by one TCP stream: {listed}",
             f"# networks at {scale:g} of their size; a step's compute, slept through, takes as long as the links need for its "
             "f32 gradients"]
    return Outcome(
        f"training steps with overlapped compute, links of 1 Gbit/s, median of {request.rounds} rounds", rows,
        verdicts(found, max(hosts)), lost, COLUMNS, list(lines(found)), curves(found), ("hosts", "% of the bound's speed"),
        notes, {"payload_Bps": rates}, Style(xscale="linear", yscale="linear"))
