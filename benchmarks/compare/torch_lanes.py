"""Shared code of the parts of suite pytorch."""
from compare import peers
from compare.contest import BenchError, Contest, open_mpi
from compare.targets import Verdict, judge, missing, times

OURS, GLOO, OURS_BF16, NOBODY = "tutti", "Gloo", "tutti, bf16", "no exchange"
NAMES = {"tutti": OURS, "gloo": GLOO, OURS_BF16: OURS_BF16, NOBODY: NOBODY}


def contest(request, name, setting, program, words=(), launcher=None):
    return Contest(name, setting, (request.peers_python, peers.PEERS / program, *words), launcher or open_mpi(), NAMES,
                   peers.ONE_THREAD, needed=True)


def check(request):
    for module, how in (("torch.distributed", "torch"), ("tutti.torch", ". in the repository")):
        if not peers.has_module(request.peers_python, module):
            raise BenchError(f"{request.peers_python} has no {module}: {request.peers_python} -m pip install {how}; "
                             "--peers-python chooses another")


def over_gloo(figures, key, what, wanted, own=OURS):
    """A verdict on how many times as fast as Gloo tutti is. key: (contest, ranks, bytes).

    Where the same step was measured without an exchange, too, its time is no part of either library's.
    """
    name, ranks, size = key
    own_us, gloo_us = (figures.time(name, who, ranks, size) for who in (own, GLOO))
    without_us = figures.time(name, NOBODY, ranks, size) or 0
    what = f"{ranks} ranks, {what}, {own} : {GLOO}"
    if own_us is None or gloo_us is None:
        return missing("P12", what, f">= {wanted} x", "one of the two has no such call")
    measured = f"{times(own_us)} : {times(gloo_us)}"
    if without_us:
        what, measured = f"{what}, above {NOBODY}", f"{measured}, less {times(without_us)}"
    if own_us <= without_us:
        return missing("P12", what, f">= {wanted} x", "the step was as fast with the exchange as without")
    ratio = (gloo_us - without_us) / (own_us - without_us)
    return Verdict("P12", what, f">= {wanted} x", f"{ratio:.2f} x", measured, judge(ratio, wanted))


def cases(figures):
    """(contest, ranks, bytes), in the order in which they were measured."""
    return dict.fromkeys((name, ranks, size) for name, _, ranks, size in figures.keys())


def compared(figures):
    """(contest, who, ranks, bytes, time in µs, that time over tutti's or None)."""
    for name, who, ranks, size in figures.keys():
        us, own = figures.time(name, who, ranks, size), figures.time(name, OURS, ranks, size)
        yield name, who, ranks, size, us, us / own if own else None
