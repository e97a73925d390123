"""Finds the number of elements that each rank sends to each other rank."""
import numpy as np

from tutti import _objects
from tutti.errors import InvalidArgumentError


class Matrix(list):
    """Holds the counts as the extension takes them, by sender and then by receiver, so that nobody needs to check each
    of them again."""


def matrix(store, key, counts):
    """The counts as a list, by sender and then by receiver.

    A caller that passes this rank's row alone waits here until all ranks have passed theirs.
    """
    if isinstance(counts, Matrix):
        return counts
    numbers = np.asarray(counts)
    if not np.issubdtype(numbers.dtype, np.integer) and numbers.size:
        raise TypeError(f"all_to_all: counts are ints, not {counts!r}")
    ranks = store.num_workers
    if numbers.shape not in ((ranks,), (ranks, ranks)):
        raise InvalidArgumentError(f"all_to_all of key {key!r}: counts have the shape {numbers.shape}; pass a matrix "
                                   f"of shape {(ranks, ranks)}, or this rank's row of {ranks}")
    if numbers.size and numbers.min() < 0:
        raise InvalidArgumentError(f"all_to_all of key {key!r}: a count is {numbers.min()}; a share has 0 elements at "
                                   "least")
    if numbers.ndim == 1 and ranks > 1:
        numbers = _objects.allgather(store, "all_to_all", f"tutti:all_to_all, counts of {key}",
                                     numbers.astype(np.int64))
    return numbers.reshape(-1).tolist()
