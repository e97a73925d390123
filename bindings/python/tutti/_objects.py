"""Exchanges Python objects between the ranks of a store."""
from __future__ import annotations

import contextlib
import io
import pickle
import re
from typing import TYPE_CHECKING, Any

import numpy as np

from tutti.errors import Error, InvalidArgumentError

if TYPE_CHECKING:
    from tutti._store import KVStore

#: A rank sends this instead of a size if its object cannot be pickled, so that the others do not wait for it.
UNPICKLABLE = -1
#: The most bytes of a pickle under one key. A server takes them at once, whatever it had there before.
PART = 128 << 20
CANNOT_BE_PICKLED = "the object of {} cannot be pickled"
SIZE_KEY = "tutti:broadcast_object, size"


def parts_of(array, method, root):
    """[(key, part)]. A store never forgets a key, and a parameter server keeps room for the first value of each key. So
    all objects of a root share a few keys, which depend on the size of the part that goes under them.
    """
    whole, rest = divmod(array.size, PART)
    parts = [(f"tutti:{method} from {root}, part {i}", array[i * PART:(i + 1) * PART]) for i in range(whole)]
    if rest or not whole:
        parts.append((f"tutti:{method} from {root}, of {int(rest).bit_length()} bits", array[whole * PART:]))
    return parts


@contextlib.contextmanager
def naming(method):
    """Lets errors of the arrays that are exchanged here name the program's call. The program knows none of their keys.
    """
    try:
        yield
    except Error as error:
        text = re.sub(rf"(key )?'tutti:{method}[^']*'", method, str(error))
        raise type(error)(text, ranks=error.ranks) from None


def broadcast(store, key, array, root):
    with naming("broadcast_object"):
        store.broadcast(key, array, root).wait()


def exchange(store, method, arrays):
    """Gives every rank the arrays of all others. `arrays` has {rank: array}; a rank's own array goes to all other
    ranks.
    """
    with naming(method):
        pendings = [store.broadcast(key, part, root) for root, array in arrays.items()
                    for key, part in parts_of(array, method, root)]
        for pending in pendings:
            pending.wait()


def allgather(store, method, key, mine):
    """Gathers an array from each rank, by rank. Servers gather nothing, so there each rank broadcasts its own."""
    everyones = np.zeros((store.num_workers, *mine.shape), mine.dtype)
    with naming(method):
        if "mpi" in store.type:
            store.allgather(key, mine, everyones).wait()
            return everyones
        everyones[store.rank] = mine
        pendings = [store.broadcast(f"{key} of {rank}", row, rank) for rank, row in enumerate(everyones)]
        for pending in pendings:
            pending.wait()
    return everyones


def pickled(obj):
    """The pickled object, in memory that a call may borrow. It is not copied."""
    stream = io.BytesIO()
    pickle.dump(obj, stream, protocol=5)
    return np.frombuffer(stream.getbuffer(), np.uint8)


def refuse_those_of(ranks, method, problem):
    """Raises the error of the ranks whose own argument is right, if some other ranks' arguments are wrong."""
    if ranks:
        who = f"{'ranks' if len(ranks) > 1 else 'rank'} {', '.join(map(str, ranks))}"
        raise InvalidArgumentError(f"{method}: {problem.format(who)}; the error there says why", ranks=ranks)


def broadcast_object(self: KVStore, obj: Any = None, root: int = 0) -> Any:
    """Gives the object of rank `root` to every rank, and returns it. Other ranks need not pass an object.

    tutti pickles the object, which may be larger than 2 GiB. Use it only if the ranks trust each other: a rank that
    sends a pickle chooses what the receiver runs. The root gets `obj` itself back, and the other ranks get a copy. It
    takes memory for one further pickle.

    Collective. Blocks until the object has arrived. Every rank calls broadcast_object, allgather_object and fingerprint
    of one store in the same order, in any thread, one at a time. Other calls may have arrays in flight meanwhile, under
    any keys.

    Raises InvalidArgumentError for a root that does not exist. If the root's object cannot be pickled, the root gets
    pickle's error, and every other rank gets InvalidArgumentError with the root in `ranks`. Raises what Pending.wait
    raises; a TimedOutError comes to every rank alike, and all may call again.
    """
    self._require_open("broadcast_object")
    if self.rank != root:
        size = np.zeros(1, np.int64)
        broadcast(self, SIZE_KEY, size, root)
        refuse_those_of([root] if size[0] == UNPICKLABLE else [], "broadcast_object", CANNOT_BE_PICKLED)
        data = np.empty(size[0], np.uint8)
        exchange(self, "broadcast_object", {root: data})
        return pickle.loads(data)
    if self.num_workers == 1:
        return obj
    try:
        data = pickled(obj)
    except Exception:
        broadcast(self, SIZE_KEY, np.array([UNPICKLABLE]), root)
        raise
    broadcast(self, SIZE_KEY, np.array([data.size]), root)
    exchange(self, "broadcast_object", {root: data})
    return obj


def exchanged_sizes(self, size):
    """The size that each rank has passed, by rank."""
    return allgather(self, "allgather_object", "tutti:allgather_object, sizes", np.array([size]))[:, 0]


def allgather_object(self: KVStore, obj: Any) -> list[Any]:
    """Returns the objects of all ranks as a list by rank. This rank's own entry is `obj` itself; the others are copies.

    Use it only if the ranks trust each other, and call it in one order with broadcast_object. Collective. Blocks until
    all objects have arrived. It takes memory for all pickles.

    Raises an error if an object cannot be pickled: its rank gets pickle's error, and every other rank gets
    InvalidArgumentError with those ranks in `ranks`. Raises what Pending.wait raises; a TimedOutError comes to every
    rank alike.
    """
    self._require_open("allgather_object")
    if self.num_workers == 1:
        return [obj]
    try:
        data = pickled(obj)
    except Exception:
        exchanged_sizes(self, UNPICKLABLE)
        raise
    sizes = exchanged_sizes(self, data.size)
    unpicklable = [rank for rank, size in enumerate(sizes) if size == UNPICKLABLE]
    refuse_those_of(unpicklable, "allgather_object", CANNOT_BE_PICKLED)
    arrays = {rank: data if rank == self.rank else np.empty(size, np.uint8) for rank, size in enumerate(sizes)}
    exchange(self, "allgather_object", arrays)
    return [obj if rank == self.rank else pickle.loads(array) for rank, array in arrays.items()]
