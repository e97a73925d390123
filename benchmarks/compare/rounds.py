"""Contests take turns, round by round."""
import sys
import time

from compare.contest import BenchError


def order(contests, number):
    """The contests in the order of this round. Each round begins with another one, so that none always runs after
    the same."""
    first = number % len(contests) if contests else 0
    return contests[first:] + contests[:first]


def interleave(contests, ranks, rounds, run, lost):
    """The rows of all rounds. `run(contest)` gives a contest's rows. If a contest fails that is not needed, it is
    left out from then on and its rows are dropped; `lost` gets the reason, by its name."""
    rows, left = [], list(contests)
    for number in range(rounds):
        for contest in order(left, number):
            say(f"{ranks} ranks, round {number + 1} of {rounds}: {contest.name}")
            try:
                new = run(contest)
            except BenchError as error:
                if contest.needed:
                    raise
                lost[f"{contest.name}, {ranks} ranks"] = str(error)
                left.remove(contest)
                rows = [row for row in rows if row["contest"] != contest.name]
                continue
            rows += [{**row, "round": number} for row in new]
    say("")
    return rows


class Progress:
    """Shows progress: on a terminal one line that overwrites itself; in a log a line of its own, once a minute."""
    PAUSE = 60  # seconds

    def __init__(self, stream, clock=time.monotonic):
        self.stream, self.clock, self.began, self.said = stream, clock, clock(), clock()

    def __call__(self, text):
        now = self.clock()
        if self.stream.isatty():
            print(f"\r\x1b[K{text}", end="", file=self.stream, flush=True)
        elif text and now - self.said >= self.PAUSE:
            self.said = now
            print(f"after {(now - self.began) / 60:.0f} min: {text}", file=self.stream, flush=True)


say = Progress(sys.stderr)
