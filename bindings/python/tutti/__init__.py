"""tutti: sums the arrays of training processes behind one KVStore API.

    import tutti
    with tutti.create("dist_sync_mpi") as kv:
        kv.broadcast("weight", weight, root_rank=0).wait()
        kv.pushpull("gradient", gradient).wait()  # in place: the sum over all ranks

Each of these has a help of its own, such as help(tutti.create) and help(tutti.KVStore.pushpull):
    tutti.create(type, ...)             makes a store, or joins the job that tutti-launch has started
    kv.pushpull(key, ins, outs)         sums arrays over all ranks; kv.allreduce waits for the sum
    kv.broadcast(key, value, root_rank) gives one rank's array to all
    kv.reduce_scatter, kv.allgather     the two halves of a pushpull
    kv.all_to_all                       gives each rank another part of the array
    kv.send, kv.recv                    exchange an array between two ranks
    kv.init, kv.push, kv.pull           with servers, or in one process; so are kv.row_sparse_pull, kv.set_optimizer
                                        and kv.set_gradient_compression
    kv.barrier, kv.join, kv.close       wait for the other ranks
    kv.broadcast_object, kv.allgather_object    exchange what can be pickled
    kv.fingerprint(arrays)              finds arrays that differ between ranks
    kv.allocate(shape, dtype)           makes an array that is exchanged without a copy
    kv.rank, kv.num_workers             this process's number, and how many there are
    kv.counters, kv.choices             what the store has done, and what it works with
A call that returns a Pending goes on in the background: Pending.wait and Pending.result wait for it.

Importing it starts nothing and needs no MPI environment.
"""
import atexit
import os
import sys
from collections.abc import Iterable
from typing import SupportsIndex

try:
    from tutti import _core
except ImportError as error:
    from tutti._missing import explained
    raise explained(error) from error
from tutti import _binding
from tutti._core import ErrorCode, GpuArray, Pending
from tutti._store import KVStore, Received
from tutti.errors import (AbortedError, DuplicateKeyError, Error, InternalError, InvalidArgumentError, MismatchError,
                          PeerLostError, TimedOutError, UnsupportedError)
from tutti.types import Choice, Counters, Seconds

__all__ = ["AbortedError", "Choice", "Counters", "DuplicateKeyError", "Error", "ErrorCode", "GpuArray",
           "InternalError", "InvalidArgumentError", "KVStore", "MismatchError", "PeerLostError", "Pending",
           "Received", "TimedOutError", "UnsupportedError", "create"]
__version__ = _core.version()

atexit.register(_core.outlive_interpreter)


def create(type: str, *, ranks: Iterable[SupportsIndex] | None = None,
           interface: str | None = None, encrypt: bool | None = None, user_makes_no_mpi_calls: bool | None = None,
           reproducible: bool | None = None, staleness: SupportsIndex | None = None,
           gpu: SupportsIndex | None = None, stall_report_after: Seconds | None = None,
           key_timeout: Seconds | None = None, heartbeat_timeout: Seconds | None = None,
           create_timeout: Seconds | None = None, log_level: str | None = None,
           timeline: str | os.PathLike[str] | None = None, replay: bool | None = None,
           fusion_bytes: SupportsIndex | None = None, part_bytes: SupportsIndex | None = None,
           slice_bytes: SupportsIndex | None = None, check_finite: bool = False) -> KVStore:
    """Makes a store of this type, in any case: dist_sync_mpi; with servers dist, dist_sync, dist_sync_device,
    dist_device_sync and dist_async, dist_async_device, dist_device_async; in one process local, local_update_cpu,
    local_allreduce_cpu, device, local_allreduce_device, nccl. Arrays on a GPU are for dist_sync_mpi, device,
    local_allreduce_device and nccl, which takes no others.

    For dist_sync_mpi it is collective over MPI_COMM_WORLD and blocking; it initialises MPI if nobody has. Start the
    program with mpirun. For the types with servers it joins the job that tutti-launch has started, and blocks until all
    of it is there. One store follows another there, each made by all workers, with its own keys and optimizer; beside
    an open one a second is an InvalidArgumentError, so close the first (a store that was dropped is open until Python
    has freed it). Under tutti-launch --mode mpi their synchronous names mean dist_sync_mpi. Options that are left out
    come from the environment, else the library's defaults hold; times are in seconds. Those marked * must be equal on
    all ranks.

    ranks*: the store is over these ranks of the job alone, this process's among them, each once. They alone create it.
        In the store they are 0, 1, ... in ascending order; so are `rank`, roots and the ranks that errors name. Ranks
        that share several stores create these in the same order. A process's first store starts MPI, which waits for
        every rank of the job: a rank that creates no store with others runs `import mpi4py.MPI` instead, or all create
        a store over all ranks first. A store of one rank leaves MPI alone.
    interface: network for MPI and control traffic, such as 'eth0'.
    encrypt*: control traffic between nodes is encrypted; what MPI carries is not.
    user_makes_no_mpi_calls: you promise to make no MPI call while the store lives.
    reproducible*: results depend on values, dtype and number of ranks alone.
    staleness*: with dist_async and its kin, how many pushes of a key a worker may be ahead of the slowest; left out:
        any number; 0: as dist_sync.
    gpu: the GPU of this process, as CUDA numbers those that it sees; left out: at the first GPU array the device whose
        context is current, else the array's.
    stall_report_after: a tensor that some ranks have not submitted is reported after this.
    key_timeout*: such a tensor fails with TimedOutError after this.
    heartbeat_timeout: a rank that says nothing for this long is lost.
    create_timeout: how long each step of create waits for the other ranks.
    log_level: off, critical, error, warning, info, debug or trace; goes to stderr. Where Python's logging has handlers
        when a store is made, it goes to the logger 'tutti' from then on; errors go to both.
    timeline*: a file for the timeline of each tensor, for ui.perfetto.dev.
    replay*, fusion_bytes*, part_bytes*, slice_bytes*: see the C++ header tutti/options.h.
    check_finite: a call that this rank gives a NaN or an infinity raises InvalidArgumentError here, with `key` and
        `ranks`, and submits nothing. If that ends this program, the other ranks get PeerLostError; if it closes the
        store, AbortedError; if it goes on without the call, they report the key after stall_report_after and get
        TimedOutError after key_timeout. All of these name this rank. Reads each array once more.

    Ctrl-C interrupts it, but the attempt goes on in the background for as long as create_timeout; a store that comes of
    it is closed. For that it runs on a thread of its own: MPI's main thread, where it is the first to initialise MPI.

    A rank's children (multiprocessing, subprocess) are no ranks: of the processes with one rank's environment the first
    to create a dist_sync_mpi store is the rank. Let children hand their data to it.

    Raises InvalidArgumentError for an unknown type or an option out of its range, TypeError for an option that is of
    another type, UnsupportedError for a type that this build does not have and in a process that cannot be a rank,
    MismatchError when ranks disagree, TimedOutError and PeerLostError when ranks do not come, InternalError when MPI or
    the system fails.
    """
    if not isinstance(type, str):
        raise TypeError(f"a type of stores is a str, not {type!r}")
    options = {name: value for name, value in locals().items()
               if name not in ("type", "check_finite") and value is not None}
    if isinstance(timeline, os.PathLike):
        options["timeline"] = os.fspath(timeline)
    if "logging" in sys.modules:  # else nobody has configured it
        from tutti import _logs  # pylint: disable=import-outside-toplevel  # import tutti stays quick
        _logs.follow()
    store = KVStore(type, options, check_finite)
    _binding.warn(log_level)
    return store
