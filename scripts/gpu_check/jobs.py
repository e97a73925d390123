"""The sections in which several ranks share the GPU through a store."""
import importlib.util
import json
import pathlib
import re
import statistics
import sys
import tempfile
import time

from gpu_check.check import CouldNotRun, Failed

# A rank that waits logs for which ranks, before the section's time is up.
PATIENCE = {"TUTTI_STALL_SECONDS": "10"}
# The time within which a rank must hear of another one's death. On one machine that takes a few milliseconds.
SOON_MS = 5000


def mpirun(attempt, ranks, *words):
    return [attempt.tool("mpirun"), "-n", ranks, *words]


def bench(attempt, ranks, *words):
    """Returns rows of allreduce_bench."""
    program = attempt.program("allreduce_bench")
    with tempfile.NamedTemporaryFile(suffix=".json") as file:
        attempt.passes(mpirun(attempt, ranks, program, *words, "--json", file.name), **PATIENCE)
        return json.loads(pathlib.Path(file.name).read_text())


def host_tensors(attempt):
    """Sums host tensors. This shows that MPI works here, and gives the rates with which the others are compared."""
    said = []
    for ranks in (2,) if attempt.quick else (2, 4, 8):
        rows = bench(attempt, ranks, "--bytes", "1M" if attempt.quick else "1M,64M", "--seconds",
                     0.1 if attempt.quick else 1)
        attempt.rows += [{"part": "host tensors", **row} for row in rows]
        said.append(f"{ranks} ranks {max(row['algbw_GBps'] for row in rows if row['impl'] == 'tutti'):.1f}")
    return ", ".join(said) + " GB/s at best"


def sums(attempt):
    """Checks every dtype, operation and layout. The results must have the same bits as those of host tensors."""
    counts = (2,) if attempt.quick else (1, 2, 4, 8)
    for ranks in counts:
        try:
            attempt.passes(mpirun(attempt, ranks, attempt.program("device_test")), **PATIENCE)
        except Failed as problem:
            raise Failed(f"{ranks} ranks: {problem}") from problem
    return f"the host's bits with {', '.join(map(str, counts))} ranks"


# NCCL refuses two ranks that share a GPU, unless each names a different host.
ON_HOSTS_OF_THEIR_OWN = ("sh", "-c", 'NCCL_HOSTID=rank$OMPI_COMM_WORLD_RANK exec "$0" "$@"')
# The ranks of a node log these lines once they have a communicator, or if they get none.
CONNECTED = re.compile(r"NCCL \S+ of \S+ connects .*that took \S+ s")
NOT_CONNECTED = re.compile(r"do not use NCCL: .*")


def launches(attempt):
    """Checks that two ranks sum by launches of NCCL, with the host's bits.

    NCCL uses sockets between such hosts, so the rate is not that of GPUs that reach each other directly.
    """
    program, said = attempt.program("device_test"), []
    words = [("sums", program)]
    if not attempt.quick:
        words.append(("rate", attempt.program("allreduce_bench"), "--gpu", 0, "--impl", "tutti", "--bytes", "64M",
                      "--seconds", 2, "--warmup", 2, "--least", 5))
    for part, *line in words:
        with tempfile.NamedTemporaryFile(suffix=".json") as file:
            more = ("--json", file.name) if part == "rate" else ()
            done = attempt.run(mpirun(attempt, 2, *ON_HOSTS_OF_THEIR_OWN, *line, *more), TUTTI_LOG="info", **PATIENCE)
            refused = NOT_CONNECTED.search(done.errors)
            if refused:
                raise CouldNotRun(refused[0])
            if done.overdue or done.status != 0:
                raise Failed(f"{part}: it ended with status {done.status} after {done.seconds:.0f} s")
            connected = CONNECTED.search(done.errors)
            if connected is None:
                raise Failed(f"{part}: the ranks ended before they were connected")
            if part == "rate":
                rows = json.loads(pathlib.Path(file.name).read_text())
                attempt.rows += [{"part": "launches", **row} for row in rows]
                said.append(f"{rows[0]['algbw_GBps']:.1f} GB/s")
            else:
                said.append(connected[0])
    return "the host's bits; " + "; ".join(said)


def death(attempt):
    """Kills one of three ranks while the others sum with it."""
    size = 2**20 if attempt.quick else 64 * 2**20
    # Without this option mpirun would end the other ranks, too.
    words = mpirun(attempt, 3, "--enable-recovery", attempt.program("device_victim"), 1, size)
    done = attempt.run(words, **PATIENCE)
    rows = attempt.rows_of(done)
    if done.overdue:
        raise Failed(f"it did not end within {done.seconds:.0f} s; {len(rows)} of 2 ranks had ended")
    if sorted(row["rank"] for row in rows) != [0, 2]:
        raise Failed(f"{len(rows)} of 2 ranks lived on")
    for row in rows:
        if row["error"] != "peer_lost" or row["wrong"] or row["ms"] > SOON_MS:
            raise Failed(f"rank {row['rank']} got {row['error']} after {row['ms']:.0f} ms")
    return f"the others got peer_lost within {max(row['ms'] for row in rows):.0f} ms, and the device works on"


def at_once(attempt, part, ranks, size, *words):
    """The means of the rates that gpu_stages measures in as many simultaneous processes as there are ranks."""
    begin = time.time() + (1 if attempt.quick else 2) + 0.3 * ranks
    line = [attempt.program("gpu_stages"), part, "--bytes", size, "--seconds", 0.01 if attempt.quick else 0.3,
            "--at", begin, *words]
    rows = [row for done in attempt.run_together([line] * ranks) for row in attempt.figures(done, processes=ranks)]
    return {name: statistics.mean(row[name] for row in rows) for name in rows[0] if name.endswith("GBps")}


def stage_rates(attempt, ranks, size):
    """(the rate of each stage alone, that of both copies at once), in GB of tensor a second on each of the ranks, all
    of which do the same."""
    copies = at_once(attempt, "copies", ranks, size, "--memory", "registered")
    added = at_once(attempt, "host-sums", ranks, size, "--sources", ranks)
    both_ways = copies.pop("each_way_at_once_GBps")
    return {**copies, "sum_GBps": added["GBps"]}, both_ways


def ratios(rate, stages):
    """(over the slowest stage's rate, over that of the stages one after the other)"""
    return rate / min(stages.values()), rate * sum(1 / stage for stage in stages.values())


def pipeline(attempt):
    """Compares sums of tensors on the GPU with each of their stages alone."""
    sizes, seconds, least = (("64K", "1M"), 0.1, 2) if attempt.quick else (("64M", "400M"), 2, 5)
    attempt.program("allreduce_bench")  # without it there is nothing with which to compare the stages
    said = []
    for ranks in (2,) if attempt.quick else (2, 4):
        stages = [stage_rates(attempt, ranks, size) for size in sizes]
        rows = bench(attempt, ranks, "--gpu", 0, "--impl", "tutti", "--bytes", ",".join(sizes), "--seconds", seconds,
                     "--warmup", 2, "--least", least)
        for row, (alone, both_ways) in zip(rows, stages):
            rate = row["algbw_GBps"]
            of_slowest, over_turns = ratios(rate, alone)
            attempt.rows.append({"part": "pipeline", **row, **alone, "each_way_at_once_GBps": both_ways,
                                 "of_slowest": of_slowest, "of_each_way_at_once": rate / both_ways,
                                 "over_one_after_the_other": over_turns})
            said.append(f"{ranks} ranks, {row['bytes'] / 2**20:.0f} MiB: {rate:.1f} GB/s, {of_slowest:.2f} of the "
                        f"slowest stage, {rate / both_ways:.2f} of both copies at once, {over_turns:.2f} × one after "
                        "the other")
    return "; ".join(said)


def streams(attempt):
    """Sums tensors of PyTorch and CuPy through the C interface, ordered only by their streams."""
    library, script = attempt.library("libtutti.so.0"), pathlib.Path(__file__).with_name("streams.py")
    said = []
    for framework in ("torch", "cupy", "driver"):
        if framework != "driver" and importlib.util.find_spec(framework) is None:
            said.append(f"no {framework}")
            continue
        rounds = 10 if attempt.quick else 200
        rows = attempt.measures(mpirun(attempt, 2, sys.executable, script, library, framework, rounds), **PATIENCE)
        said.append(f"{framework} {rows[0]['version']}: {rounds} rounds")
    return "; ".join(said)
