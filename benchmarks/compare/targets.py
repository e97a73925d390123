"""Targets, and whether the figures reach them."""
import dataclasses

PASS, SHORT, MISSING = "pass", "short", "not measured"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """One line of the table of targets."""
    target: str
    what: str
    wanted: str
    reached: str
    detail: str
    verdict: str


def judge(value, wanted, at_most=False):
    """Held against each other as they are printed: with two decimals."""
    value, wanted = round(value, 2), round(wanted, 2)
    return PASS if (value <= wanted if at_most else value >= wanted) else SHORT


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
    """A ratio to the best setting of a peer."""
    what = f"{ranks} ranks, {size_text(size)}, {own} : {family}"
    ratio = figures.best(own, family, ranks, size)
    if ratio is None:
        return missing(target, what, f">= {wanted:g} x", f"{family} was not measured here")
    detail = f"{times(ratio.own_us)} : {times(ratio.peer_us)} ({ratio.setting})"
    return Verdict(target, what, f">= {wanted:g} x", f"{ratio.value:.2f} x", detail, judge(ratio.value, wanted))


def against_default(target, figures, own, family, ranks, size, wanted):
    """A ratio to a peer as it comes; where another of its settings is quicker, that is told."""
    what, text = f"{ranks} ranks, {size_text(size)}, {own} : {family}", f">= {wanted:g} x its default"
    found = {ratio.peer: ratio for ratio in figures.ratios(own, family, ranks, size)}
    if family not in found:
        return missing(target, what, text, f"{family} was not measured here")
    default, best = found[family], min(found.values(), key=lambda ratio: ratio.peer_us)
    detail = f"{times(default.own_us)} : {times(default.peer_us)} ({default.setting})"
    if best is not default:
        detail += f"; best {times(best.peer_us)}, {best.value:.2f} x ({best.setting})"
    return Verdict(target, what, text, f"{default.value:.2f} x", detail, judge(default.value, wanted))


def at_most(target, what, value, limit, unit):
    """An absolute bound; value None where it was not measured."""
    wanted = f"<= {limit:g} {unit}"
    if value is None:
        return missing(target, what, wanted, "")
    return Verdict(target, what, wanted, f"{value:.2f} {unit}", "", judge(value, limit, at_most=True))
