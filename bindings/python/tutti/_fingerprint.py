"""Finds out whether all ranks have the same arrays, and if not, which array differs first."""
from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tutti import _core
from tutti._arrays import is_masked, is_torch, why_refused
from tutti._objects import allgather, allgather_object, refuse_those_of
from tutti.errors import MismatchError
from tutti.types import Array

if TYPE_CHECKING:
    from tutti._store import KVStore

DIGEST_BYTES = 32
#: A rank sends this instead of a hash if it has none, so that the others do not wait for it.
REFUSED = bytes(DIGEST_BYTES)


def hash_of(data):
    import hashlib  # pylint: disable=import-outside-toplevel  # when it is asked for: import tutti stays quick
    return hashlib.blake2b(data, digest_size=DIGEST_BYTES).digest()


def described(array):
    """(dtype and shape as text, hash of the elements)."""
    if is_torch(array):  # it is only read
        array = array.detach().resolve_conj().resolve_neg().contiguous()
    if not isinstance(array, np.ndarray):
        data, dtype, shape = _core.bytes_of(array)
        return f"{dtype} {shape}", hash_of(data)
    if array.dtype.hasobject or is_masked(array):
        raise why_refused(array, written=False, moved=True)
    # Also describes arrays of dtypes that no call takes.
    return f"{array.dtype} {array.shape}", hash_of(np.ascontiguousarray(array).reshape(-1).view(np.uint8))


def plain(name):
    """The name as an exact str or int. Names that are equal on two ranks must be spelt alike there."""
    if isinstance(name, str):
        return str.__str__(name)
    if hasattr(name, "__index__"):
        return int(operator.index(name))
    raise TypeError(f"fingerprint: the name of a tensor is a str or an int, not {type(name).__name__}")


def described_by_name(arrays):
    items = arrays.items() if isinstance(arrays, Mapping) else enumerate(arrays)
    return {plain(name): described(array) for name, array in items}


def total_of(tensors):
    """One hash of all tensors. It depends on their names, but not on their order."""
    return hash_of(repr(sorted(tensors.items(), key=repr)).encode())


def names_of(everyones):
    """Returns the names of rank 0 in its order, and then the names that rank 0 does not have."""
    return list(dict.fromkeys(name for tensors in everyones for name in tensors))


def who_says_what(name, everyones):
    """{description of the tensor: ranks that have it}. The description of the lowest rank comes first."""
    groups = {}
    for rank, tensors in enumerate(everyones):
        groups.setdefault(tensors.get(name), []).append(rank)
    return groups


def as_text(said, ranks):
    what = f"{said[0]} of hash {said[1].hex()[:8]}" if said else "no such tensor"
    return f"{what} on {'ranks' if len(ranks) > 1 else 'rank'} {', '.join(map(str, ranks))}"


def difference(everyones, named):
    """The error that names the first difference. `everyones` has, for each rank, {name: what `described` returns}."""
    names = names_of(everyones)
    differing = [name for name in names if len(who_says_what(name, everyones)) > 1]
    first = differing[0]
    groups = who_says_what(first, everyones)
    return MismatchError(
        f"fingerprint: tensor {first!r} differs between ranks: {'; '.join(map(as_text, groups, groups.values()))} "
        f"({len(differing)} of {len(names)} tensors differ, this is the first). Give all ranks one rank's values with "
        "broadcast, and look for what these ranks did otherwise: seeds, data, a step more or less",
        key=first if named else None,
        ranks=sorted(set(range(len(everyones))).difference(next(iter(groups.values())))))


def exchanged(self, total):
    """The hash of each rank, by rank."""
    totals = allgather(self, "fingerprint", "tutti:fingerprint", np.frombuffer(total, np.uint8))
    return [each.tobytes() for each in totals]


def fingerprint(self: KVStore, arrays: Mapping[Any, Array] | Sequence[Array]) -> str:
    """Compares arrays between the ranks, bit by bit, by hashes of their dtype, shape and elements.

    arrays: a list of arrays, or a dict of arrays by name, such as a model's parameters. A name is a str or an int.

    Returns the hash of all arrays as hexadecimal text.

    Raises MismatchError on every rank if arrays differ. It names the first tensor that differs, in rank 0's order: as
    `key` if it has a name, and with the ranks whose tensor differs from rank 0's in `ranks`. Raises
    InvalidArgumentError for masked arrays and arrays of Python objects, and TypeError for an argument that is no array
    or no name; the other ranks then get InvalidArgumentError with those ranks in `ranks`. Raises what Pending.wait
    raises.

    Collective. Blocks. Call it in one order with broadcast_object. Hashing takes about a second for each GB. Unless
    something differs, 32 bytes travel. NaNs are equal if their bits are, and 0.0 differs from -0.0.
    """
    self._require_open("fingerprint")
    try:
        tensors = described_by_name(arrays)
    except Exception:
        exchanged(self, REFUSED)
        raise
    totals = exchanged(self, total_of(tensors))
    refusing = [rank for rank, total in enumerate(totals) if total == REFUSED]
    refuse_those_of(refusing, "fingerprint", "an array or a name of {} cannot be compared")
    if len(set(totals)) > 1:
        raise difference(allgather_object(self, tensors), isinstance(arrays, Mapping))
    return totals[self.rank].hex()
