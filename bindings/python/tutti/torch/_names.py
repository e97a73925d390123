"""Keys for c10d's calls, which have no names of their own."""
import itertools

#: Calls of one signature take so many keys in turn. So several may be in flight, and the keys repeat with a period.
TURNS = 4
#: A store never forgets a key. After so many signatures, calls of similar sizes share keys.
SIGNATURES = 4096


class Names:
    """Names calls. Ranks that make the same calls in the same order get the same names. Not thread-safe."""

    def __init__(self):
        self._turns = {}

    def next(self, kind, dtype, shape, root=None):
        signature = kind, dtype, shape, root
        turns = self._turns.get(signature)
        if turns is None:
            turns = self._turns_of(signature)
        return next(turns)

    def _turns_of(self, signature):
        if len(self._turns) < SIGNATURES:
            return self._turns.setdefault(signature, _cycle(*signature))
        kind, dtype, shape, root = signature
        count = 1
        for dim in shape:
            count *= dim
        size = f"of {count.bit_length()} bits"
        return self._turns.setdefault((kind, dtype, size, root), _cycle(kind, dtype, size, root))


def _cycle(kind, dtype, shape, root):
    what = f"{kind} {str(dtype).removeprefix('torch.')} {shape if isinstance(shape, str) else list(shape)}"
    whose = "" if root is None else f" of rank {root}"
    return itertools.cycle([f"{what}{whose} #{turn}" for turn in range(TURNS)])
