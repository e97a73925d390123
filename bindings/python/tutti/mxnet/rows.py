"""Row-sparse arrays and stores on servers, which keep all rows of a value."""
import mxnet as mx
import numpy as np

from tutti.errors import InvalidArgumentError
from tutti.mxnet.values import dense, listed


def _is_one(array):
    return getattr(array, "stype", None) == "row_sparse"


def are_some(arrays):
    return any(_is_one(array) for array in arrays)


def all_of(key, arrays):
    """Returns the arrays with all their rows. Rows that a row-sparse array does not have are zeros."""
    return dense(key, [array.tostype("default") if _is_one(array) else array for array in arrays])


def but_sparse(key, arrays):
    kept = [array for array in arrays if not _is_one(array)]
    return dense(key, kept) if kept else []


def asked_for(key, out, row_ids):
    """(key, array, its row ids) for each array."""
    if out is None or row_ids is None:
        raise InvalidArgumentError(f"row_sparse_pull of key {key!r}: pass out=, the arrays that get the rows, and "
                                   "row_ids=, the numbers of the rows")
    if isinstance(key, (list, tuple)):
        values, ids = listed(out), listed(row_ids)
        if not len(key) == len(values) == len(ids):
            raise InvalidArgumentError("row_sparse_pull: with a list of keys, pass lists of out and of row_ids with "
                                       "an entry for each key")
        return [one for each in zip(key, values, ids) for one in asked_for(*each)]
    arrays, ids = listed(out), listed(row_ids)
    ids = ids * len(arrays) if len(ids) == 1 else ids
    if len(ids) != len(arrays):
        raise InvalidArgumentError(f"row_sparse_pull of key {key!r}: there are {len(ids)} row_ids for {len(arrays)} "
                                   "arrays; pass one for all arrays, or one for each")
    for array in (*arrays, *ids):
        if not _is_one(array):
            dense(key, [array])
    return [(key, array, each) for array, each in zip(arrays, ids)]


def pull(store, name, array, row_ids):
    rows = row_ids.asnumpy()
    value = np.zeros(array.shape, array.dtype)
    store.row_sparse_pull(name, value, rows)
    if not _is_one(array):
        array[:] = value
        return
    there = np.unique(rows).astype(np.int64)
    if there.size:
        found = mx.nd.sparse.row_sparse_array((value[there], there), shape=array.shape, ctx=array.context,
                                              dtype=array.dtype)
    else:
        found = mx.nd.sparse.zeros("row_sparse", array.shape, ctx=array.context, dtype=array.dtype)
    found.copyto(array)
