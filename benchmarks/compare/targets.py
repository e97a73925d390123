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


# Decimals of ratios that are printed as a per cent with one decimal, and of values near 1 or 0.
FINE = 3


def judge(value, wanted, at_most=False, digits=2):
    """Compares a value with its target, rounded to this many decimals, as it is printed."""
    value = round(value, digits)
    return PASS if (value <= wanted if at_most else value >= wanted) else SHORT


def judge_share(value, wanted):
    """Judges a ratio that is printed as a per cent with one decimal."""
    return judge(value, wanted, digits=FINE)


def trusted(verdicts, rows):
    """The verdicts; if any row has wrong sums, none of them passes."""
    if not any(row["wrong"] for row in rows):
        return verdicts
    return [dataclasses.replace(verdict, verdict=WRONG) if verdict.verdict == PASS else verdict for verdict in verdicts]


def missing(target, what, wanted, why):
    return Verdict(target, what, wanted, "-", why, MISSING)


def times(us):
    """A time with a unit that suits it."""
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
    """A verdict on the ratio to the best setting of a peer. It also tells the ratio to the peer's defaults."""
    what, text = f"{ranks} ranks, {size_text(size)}, {own} : {family}", f">= {wanted:g} x"
    best, default = figures.best(own, family, ranks, size), figures.default(own, family, ranks, size)
    if best is None:
        return missing(target, what, text, f"{family} was not measured here")
    detail = f"{times(best.own_us)} : {times(best.peer_us)} ({best.setting})"
    if default and best != default:
        detail += f"; default {times(default.peer_us)}, {default.value:.2f} x"
    return Verdict(target, what, text, f"{best.value:.2f} x", detail, judge(best.value, wanted))


def against_quickest(target, figures, own, families, ranks, size, wanted):
    """A verdict on the ratio to the quickest of all peers, each at its best."""
    what, text = f"{ranks} ranks, {size_text(size)}, {own} : quickest peer", f">= {wanted:g} x"
    bests = filter(None, (figures.best(own, family, ranks, size) for family in families))
    best = min(bests, key=lambda ratio: ratio.peer_us, default=None)
    if best is None:
        return missing(target, what, text, "no peer was measured here")
    detail = f"{times(best.own_us)} : {times(best.peer_us)} ({best.peer}, {best.setting})"
    return Verdict(target, what, text, f"{best.value:.2f} x", detail, judge(best.value, wanted))


def against_picked(target, figures, own, family, ranks, size, wanted):
    """Does the same as `against`, for a peer whose best setting was searched: if no setting was picked, the peer's best
    is not known."""
    verdict = against(target, figures, own, family, ranks, size, wanted)
    default = figures.default(own, family, ranks, size)
    if figures.picked(own, family, ranks, size) or verdict.verdict == MISSING:
        return verdict
    return missing(target, verdict.what, verdict.wanted, unpicked(family, default))


def unpicked(family, default):
    """The reason why there is no verdict if a peer was measured with its defaults only."""
    return f"none of {family}'s settings that were picked; default {times(default.peer_us)}, {default.value:.2f} x"


def against_default(target, figures, own, family, ranks, size, wanted):
    """A verdict on the ratio to a peer with its defaults. If another of its settings is quicker, it tells that too."""
    what, text = f"{ranks} ranks, {size_text(size)}, {own} : {family}", f">= {wanted:g} x its default"
    best, default = figures.best(own, family, ranks, size), figures.default(own, family, ranks, size)
    if default is None:
        return missing(target, what, text, f"{family} was not measured here")
    detail = f"{times(default.own_us)} : {times(default.peer_us)} ({default.setting})"
    if best != default:
        detail += f"; best {times(best.peer_us)}, {best.value:.2f} x ({best.setting})"
    return Verdict(target, what, text, f"{default.value:.2f} x", detail, judge(default.value, wanted))


def at_most(target, what, value, limit, unit, digits=2):
    """A verdict on an absolute bound; value None: it was not measured."""
    wanted = f"<= {limit:g} {unit}"
    if value is None:
        return missing(target, what, wanted, "")
    return Verdict(target, what, wanted, f"{value:.{digits}f} {unit}", "",
                   judge(value, limit, at_most=True, digits=digits))
