"""Suite training: steps with real networks' gradients and made-up compute on emulated hosts, P7."""
import statistics

from compare import cases, emulated, lanes, peers, rounds
from compare.contest import Contest
from compare.emulated import Layout
from compare.outcome import Outcome, Style, curves
from compare.targets import MISSING, Verdict, judge_share

MOST_VALUES = {"sizes": 0}
MODELS = {"resnet50": 25_557_032, "vgg16": 138_357_544}  # elements
# Scales of the networks: transfers of gradients take long compared with the latency of a message, but not too long for
# several rounds.
SCALES, OF_SCALE_IN_QUICK = {"resnet50": 1, "vgg16": 0.25}, 0.05
HOSTS, QUICK_HOSTS, TARGET_HOSTS = (2, 4, 8), (4,), 8
AS_IT_COMES = "as it comes"
SETTINGS = {AS_IT_COMES: (), "no priority": ("--priority", "off"), "no fusion": ("--fusion-bytes", "0"),
            "no replay": ("--replay", "off"), "bf16 wire": ("--wire", "bf16")}
# With fewer hosts than the largest number, only this network is measured, with the defaults, to show how it scales.
EVERYWHERE = "resnet50"
# Steps of warm-up, until batches are replayed, and measured steps; more of them for the setting that has a target.
WARMUP, WARMUP_OF_NO_REPLAY = 3, 1
STEPS, STEPS_OF_OTHERS = 3, 1
REACHED = 0.98
COLUMNS = ["network", "hosts", "setting", "step", "rounds", "steps a round", "compute", "exchange", "bound", "reached",
           "messages"]


def scale_of(request, model):
    return SCALES[model] * (OF_SCALE_IN_QUICK if request.quick else 1)


def words_for(request, layout, model, rate):
    """The options of a run. Computing takes as long as the links need for the gradients: with less or more of it
    there is less to gain from overlap."""
    scale = scale_of(request, model)
    exchange_ms = layout.share() * 4 * MODELS[model] * scale / rate * 1e3
    return ["--model", model, "--scale", f"{scale:g}", "--compute-ms", f"{exchange_ms * 2 / 3:.3f}",
            "--forward-ms", f"{exchange_ms / 3:.3f}", "--link-gbps", f"{rate * 8 / 1e9:.5f}", "--alone", "1"]


def steps_for(request, setting):
    steps = STEPS if setting == AS_IT_COMES and not request.quick else STEPS_OF_OTHERS
    return ["--steps", steps, "--warmup", WARMUP_OF_NO_REPLAY if setting == "no replay" else WARMUP]


def works(hosts):
    """[(number of hosts, {network: settings})]"""
    most = max(hosts)
    return [(count, {model: tuple(SETTINGS) for model in MODELS} if count == most else {EVERYWHERE: (AS_IT_COMES,)})
            for count in hosts]


def contests(request, job, settings):
    program = request.build / "benchmarks/training_step"
    return [Contest(name, " ".join(SETTINGS[name]) or "defaults",
                    (program, *SETTINGS[name], *steps_for(request, name)), job,
                    {"tutti": name}, needed=name == AS_IT_COMES) for name in settings]


def on_hosts(request, layout, networks, lost):
    """(the rows of these networks, the bytes of payload a second that a link carries)."""
    rows = []
    with emulated.launcher(layout, request.links) as job:
        rate = emulated.payload_rate(job, request.links, cases.stream_seconds(request))
        for model, settings in networks.items():
            missing_ones = {}
            words = words_for(request, layout, model, rate)
            rows += rounds.interleave(contests(request, job, settings), layout.ranks, request.rounds,
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


def bound_ms(rows):
    """The smallest bound of all rounds: computing that was disturbed while it was measured alone gives a bound that
    is too easy."""
    return min(row["bound_ms"] for row in rows)


def reached(rows):
    """The part of the bound's speed that the median step reached."""
    return bound_ms(rows) / middle(rows, lambda row: row["step_ms"]["p50"])


def verdict(share, hosts, who, most):
    """A verdict; "-" without target. The target is for 8 hosts and the defaults, so with fewer hosts it counts as
    not measured."""
    if who != AS_IT_COMES or hosts != most:
        return "-"
    return judge_share(share, REACHED) if hosts == TARGET_HOSTS else MISSING


def verdicts(found, most):
    """Verdicts on every network, number of hosts and setting, each with the scale of the tensors."""
    result = []
    for (model, hosts, who), rows in found.items():
        share, what = reached(rows), f"{model} at {rows[0]['scale']:g} of its size, {hosts} hosts, {who}"
        judged = verdict(share, hosts, who, most)
        detail = f"step {middle(rows, lambda row: row['step_ms']['p50']):.4g} ms, bound {bound_ms(rows):.4g} ms"
        if judged == MISSING:
            detail += f"; the target is for {TARGET_HOSTS} hosts"
        result.append(Verdict("P7", what, "-" if judged == "-" else f">= {100 * REACHED:.0f} %",
                              f"{100 * share:.1f} %", detail, judged))
    return result


def lines(found):
    for (model, hosts, who), rows in found.items():
        steps = [row["step_ms"]["p50"] for row in rows]
        yield [model, hosts, who, f"{statistics.median(steps):.4g} ms", f"{min(steps):.4g}-{max(steps):.4g}",
               rows[0]["steps"],
               f"{middle(rows, lambda row: row['compute_ms']['p50']):.4g} ms",
               f"{middle(rows, lambda row: row['communication_ms']['p50']):.4g} ms",
               f"{bound_ms(rows):.4g} ms", f"{100 * reached(rows):.1f} %",
               f"{max(row['control_messages'] for row in rows)}"]


def drawn(found):
    """A group of bars for each setting, a bar for each number of hosts; a panel for each network."""
    series = {}
    for (model, hosts, who), rows in found.items():
        at = list(SETTINGS).index(who)
        for label, value in ((f"tutti, {hosts} hosts", reached(rows)), ("bound", 1)):
            series.setdefault((model, label), {})[at] = 100 * value
    return curves(series)


def measure(request):
    hosts = request.ranks or (QUICK_HOSTS if request.quick else HOSTS)
    rows, rates, lost = [], {}, peers.elsewhere()
    for count, networks in works(hosts):
        new, rates[count] = on_hosts(request, Layout(count), networks, lost)
        rows += new
    found = cells(rows)
    listed = ", ".join(f"{count} hosts: {rate / cases.MB:.1f} MB/s" for count, rate in rates.items())
    scales = ", ".join(f"{model} at {scale_of(request, model):g} of its size" for model in MODELS)
    notes = [f"# payload of a link, by single TCP streams (the quickest counts): {listed}",
             f"# {scales}; a step's compute, slept through, takes as long as the links need for its f32 gradients",
             f"# a round has {WARMUP} steps that do not count ({WARMUP_OF_NO_REPLAY} without replay), and then as many "
             "as its row says",
             *lanes.describe(rows)]
    return Outcome(
        f"training steps with overlapped compute, {request.links}, median of {request.rounds} rounds", rows,
        verdicts(found, max(hosts)), lost, COLUMNS, list(lines(found)), drawn(found), ("", "% of the bound's speed"),
        notes, {"links_bps": request.links.rate, "payload_Bps": rates}, Style(yscale="linear", ticks=list(SETTINGS)))
