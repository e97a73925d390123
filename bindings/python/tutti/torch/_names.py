"""Keys for c10d's calls, which have no names of their own."""

#: Calls of one signature take this many keys in turn. So several may be in flight, and the keys repeat with a period.
TURNS = 4
#: A store never forgets a key. After this many signatures, calls of similar sizes share keys.
SIGNATURES = 4096


class Turns:
    """The keys of a signature, in turn."""

    __slots__ = ("_keys", "_turn")

    def __init__(self, keys):
        self._keys = keys
        self._turn = 0

    def key(self):
        return self._keys[self._turn]

    def advance(self):
        self._turn = (self._turn + 1) % TURNS


class Names:
    """Names calls. Ranks that make the same calls in the same order get the same names. Not thread-safe."""

    def __init__(self):
        self._turns = {}

    def turns(self, kind, dtype, shape, root=None):
        """The turns of this signature."""
        turns = self._turns.get((kind, dtype, shape, root))
        return turns if turns is not None else self._turns_of(kind, dtype, shape, root)

    def _turns_of(self, kind, dtype, shape, root):
        if len(self._turns) < SIGNATURES:
            return self._turns.setdefault((kind, dtype, shape, root), _turns(kind, dtype, shape, root))
        count = 1
        for dim in shape:
            count *= dim
        size = f"of {count.bit_length()} bits"
        return self._turns.setdefault((kind, dtype, size, root), _turns(kind, dtype, size, root))


def _turns(kind, dtype, shape, root):
    what = f"{kind} {str(dtype).removeprefix('torch.')} {shape if isinstance(shape, str) else list(shape)}"
    whose = "" if root is None else f" of rank {root}"
    return Turns([f"{what}{whose} #{turn}" for turn in range(TURNS)])
