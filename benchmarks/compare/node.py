"""Suite node: allreduce on one machine, P1, P1s, P2 and P9."""
import dataclasses
import json
import pathlib
import subprocess
import tempfile

from compare import lanes, node_targets, openmpi, peers, rounds
from compare.contest import BenchError, Contest, Pace, open_mpi
from compare.figures import CAPTION, MAIN, Figures
from compare.node_targets import FREE
from compare.outcome import Outcome, curves
from compare.targets import size_text, times

KIB, MIB = 1 << 10, 1 << 20
SIZES = (4, KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB, 128 * MIB)
QUICK_SIZES = (4, 16 * KIB, 64 * KIB, 16 * MIB, 64 * MIB)
LEAST_FOR_FLOOR = MIB
# A turn with 128 MiB takes a second, with writing and checking. Small sizes have enough turns at 1000.
PACE = Pace(seconds=0.5, least=1, warmup=1)
QUICK_PACE = Pace(seconds=0.1, least=1, warmup=1)


def probe_memory(build, footprints):
    """{footprint: GB/s that all cores reach together when they copy this many bytes}."""
    line = [str(build / "benchmarks/memory_probe"), "--bytes", ",".join(map(str, footprints)), "--seconds", "0.3"]
    try:
        said = subprocess.run(line, text=True, stdout=subprocess.PIPE, check=True, timeout=300)
    except (OSError, subprocess.SubprocessError) as error:
        raise BenchError(f"cannot measure the memory: {error}") from None
    return {row["bytes"]: row["best_GBps"] for row in json.loads(said.stdout)}


def floors(build, ranks, sizes):
    """{(ranks, size): µs}: the time for the 2nS bytes that an allreduce of private buffers moves at least."""
    cases = [(n, size) for n in ranks for size in sizes if size >= LEAST_FOR_FLOOR]
    if not cases:
        return {}
    rates = probe_memory(build, sorted({2 * n * size for n, size in cases}))
    return {(n, size): 2 * n * size / rates[2 * n * size] / 1e3 for n, size in cases}


def allreduce(build, impls, *words):
    return (build / "benchmarks/allreduce_bench", "--impl", impls, *words)


def contests_for(request, ranks, sizes, others, folder, lost):
    """All contests with this many ranks. Each setting of Open MPI runs with tutti in one process."""
    launcher = open_mpi()
    names = {"tutti": "tutti", "mpi": "Open MPI"}
    main = Contest(MAIN, "default", allreduce(request.build, "tutti,mpi", "--shared"), launcher, names, needed=True)
    alone = dataclasses.replace(main, name="screening", program=allreduce(request.build, "mpi"), needed=False)
    choice = openmpi.screen(alone, ranks, sizes, openmpi.settings(request.quick, ranks), lost)
    pair = dataclasses.replace(main, program=allreduce(request.build, "tutti,mpi"), needed=False,
                               names={"tutti": "tutti", "mpi": "Open MPI, picked"})
    free = Contest(FREE, "reproducible beside not, in one process", allreduce(request.build, "tutti,irreproducible"),
                   launcher,
                   {"tutti": "tutti", "irreproducible": FREE}, covers=frozenset([node_targets.size_of_free(sizes)]))
    picked = openmpi.picked(pair, ranks, choice, folder)
    return [main, *picked, *peers.fitting(others, ranks),
            free], {str(size): setting.name for size, setting in choice.items()}


def table_lines(figures, floor):
    lines = []
    for contest, who, ranks, size in sorted(figures.keys(), key=lambda key: key[2:]):
        us = figures.time(contest, who, ranks, size)
        low, high = figures.spread(contest, who, ranks, size)
        own = figures.own(contest, "tutti", ranks, size)
        bound = floor.get((ranks, size))
        share = f"{100 * bound / us:.0f} %" if bound and who == "tutti" else "-"
        lines.append(
            [ranks, size_text(size), who, figures.settings[contest, ranks], times(us), f"{times(low)}-{times(high)}",
             f"{size / us / 1e3:.3f}", f"{us / own:.2f}", share])
    return lines


def drawn(figures, floor):
    series = {}
    for (who, ranks, size), us in figures.shown().items():
        if who != FREE:
            series.setdefault((f"{ranks} ranks", who), {})[size] = us
    for (ranks, size), us in floor.items():
        series.setdefault((f"{ranks} ranks", "bound: 2nS of memory"), {})[size] = us
    return curves(series)


def measure(request):
    ranks = request.ranks or (2, 4, 8)
    sizes = request.sizes or (QUICK_SIZES if request.quick else SIZES)
    pace = QUICK_PACE if request.quick else PACE
    others, lost = peers.installed(request)
    rows, picks = [], {}
    floor = floors(request.build, ranks, sizes)
    with tempfile.TemporaryDirectory() as folder:
        for n in ranks:
            contests, picks[n] = contests_for(request, n, sizes, others, pathlib.Path(folder), lost)
            rows += rounds.interleave(contests, n, request.rounds, lambda contest: contest.race(n, sizes, pace), lost)
    figures = Figures(rows)
    notes = lanes.describe(rows) + [
        f"# Open MPI's best with {n} ranks: "
        + ", ".join(f"{size_text(int(size))} {name}" for size, name in chosen.items())
        for n, chosen in picks.items()]
    return Outcome(
        f"allreduce f32 on one machine, median of {request.rounds} rounds", rows,
        node_targets.verdicts(figures, ranks, sizes, floor), lost,
        ["ranks", "size", "who", "setting", "median", "rounds", "GB/s", "x tutti", "of bound"],
        table_lines(figures, floor),
        drawn(figures, floor), ("size of an allreduce", "time, µs"), notes,
        {"open_mpi_picks": picks, "floor_us": {f"{n} ranks, {size} B": us for (n, size), us in floor.items()}},
        caption=CAPTION)
