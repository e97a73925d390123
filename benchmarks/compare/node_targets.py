"""P1, P1s, P2 and P9, as far as the sizes and ranks that were measured go.

The best of a peer's settings counts, and what the default gets is told beside it; the targets of Horovod's default
alone are for that one."""
from compare import peers
from compare.figures import MAIN
from compare.targets import (MISSING, Verdict, against, against_default, against_picked, against_quickest, judge,
                             judge_share, missing, size_text)

OPEN_MPI = "Open MPI"
PEERS = (OPEN_MPI, "Intel MPI", "Gloo", peers.HOROVOD)
FREE = "tutti, reproducible off"
KIB, MIB = 1 << 10, 1 << 20
LARGE = 64 * MIB
# {ranks: (times as fast as Open MPI at 16 MiB, from 64 MiB on)}.
PRIVATE = {2: (1.6, 1.8), 4: (1.7, 2.5), 8: (2.1, 3.5)}
SHARED = {2: (3, 4), 4: (3.3, 5), 8: (4, 6)}
INTEL = 1.05
OF_FLOOR = 0.6
HOROVOD_DEFAULT, HOROVOD_UP_TO = 20, 64 * KIB
# The ratio of two measurements of the same thing here, and the largest size with enough iterations in a turn for that
# ratio.
SAME, SAME_UP_TO = 0.97, 16 * MIB


def large(figures, ranks, sizes):
    for name, own, table in (("P1", "tutti", PRIVATE), ("P1s", "tutti, shared", SHARED)):
        if ranks not in table:
            continue
        for size in sizes:
            if size == 16 * MIB or size >= LARGE:
                yield against_picked(name, figures, own, OPEN_MPI, ranks, size, table[ranks][size >= LARGE])
            if size >= LARGE and own == "tutti":
                yield against(name, figures, own, "Intel MPI", ranks, size, INTEL)


def of_floor(figures, ranks, sizes, floor):
    for size in sizes:
        if size < LARGE or (ranks, size) not in floor:
            continue
        us = figures.own(MAIN, "tutti", ranks, size)
        share = floor[ranks, size] / us
        yield Verdict("P1", f"{ranks} ranks, {size_text(size)}, part of the memory floor", f">= {100 * OF_FLOOR:.0f} %",
                      f"{100 * share:.1f} %", f"floor {floor[ranks, size] / 1e3:.3g} ms", judge_share(share, OF_FLOOR))


def small(figures, ranks, sizes):
    if ranks == 2:
        for size in sizes:
            if size <= MIB:
                yield against_quickest("P2", figures, "tutti", PEERS, 2, size, 1)
    if ranks == 8:
        if 4 in sizes:
            yield against_picked("P2", figures, "tutti", OPEN_MPI, 8, 4, 1.2)
        for size in sizes:
            if 16 * KIB <= size <= 64 * KIB:
                yield against_picked("P2", figures, "tutti", OPEN_MPI, 8, size, 2.5)
                yield against_picked("P2", figures, "tutti, shared", OPEN_MPI, 8, size, 4)


def horovod(figures, ranks, sizes):
    for size in sizes:
        verdict = against_default("P2", figures, "tutti", peers.HOROVOD, ranks, size, HOROVOD_DEFAULT)
        if size <= HOROVOD_UP_TO and verdict.verdict != MISSING:
            yield verdict


def size_of_free(sizes):
    return max((size for size in sizes if size <= SAME_UP_TO), default=min(sizes))


def reproducible(figures, ranks, sizes):
    size = size_of_free(sizes)
    what = f"{ranks} ranks, {size_text(size)}, reproducible : not"
    wanted = f"1.00 x (>= {SAME})"
    ratio = figures.best("tutti", FREE, ranks, size)
    if ratio is None:
        return missing("P9", what, wanted, "")
    detail = f"{ratio.own_us:.1f} : {ratio.peer_us:.1f} µs"
    return Verdict("P9", what, wanted, f"{ratio.value:.2f} x", detail, judge(ratio.value, SAME))


def verdicts(figures, ranks, sizes, floor):
    found, of_horovod = [], []
    for n in ranks:
        found += [*large(figures, n, sizes), *of_floor(figures, n, sizes, floor), *small(figures, n, sizes),
                  reproducible(figures, n, sizes)]
        of_horovod += horovod(figures, n, sizes)
    if not of_horovod and min(sizes) <= HOROVOD_UP_TO:
        of_horovod = [missing("P2", "small sizes, tutti : Horovod", f">= {HOROVOD_DEFAULT} x its default",
                              "Horovod was not measured here")]
    return sorted(found + of_horovod, key=lambda verdict: verdict.target)
