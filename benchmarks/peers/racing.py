"""Shared code of the peers' programs: allreduce_bench's numbers, options and rows."""
import argparse
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
from command_line import Parser  # pylint: disable=wrong-import-position

PERIOD = 251
MOST = 1000


def phase_of(rank, turn):
    return (rank * 13 + turn * 7) % PERIOD


def numbers(ranks):
    """One period of the numbers that allreduce_bench sums; each rank and turn begins at another place in it."""
    largest = min(max(127 // ranks, 1), 8)
    return [i * i % PERIOD % (largest + 1) for i in range(PERIOD)]


def sums(ranks):
    """One period of the sums, which begin at rank 0's place."""
    one = numbers(ranks)
    return [sum(one[(i + phase_of(rank, 0)) % PERIOD] for rank in range(ranks)) for i in range(PERIOD)]


def place(name):
    """A number of this process under mpirun: its RANK, the SIZE of all, or LOCAL_SIZE, the number on its host."""
    return int(os.environ[f"OMPI_COMM_WORLD_{name}"])


def parser(about):
    options = Parser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--bytes", type=lambda text: [int(word) for word in text.split(",")], default=[4, 65536])
    options.add_argument("--seconds", type=float, default=2.0, help="for a size")
    options.add_argument("--least", type=int, default=5, help="turns a size at least")
    options.add_argument("--warmup", type=int, default=5, help="turns before them")
    options.add_argument("--rest", type=float, default=0, help="milliseconds before each turn")
    options.add_argument("--json", help="file for the rows")
    options.add_argument("--master", default="127.0.0.1", help="rank 0's address")
    return options


class Race:
    """Runs the turns of one size. `contestant` has fill(turn), barrier(), exchange(), wrong(turn), and
    largest(list), which gives each number's maximum over the ranks."""

    def __init__(self, contestant, rest=0):
        self.contestant, self.rest = contestant, rest
        self.turn, self.wrong, self.times = 0, 0, []

    def take(self):
        self.contestant.fill(self.turn)
        if self.rest:
            time.sleep(self.rest / 1e3)
        self.contestant.barrier()
        start = time.perf_counter()
        self.contestant.exchange()
        self.times.append((time.perf_counter() - start) * 1e6)
        self.contestant.barrier()
        self.wrong += self.contestant.wrong(self.turn)
        self.turn += 1

    def run(self, given):
        """Runs all turns. Returns the sorted times, each that of its slowest rank."""
        for _ in range(given.warmup):
            self.take()
        self.times, start = [], time.perf_counter()
        while True:
            for _ in range(given.least):
                self.take()
            if len(self.times) >= MOST or self.contestant.largest([time.perf_counter() - start])[0] >= given.seconds:
                return sorted(self.contestant.largest(self.times))


def take_turns(races, given):
    """Takes the turns of one size, each race one at a time. Which goes first changes from turn to turn."""
    def turns(count):
        for number in range(count):
            for race in races if number % 2 else races[::-1]:
                race.take()
    turns(given.warmup)
    for race in races:
        race.times = []
    start, done = time.perf_counter(), 0
    while done < MOST:
        turns(given.least)
        done += given.least
        if races[0].contestant.largest([time.perf_counter() - start])[0] >= given.seconds:
            break
    return [sorted(race.contestant.largest(race.times)) for race in races]


def row(who, size, ranks, times, wrong):
    """A row of results. `who`: impl and version."""
    at = lambda share: times[round(share * (len(times) - 1))]
    algorithm = size / at(0.5) / 1e3
    return {**who, "op": "allreduce", "dtype": "f32", "ranks": ranks, "hosts": ranks // place("LOCAL_SIZE"),
            "bytes": size, "shared": False, "iters": len(times),
            "time_us": {"min": times[0], "p50": at(0.5), "p99": at(0.99), "max": times[-1],
                        "avg": sum(times) / len(times)},
            "algbw_GBps": algorithm, "busbw_GBps": algorithm * 2 * (ranks - 1) / ranks, "wrong": wrong}


def finish(rows, file):
    """Rank 0 prints and writes the rows. Returns the exit status."""
    if place("RANK") == 0:
        print(json.dumps(rows))
        if file:
            with open(file, "w", encoding="utf-8") as stream:
                json.dump(rows, stream)
    return 1 if any(one["wrong"] for one in rows) else 0
