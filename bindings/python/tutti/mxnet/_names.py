"""The names under which MXNet finds tutti's stores."""
import difflib
import functools
import os

from mxnet import kvstore
from mxnet.kvstore import KVStoreBase

from tutti.errors import InvalidArgumentError
from tutti.mxnet.servers import ServedStore
from tutti.mxnet.store import Store

#: The types of the parameter server, which are tutti's only under its launcher.
SERVED = ("dist", "dist_sync", "dist_async", "dist_sync_device", "dist_device_sync", "dist_async_device",
          "dist_device_async")
#: The types that MXNet itself makes. It recognises those of its store P3 by a part of the name.
NATIVE = ("local", "local_update_cpu", "local_allreduce_cpu", "local_allreduce_device", "device", "nccl", *SERVED)


def names():
    return ("dist_sync_mpi", *(SERVED if "TUTTI_MODE" in os.environ else ()))


def check(name):
    """Refuses an unknown name. MXNet would make a local store for it, with which each rank trains alone; if the name
    has "dist" in it, MXNet would wait for servers."""
    lower = name.lower()
    if lower in KVStoreBase.kv_registry or lower in NATIVE or "p3" in lower and "TUTTI_MODE" not in os.environ:
        return
    known = sorted({*NATIVE, *KVStoreBase.kv_registry})
    near = difflib.get_close_matches(lower, known, 1)
    meant = f"; did you mean {near[0]!r}?" if near else ""
    raise InvalidArgumentError(f"store type {name!r} is not known{meant} (known: {', '.join(known)})")


def _checking(native):
    @functools.wraps(native)
    def create(name="local"):
        if isinstance(name, str):
            check(name)
        return native(name)
    return create


def register_stores():
    served = ServedStore if os.environ.get("TUTTI_MODE") == "ps" else Store  # under --mode mpi they mean dist_sync_mpi
    for name in names():
        kind = served if name in SERVED else Store
        KVStoreBase.register(type(name, (kind,), {"__doc__": kind.__doc__, "__module__": __name__, "asked": name}))
    kvstore.create = kvstore.base.create = _checking(kvstore.create)
