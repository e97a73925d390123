"""Shared code of the peers' programs that time steps of many small tensors, with negotiation_bench's numbers, options
and rows.
"""
import argparse
import time

import racing


def offset(rank, turn):
    """The number that a rank adds to the pattern."""
    return rank + turn % 100


def offsets(ranks, turn):
    """The sum of these numbers over all ranks."""
    return sum(offset(rank, turn) for rank in range(ranks))


def pattern(tensors):
    return [i % 7 for i in range(tensors)]


def parser(about):
    options = racing.Parser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--tensors", type=int, default=160, help="in a step, of one f32 each")
    options.add_argument("--steps", type=int, default=200, help="that are measured")
    options.add_argument("--warmup", type=int, default=20, help="steps before them")
    options.add_argument("--idle", type=float, default=3.0, help="seconds for which the library is then left alone")
    options.add_argument("--json", help="file for the rows")
    return options


def idle_use(seconds):
    """The part of a core that this process uses while its library has nothing to do."""
    time.sleep(0.2)  # work that the last exchange left over
    before = time.process_time()
    time.sleep(seconds)
    return (time.process_time() - before) / seconds


class Steps:
    """Runs steps. `contestant` has fill(turn), exchange() and wrong(turn). As in negotiation_bench, ranks go from
    step to step without a barrier, and only the exchange is measured."""

    def __init__(self, contestant):
        self.contestant = contestant
        self.turn, self.wrong = 0, 0

    def take(self):
        """Takes a step and returns its microseconds."""
        self.contestant.fill(self.turn)
        start = time.perf_counter()
        self.contestant.exchange()
        took = (time.perf_counter() - start) * 1e6
        self.wrong += self.contestant.wrong(self.turn)
        self.turn += 1
        return took

    def run(self, given):
        for _ in range(given.warmup):
            self.take()
        return [self.take() for _ in range(given.steps)]


def row(who, given, ranks, times, wrong):
    """A row of results. `who`: impl and version; `times`: sorted, each that of its slowest rank."""
    at = lambda share: times[round(share * (len(times) - 1))]
    return {**who, "op": "negotiation", "dtype": "f32", "ranks": ranks, "hosts": ranks // racing.place("LOCAL_SIZE"),
            "bytes": 4, "tensors": given.tensors, "iters": len(times), "wrong": wrong,
            "time_us": {"min": times[0], "p50": at(0.5), "p99": at(0.99), "max": times[-1]}}


def measure(given, ranks, contestants, version, over_ranks):
    """The rows of {impl: contestant}. `over_ranks(list, "MAX" or "SUM")` is collective. The cost of an idle library
    belongs to the process, so every row has it."""
    rows = []
    for impl, contestant in contestants.items():
        steps = Steps(contestant)
        times = sorted(over_ranks(steps.run(given), "MAX"))
        rows.append(row({"impl": impl, "version": version}, given, ranks, times, over_ranks([steps.wrong], "SUM")[0]))
    idle, = over_ranks([idle_use(given.idle)], "MAX")
    return [{**one, "idle_cores": idle} for one in rows]
