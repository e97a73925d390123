"""Medians over rounds, and ratios of them."""
import dataclasses
import statistics

# Tutti is measured in several contests. Where one figure is shown for it, it is the one of this contest, not the best
# of all.
MAIN = "Open MPI"
CAPTION = "tutti's times are those beside Open MPI as it comes"


@dataclasses.dataclass(frozen=True)
class Ratio:
    """The time of a peer divided by tutti's time; medians in µs."""
    peer: str
    setting: str
    peer_us: float
    own_us: float

    @property
    def value(self):
        return self.peer_us / self.own_us


class Figures:
    """The rows of a run. Its times are medians over rounds of each round's median."""

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
        """The time in µs; None if it was not measured."""
        times = self.rounds.get((contest, who, ranks, size))
        return statistics.median(times) if times else None

    def spread(self, contest, who, ranks, size):
        """The smallest and the largest median of a round."""
        times = self.rounds[contest, who, ranks, size]
        return min(times), max(times)

    def own(self, contest, who, ranks, size):
        """The time with which a contest's other lanes are compared: from the same process if it was measured there."""
        own = self.time(contest, who, ranks, size)
        if own is not None:
            return own
        others = [key for key in self.rounds if key[1:] == (who, ranks, size)]
        return self.time(*others[0]) if others else None

    def shown(self):
        """{(who, ranks, bytes): the time that is shown}. For a peer that is the best of its settings."""
        found = {}
        for contest, who, ranks, size in self.rounds:
            us = self.own(MAIN, who, ranks, size) if who.startswith("tutti") else self.time(contest, who, ranks, size)
            found[who, ranks, size] = min(us, found.get((who, ranks, size), us))
        return found

    def ratios(self, own, family, ranks, size):
        """A ratio for each setting of the family's peers that was measured."""
        for contest, who, its_ranks, its_size in self.rounds:
            if (its_ranks, its_size) != (ranks, size) or not who.startswith(family):
                continue
            own_us = self.own(contest, own, ranks, size)
            if own_us is not None:
                yield Ratio(who, self.settings[contest, ranks], self.time(contest, who, ranks, size), own_us)

    def best(self, own, family, ranks, size):
        """The ratio to the quickest of the peer's settings; None if nothing was measured."""
        return min(self.ratios(own, family, ranks, size), key=lambda ratio: ratio.peer_us, default=None)

    def default(self, own, family, ranks, size):
        """The ratio to the peer with its defaults, which has the family's own name; None if it was not measured."""
        return next((ratio for ratio in self.ratios(own, family, ranks, size) if ratio.peer == family), None)

    def picked(self, own, family, ranks, size):
        """Whether a setting of the peer was measured other than its default."""
        return any(ratio.peer != family for ratio in self.ratios(own, family, ranks, size))
