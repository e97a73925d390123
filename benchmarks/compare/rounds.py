"""Contests take turns, round by round."""
import sys

from compare.contest import BenchError


def order(contests, number):
    """Each round begins with another contest, so that none always runs after the same."""
    first = number % len(contests) if contests else 0
    return contests[first:] + contests[:first]


def interleave(contests, ranks, rounds, run, lost):
    """Rows of all rounds. `run(contest)` gives a contest's rows; one that fails once, and is not needed, is
    left out from then on, of the rows too: `lost` gets its reason, by its name."""
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


def say(text):
    """Progress, on one line of a terminal; a log does not need it."""
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)
