"""Targets, and whether the figures reach them."""
import dataclasses

PASS, SHORT, MISSING, WRONG = "pass", "short", "not measured", "wrong sums"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """One line of the table of targets."""
    target: str
    what: str
    wanted: str
    reached: str
    detail: str
    verdict: str


# Decimals of what is printed as a per cent with one, and of what is near 1 or 0.
FINE = 3


def judge(value, wanted, at_most=False, digits=2):
    """Held against the target as it is printed, with so many decimals."""
    value = round(value, digits)
    return PASS if (value <= wanted if at_most else value >= wanted) else SHORT


def judge_share(value, wanted):
    """Of what is printed as a per cent with one decimal."""
    return judge(value, wanted, digits=FINE)


def trusted(verdicts, rows):
    """The verdicts, of which none passes that may rest on wrong sums: as soon as one of the rows has any."""
    if not any(row["wrong"] for row in rows):
        return verdicts
    return [dataclasses.replace(verdict, verdict=WRONG) if verdict.verdict == PASS else verdict for verdict in verdicts]


def missing(target, what, wanted, why):
    return Verdict(target, what, wanted, "-", why, MISSING)


def times(us):
    """A time as people say it."""
    for unit, factor in (("s", 1e6), ("ms", 1e3)):
        if us >= factor:
            return f"{us / factor:.3g} {unit}"
    return f"{us:.3g} µs"


def size_text(size):
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:g} {unit}"
    return f"{size} B"


def against(target, figures, own, family, ranks, size, wanted):
    """A ratio to the best setting of a peer; what it is to the peer as it comes is told."""
    what, text = f"{ranks} ranks, {size_text(size)}, {own} : {family}", f">= {wanted:g} x"
    best, default = figures.best(own, family, ranks, size), figures.default(own, family, ranks, size)
    if best is None:
        return missing(target, what, text, f"{family} was not measured here")
    detail = f"{times(best.own_us)} : {times(best.peer_us)} ({best.setting})"
    if default and best != default:
        detail += f"; default {times(default.peer_us)}, {default.value:.2f} x"
    return Verdict(target, what, text, f"{best.value:.2f} x", detail, judge(best.value, wanted))


def against_quickest(target, figures, own, families, ranks, size, wanted):
    """A ratio to the quickest of all peers, each at its best."""
    what, text = f"{ranks} ranks, {size_text(size)}, {own} : quickest peer", f">= {wanted:g} x"
    bests = filter(None, (figures.best(own, family, ranks, size) for family in families))
    best = min(bests, key=lambda ratio: ratio.peer_us, default=None)
    if best is None:
        return missing(target, what, text, "no peer was measured here")
    detail = f"{times(best.own_us)} : {times(best.peer_us)} ({best.peer}, {best.setting})"
    return Verdict(target, what, text, f"{best.value:.2f} x", detail, judge(best.value, wanted))


def against_picked(target, figures, own, family, ranks, size, wanted):
    """The same of a peer whose best was looked for: without a setting that was picked its best is not known."""
    verdict = against(target, figures, own, family, ranks, size, wanted)
    default = figures.default(own, family, ranks, size)
    if figures.picked(own, family, ranks, size) or verdict.verdict == MISSING:
        return verdict
    return missing(target, verdict.what, verdict.wanted, unpicked(family, default))


def unpicked(family, default):
    """Why there is no verdict where a peer was measured as it comes alone."""
    return f"none of {family}'s settings that were picked; default {times(default.peer_us)}, {default.value:.2f} x"


def against_default(target, figures, own, family, ranks, size, wanted):
    """A ratio to a peer as it comes; where another of its settings is quicker, that is told."""
    what, text = f"{ranks} ranks, {size_text(size)}, {own} : {family}", f">= {wanted:g} x its default"
    best, default = figures.best(own, family, ranks, size), figures.default(own, family, ranks, size)
    if default is None:
        return missing(target, what, text, f"{family} was not measured here")
    detail = f"{times(default.own_us)} : {times(default.peer_us)} ({default.setting})"
    if best != default:
        detail += f"; best {times(best.peer_us)}, {best.value:.2f} x ({best.setting})"
    return Verdict(target, what, text, f"{default.value:.2f} x", detail, judge(default.value, wanted))


def at_most(target, what, value, limit, unit, digits=2):
    """An absolute bound; value None where it was not measured."""
    wanted = f"<= {limit:g} {unit}"
    if value is None:
        return missing(target, what, wanted, "")
    return Verdict(target, what, wanted, f"{value:.{digits}f} {unit}", "", judge(value, limit, at_most=True, digits=digits))
