"""The arguments of a store's call: keys, and arrays of the devices."""
import collections
import itertools

from mxnet.ndarray import NDArray

from tutti import _core
from tutti.errors import DuplicateKeyError, InvalidArgumentError, UnsupportedError

#: MXNet's names for places on the host.
ON_HOST = ("cpu", "cpu_pinned", "cpu_shared")


class SparseError(UnsupportedError, ValueError):
    """MXNet raises a ValueError for a store that cannot have sparse arrays."""


def listed(value):
    return list(value) if isinstance(value, (list, tuple)) else [value]


def pairs(keys, values):
    """(key, arrays of the devices) for one key with its value, or for lists of both."""
    if not isinstance(keys, (list, tuple)):
        return [(keys, dense(keys, listed(values)))]
    if not isinstance(values, (list, tuple)) or len(values) != len(keys):
        raise InvalidArgumentError("with a list of keys, pass a list of values with an entry for each key")
    if len(set(keys)) < len(keys):
        twice = next(key for i, key in enumerate(keys) if key in keys[:i])
        raise DuplicateKeyError(f"key {twice!r} stands twice in one call; make one call for each of its values",
                                key=twice)
    return [(key, dense(key, listed(value))) for key, value in zip(keys, values)]


def memory_of(array):
    return _core.mxnet.memory_of(array.handle.value)


def read_first(values, outs):
    """The values of a list call, copied where another key's output lies in the same memory: callers use an array for
    several keys, and the engine would read what the other key has put there."""
    if len(values) == 1:
        return values
    written = [{memory_of(array) for array in arrays} for _, arrays in outs]
    writers = collections.Counter(itertools.chain.from_iterable(written))
    read = []
    for (key, arrays), own in zip(values, written):
        by_others = [writers[memory] > (memory in own) for memory in map(memory_of, arrays)]
        copied = [array.copy() if is_so else array for array, is_so in zip(arrays, by_others)]
        read.append((key, copied if any(by_others) else arrays))
    return read


def copy_to(source, targets):
    for target in targets:
        if target is not source:
            source.copyto(target)


def dense(key, arrays):
    """The arrays, one at least, each of which must be one that the ranks can sum."""
    if not arrays:
        raise InvalidArgumentError(f"key {key!r}: pass at least one array", key=key)
    for array in arrays:
        if not isinstance(array, NDArray):
            raise TypeError(f"key {key!r}: a value is an NDArray or a list of them, not {type(array).__name__}")
        if array.stype != "default":
            raise SparseError(
                f"key {key!r}: tutti does not exchange {array.stype} arrays here; make the array dense, and copy the "
                "result back: array.tostype('default'), or for a parameter stype='default' and grad_stype='default'",
                key=key)
        if array.context.device_type not in ON_HOST:
            raise UnsupportedError(
                f"key {key!r}: tutti does not exchange MXNet's arrays on {array.context}; copy the array to the CPU, "
                "and the result back: array.as_in_context(mx.cpu()), or for a network and its data ctx=mx.cpu()",
                key=key)
    return arrays
