"""check_finite: what a rank brings is looked through before a call takes it."""
import functools
import weakref

import numpy as np

from tutti import _core
from tutti.errors import InvalidArgumentError

#: The names by which the methods take what a rank brings.
INPUT_NAMES = ("ins", "value")


def numbers_of(array):
    """The elements in place; a copy of those of bfloat16, which numpy lacks."""
    if isinstance(array, np.ndarray):
        return array
    data, dtype, shape = _core.bytes_of(array)
    if dtype == "bfloat16":  # the upper half of a float32
        return (data.view(np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(shape)
    return data.view(dtype).reshape(shape)


def finite_elements(numbers):
    """Which are finite; nothing when all are."""
    if numbers.dtype.kind != "f":
        return None
    with np.errstate(all="ignore"):
        # Reads them once and writes nothing. The sum may overflow though all are finite.
        if np.isfinite(numbers.sum(dtype=np.promote_types(numbers.dtype, np.float32))):
            return None
    return np.isfinite(numbers)


def refuse_infinite(rank, method, key, array):
    numbers = numbers_of(array)
    finite = finite_elements(numbers)
    if finite is None or finite.all():
        return
    place = tuple(map(int, np.unravel_index(np.argmin(finite), finite.shape)))
    value = str(numbers[place]).replace("nan", "NaN")
    raise InvalidArgumentError(
        f"{method} of key {key!r}: rank {rank} brings an array of shape {numbers.shape} whose element {list(place)} "
        f"is {value}, the first of {finite.size - np.count_nonzero(finite)} that are not finite (check_finite=True)",
        key=key, ranks=[rank])


def arrays_of(value):
    return value if isinstance(value, (list, tuple)) else [value]


def check(rank, method, keys, values, only_first):
    """Values that do not fit the keys are for the method itself to refuse."""
    if not isinstance(keys, (list, tuple)):
        keys, values = [keys], [values]
    elif not isinstance(values, (list, tuple)):
        return
    for key, value in zip(keys, values):
        for array in arrays_of(value)[:1 if only_first else None]:
            refuse_infinite(rank, method, key, array)


def argument(place, names, args, named, default=None):
    """What a call got there, or by one of these names."""
    if len(args) > place:
        return args[place]
    return next((named[name] for name in names if name in named), default)


def checked(store, method):
    """The method of this store that looks first. It does not keep the store alive, which keeps it."""
    original, seen_store = getattr(type(store), method), weakref.ref(store)

    @functools.wraps(original)
    def call(*args, **named):
        kv = seen_store()
        is_root = method != "broadcast" or kv.rank == argument(2, ("root_rank",), args, named, 0)
        if is_root:
            check(kv.rank, method, argument(0, ("key",), args, named), argument(1, INPUT_NAMES, args, named),
                  method in ("broadcast", "allgather"))
        return original(kv, *args, **named)
    return call


def watch(store):
    """From now on the store's methods raise InvalidArgumentError for a NaN or an infinity that this rank brings."""
    for method in ("pushpull", "reduce_scatter", "broadcast", "allgather", "push"):
        setattr(store, method, checked(store, method))
