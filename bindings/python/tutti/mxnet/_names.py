"""Under which names MXNet finds tutti's stores."""
import os

from mxnet.kvstore import KVStoreBase

from tutti.mxnet.store import Store

#: Those of the parameter server, which are tutti's under its launcher alone.
SERVED = ("dist", "dist_sync", "dist_async", "dist_sync_device", "dist_device_sync", "dist_async_device",
          "dist_device_async")


def names():
    return ("dist_sync_mpi", *(SERVED if "TUTTI_MODE" in os.environ else ()))


def register_stores():
    for name in names():
        KVStoreBase.register(type(name, (Store,), {"__doc__": Store.__doc__, "__module__": __name__, "asked": name}))
