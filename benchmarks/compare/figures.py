"""Medians over rounds, and ratios of them."""
import dataclasses
import statistics

# Tutti races with several peers. Where one figure stands for it, that is its time in this contest, not the luckiest of all.
MAIN = "Open MPI"
CAPTION = "tutti's times are those beside Open MPI as it comes"


@dataclasses.dataclass(frozen=True)
class Ratio:
    """How many times as long the peer took; medians in µs."""
    peer: str
    setting: str
    peer_us: float
    own_us: float

    @property
    def value(self):
        return self.peer_us / self.own_us


class Figures:
    """The rows of a run. A time is the median over rounds of each round's median."""

    def __init__(self, rows):
        self.rounds = {}
        self.settings = {}
        for row in rows:
            key = (row["contest"], row["who"], row["ranks"], row["bytes"])
            self.rounds.setdefault(key, []).append(row["time_us"]["p50"])
            self.settings[row["contest"], row["ranks"]] = row["setting"]

    def keys(self):
        """(contest, who, ranks, bytes), in the order in which they were first measured."""
        return list(self.rounds)

    def time(self, contest, who, ranks, size):
        """µs, or None where that was not measured."""
        times = self.rounds.get((contest, who, ranks, size))
        return statistics.median(times) if times else None

    def spread(self, contest, who, ranks, size):
        """(smallest, largest) median of a round."""
        times = self.rounds[contest, who, ranks, size]
        return min(times), max(times)

    def own(self, contest, who, ranks, size):
        """The time that a contest's other lanes are held against: from the same process where it is there."""
        own = self.time(contest, who, ranks, size)
        if own is not None:
            return own
        others = [key for key in self.rounds if key[1:] == (who, ranks, size)]
        return self.time(*others[0]) if others else None

    def shown(self):
        """{(who, ranks, bytes): the one time that stands for it}. Of a peer that is the best of its settings."""
        found = {}
        for contest, who, ranks, size in self.rounds:
            us = self.own(MAIN, who, ranks, size) if who.startswith("tutti") else self.time(contest, who, ranks, size)
            found[who, ranks, size] = min(us, found.get((who, ranks, size), us))
        return found

    def ratios(self, own, family, ranks, size):
        """One for each setting of the peers of a family that was measured."""
        for contest, who, its_ranks, its_size in self.rounds:
            if (its_ranks, its_size) != (ranks, size) or not who.startswith(family):
                continue
            own_us = self.own(contest, own, ranks, size)
            if own_us is not None:
                yield Ratio(who, self.settings[contest, ranks], self.time(contest, who, ranks, size), own_us)

    def best(self, own, family, ranks, size):
        """Against the peer's setting that was the quickest here; None where nothing was measured."""
        return min(self.ratios(own, family, ranks, size), key=lambda ratio: ratio.peer_us, default=None)

    def default(self, own, family, ranks, size):
        """Against the peer as it comes, which has the family's own name; None where that was not measured."""
        return next((ratio for ratio in self.ratios(own, family, ranks, size) if ratio.peer == family), None)

    def picked(self, own, family, ranks, size):
        """Whether a setting of the peer's other than the default was measured."""
        return any(ratio.peer != family for ratio in self.ratios(own, family, ranks, size))
