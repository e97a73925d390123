"""Suite scaling: the study that is published of MXNet's parameter server, with tutti: what workers on hosts of their
own train a second, alone and together."""
import dataclasses
import statistics

from compare import cases, emulated, lanes, peers, rounds, served
from compare.contest import Contest
from compare.emulated import Layout
from compare.outcome import Outcome, Style, curves
from compare.targets import Verdict

MOST_VALUES = {"sizes": 0, "ranks": 0}
ELEMENTS = 25_557_032  # the number of ResNet-50's parameters
SCALE, QUICK_SCALE = 0.25, 0.05
STEPS, QUICK_STEPS, WARMUP = 5, 2, 1
MOST_WORKERS = 3
BATCH = 64  # samples that a worker computes in a step
# Computing takes this many times as long as a link needs for all gradients once. Then one server's link, which carries
# two workers' gradients, delays the steps; with two servers, no server's link does.
COMPUTE = 1.5
BESIDE, APART = "servers beside the workers", "servers apart"
COLUMNS = ["store", "workers", "servers", "where", "samples/s of the first", "of the slowest", "together", "rounds",
           "of the ideal line"]


@dataclasses.dataclass(frozen=True)
class Setting:
    store: str
    workers: int
    servers: int = 0
    where: str = ""

    def __str__(self):
        servers = f", {self.servers} server{'s' * (self.servers > 1)} {self.where.removeprefix('servers ')}"
        return f"{self.store}, {self.workers} worker{'s' * (self.workers > 1)}" + (servers if self.servers else "")

    def series(self):
        """The label of the row in the plot: rows with the same label at several numbers of workers make a line."""
        if not self.servers:
            return self.store
        each = "a server each" if self.servers == self.workers else "1 server"
        return f"{self.store}, {each}, {self.where.removeprefix('servers ')}"


ALONE = Setting("local", 1)
SETTINGS = [ALONE, Setting("dist_sync", 1, 1, BESIDE),
            *(Setting(*one, where) for where in (BESIDE, APART)
              for one in (("dist_sync", 2, 1), ("dist_sync", 2, 2), ("dist_async", 2, 2), ("dist_async", 3, 3))),
            Setting("dist_sync_mpi", 2), Setting("dist_sync_mpi", 3)]


def words_for(request, rate):
    """The options of every run: computing that is slept through, as an accelerator's."""
    scale = QUICK_SCALE if request.quick else SCALE
    compute_ms = COMPUTE * 4 * ELEMENTS * scale / rate * 1e3
    return ["--model", "resnet50", "--scale", f"{scale:g}", "--compute-ms", f"{compute_ms * 2 / 3:.3f}",
            "--forward-ms", f"{compute_ms / 3:.3f}", "--steps", QUICK_STEPS if request.quick else STEPS,
            "--warmup", WARMUP, "--alone", "1"]


def contest(request, job, setting):
    """Workers are on the first hosts, one on each; servers beside them, or on those behind."""
    names = job.lab.names
    job = dataclasses.replace(job, apart=len(names) - setting.workers)
    if setting.servers:
        at = names[MOST_WORKERS if setting.where == APART else 0:][:setting.servers]
        launcher = served.served(job, setting.servers, served.tuttis(request), served.on_hosts(job, at))
    else:
        launcher = job
    optimizer = ("--optimizer", "sgd") if setting.store == "dist_async" else ()
    return Contest(str(setting), "the servers update" if optimizer else "sums",
                   (request.build / "benchmarks/training_step", "--kv-store", setting.store, *optimizer), launcher,
                   {"tutti": str(setting)}, needed=True)


def samples(rows, value):
    """The median over rounds."""
    return BATCH * statistics.median(value(row["steps_per_second"]) for row in rows)


def cells(rows):
    """{setting: its rows}"""
    return {setting: own for setting in SETTINGS if (own := [row for row in rows if row["who"] == str(setting)])}


def ideal(found, setting):
    return setting.workers * samples(found[ALONE], sum)


def verdicts(found):
    """No target: what part of the ideal line is reached."""
    for setting, rows in found.items():
        together, line = samples(rows, sum), ideal(found, setting)
        yield Verdict("F", f"{setting}, of the ideal line", "-", f"{100 * together / line:.1f} %",
                      f"{together:.4g} of {line:.4g} samples/s", "-")


def lines(found):
    for setting, rows in found.items():
        every = [BATCH * sum(row["steps_per_second"]) for row in rows]
        yield [setting.store, setting.workers, setting.servers or "-", setting.where or "-",
               f"{samples(rows, lambda rates: rates[0]):.4g}", f"{samples(rows, min):.4g}",
               f"{samples(rows, sum):.4g}", f"{min(every):.4g}-{max(every):.4g}",
               f"{100 * samples(rows, sum) / ideal(found, setting):.1f} %"]


def drawn(found):
    series, workers = {}, range(1, MOST_WORKERS + 1)
    for panel, value, line in (("together", sum, lambda n: n), ("the first worker", lambda rates: rates[0],
                                                                lambda n: 1)):
        for setting, rows in found.items():
            series.setdefault((panel, setting.series()), {})[setting.workers] = samples(rows, value)
        series[panel, "bound: ideal line"] = {n: line(n) * samples(found[ALONE], sum) for n in workers}
    return curves(series)


def measure(request):
    layout, lost = Layout(MOST_WORKERS, apart=MOST_WORKERS), peers.elsewhere()
    with emulated.launcher(layout, request.links) as job:
        rate = emulated.payload_rate(job, request.links, cases.stream_seconds(request))
        words = words_for(request, rate)
        workers = {str(setting): setting.workers for setting in SETTINGS}
        rows = rounds.interleave([contest(request, job, setting) for setting in SETTINGS], MOST_WORKERS,
                                 request.rounds, lambda one: one.run(workers[one.name], words), lost)
    found = cells(rows)
    return Outcome(
        f"samples a second of ResNet-50's steps, {request.links}, median of {request.rounds} rounds", rows,
        list(verdicts(found)), lost, COLUMNS, list(lines(found)), drawn(found), ("workers", "samples/s"),
        [f"# payload of a link, by single TCP streams (the quickest counts): {rate / cases.MB:.1f} MB/s",
         f"# gradients of {4 * ELEMENTS * rows[0]['scale'] / cases.MB:.1f} MB; a step's compute, slept through, takes "
         f"{COMPUTE} times as long as a link needs for them; {BATCH} samples a step",
         *lanes.describe(rows)],
        {"links_bps": request.links.rate, "payload_Bps": rate}, Style(xscale="linear", yscale="linear"))
