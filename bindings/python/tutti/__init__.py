"""tutti: sums the arrays of training processes behind one KVStore API.

    import tutti
    with tutti.create("dist_sync_mpi") as kv:
        kv.broadcast("weight", weight, root_rank=0).wait()
        kv.pushpull("gradient", gradient).wait()  # in place: the sum over all ranks

Each of these has a help of its own, such as help(tutti.create) and help(tutti.KVStore.pushpull):
    tutti.create(type, ...)             makes a store, or joins the job that tutti-launch has started
    kv.pushpull(key, ins, outs)         sums arrays over all ranks; kv.allreduce waits for the sum
    kv.bind(key, ins, outs)             settles the arguments of a pushpull that is made again and again
    kv.broadcast(key, value, root_rank) gives one rank's array to all
    kv.reduce_scatter, kv.allgather     the two halves of a pushpull
    kv.all_to_all                       gives each rank another part of the array
    kv.send, kv.recv                    exchange an array between two ranks
    kv.init, kv.push, kv.pull           with servers, or in one process; so are kv.row_sparse_pull, kv.set_optimizer
                                        and kv.set_gradient_compression
    kv.barrier, kv.join, kv.close       wait for the other ranks
    kv.broadcast_object, kv.allgather_object    exchange objects that can be pickled
    kv.fingerprint(arrays)              finds arrays that differ between ranks
    kv.allocate(shape, dtype)           makes an array that is exchanged without a copy
    kv.rank, kv.num_workers             this process's number, and the number of processes
    kv.counters, kv.choices             what the store has done, and its sizes and limits
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
from tutti._core import Bound, ErrorCode, GpuArray, Pending
from tutti._store import KVStore, Received
from tutti.errors import (AbortedError, DuplicateKeyError, Error, InternalError, InvalidArgumentError, MismatchError,
                          PeerLostError, TimedOutError, UnsupportedError)
from tutti.types import Choice, Counters, Seconds

__all__ = ["AbortedError", "Bound", "Choice", "Counters", "DuplicateKeyError", "Error", "ErrorCode", "GpuArray",
           "InternalError", "InvalidArgumentError", "KVStore", "MismatchError", "PeerLostError", "Pending",
           "Received", "TimedOutError", "UnsupportedError", "create"]
__version__ = _core.version()

atexit.register(_core.outlive_interpreter)


def _stop_callbacks():
    queues = sys.modules.get("tutti._callback_queues")  # imported when a call first has a callback
    if queues is not None:
        queues.stop()


atexit.register(_stop_callbacks)  # before the one above; functions that the program registers run before both


def create(type: str, *, ranks: Iterable[SupportsIndex] | None = None,
           interface: str | None = None, encrypt: bool | None = None, user_makes_no_mpi_calls: bool | None = None,
           reproducible: bool | None = None, staleness: SupportsIndex | None = None,
           gpu: SupportsIndex | None = None, stall_report_after: Seconds | None = None,
           key_timeout: Seconds | None = None, heartbeat_timeout: Seconds | None = None,
           create_timeout: Seconds | None = None, log_level: str | None = None,
           timeline: str | os.PathLike[str] | None = None, replay: bool | None = None,
           fusion_bytes: SupportsIndex | None = None, part_bytes: SupportsIndex | None = None,
           slice_bytes: SupportsIndex | None = None, check_finite: bool = False) -> KVStore:
    """Makes a store. `type`, in upper or lower case, is one of these:
        with MPI: dist_sync_mpi
        with servers, synchronous: dist, dist_sync, dist_sync_device, dist_device_sync
        with servers, asynchronous: dist_async, dist_async_device, dist_device_async
        in one process: local, local_update_cpu, local_allreduce_cpu, device, local_allreduce_device, nccl
    dist_sync_mpi, device, local_allreduce_device and nccl take arrays on a GPU. nccl takes no others.

    With MPI: create is collective over MPI_COMM_WORLD and blocks. It initialises MPI unless the program has done so.
    Start the program with mpirun.

    With servers: create joins the job that tutti-launch has started, and blocks until every process of the job is
    there. All workers make one store after another, each with its own keys and optimizer. While this process has an
    open store, create raises InvalidArgumentError, so close the store first. (A store that the program has dropped is
    open until Python has freed it.) Under tutti-launch --mode mpi the synchronous names mean dist_sync_mpi.

    Options that are left out come from the environment, and otherwise have the library's defaults. Times are in
    seconds. Options marked * must be equal on all ranks.

    ranks*: makes the store over these ranks of the job alone: each once, with this process's rank among them. Only
        these ranks create the store. In the store they are numbered 0, 1, ... in ascending order; `rank`, roots and
        errors use these numbers. Ranks that share several stores must create them in the same order. The first store of
        a process starts MPI, which waits for every rank of the job. So a rank that creates no store with other ranks
        must run `import mpi4py.MPI`. If all ranks first create a store over all ranks, no rank needs to. A store of one
        rank does not use MPI.
    interface: the network interface for MPI and control traffic, such as 'eth0'.
    encrypt*: encrypts control traffic between nodes. Does not encrypt data that MPI carries.
    user_makes_no_mpi_calls: you promise to make no MPI call while the store lives.
    reproducible*: results depend only on values, dtype and number of ranks.
    staleness*: with asynchronous types, how many pushes of a key a worker may be ahead of the slowest worker. Left out:
        any number. 0: none, as with dist_sync.
    gpu: the number of this process's GPU, as CUDA numbers the GPUs that the process sees. Left out: when the first
        array on a GPU comes, the store takes the device whose context is current, or else the array's device.
    stall_report_after: after this time the store logs which ranks have not submitted a tensor that others have
        submitted.
    key_timeout*: after this time such a tensor fails with TimedOutError.
    heartbeat_timeout: a rank is lost if its heartbeat is missing for this time.
    create_timeout: how long each step of create waits for the other ranks.
    log_level: off, critical, error, warning, info, debug or trace. The log goes to stderr. If Python's logging has
        handlers when a store is made, the log goes to the logger 'tutti' from then on, and errors go to both.
    timeline*: a file for the timeline of each tensor, for ui.perfetto.dev.
    replay*, fusion_bytes*, part_bytes*, slice_bytes*: see the C++ header tutti/options.h.
    check_finite: a call in which this rank passes a NaN or an infinity raises InvalidArgumentError here, with `key` and
        `ranks`, and submits nothing. All errors that the other ranks then get name this rank: PeerLostError if this
        program ends, AbortedError if it closes the store. If it goes on without the call, they log the key after
        stall_report_after, and get TimedOutError after key_timeout. The store reads each array once more for that.

    Ctrl-C interrupts create. The attempt then goes on in the background for as long as create_timeout, and if it makes
    a store, that store is closed. For that reason create runs on a thread of its own. If it is the first to initialise
    MPI, this thread is MPI's main thread.

    A process that a rank starts (by multiprocessing or subprocess) is no rank, but inherits the variables by which MPI
    knows the rank. The first process with these variables that creates a dist_sync_mpi store is the rank.
    Let the others pass their data to it.

    Raises:
        InvalidArgumentError: the type is unknown, or an option is out of its range;
        TypeError: an option has the wrong type;
        UnsupportedError: this build does not have the type, or this process cannot be a rank;
        MismatchError: the ranks disagree;
        TimedOutError, PeerLostError: some ranks do not come;
        InternalError: MPI or the system has failed.
    """
    if not isinstance(type, str):
        raise TypeError(f"a type of stores is a str, not {type!r}")
    options = {name: value for name, value in locals().items()
               if name not in ("type", "check_finite") and value is not None}
    if isinstance(timeline, os.PathLike):
        options["timeline"] = os.fspath(timeline)
    if "logging" in sys.modules:  # if it has not been imported, nobody has configured it
        from tutti import _logs  # pylint: disable=import-outside-toplevel  # import tutti stays quick
        _logs.follow()
    store = KVStore(type, options, check_finite)
    _binding.warn(log_level)
    return store
