"""The store as Python sees it; `_core.Store` does the work."""
from __future__ import annotations

import operator
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsIndex, overload

from tutti import _arrays, _core, _fingerprint, _objects
from tutti._core import GpuArray, Pending
from tutti.types import Array, Choice, Counters, Key, Keys, Op, Path, Shape, Values

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Received(Pending):
    """The outcome of a recv."""

    def __init__(self, pending: Pending, source: _core.Source) -> None:
        super().__init__(pending)
        self._source = source

    @property
    def source(self) -> int:
        """The rank whose array it got; -1 before the call is done, and where it has failed. Does not block."""
        return self._source.rank() if self.done() else -1


class KVStore(_core.Store):
    """Named arrays exchanged between devices, processes and machines; `tutti.create` makes one.

    A key is an int of 64 bits or a str, one kind in a store. A value is an array, or a list of one array for each
    device of this process; a list of keys takes a list of values. Arrays are numpy arrays, or others on the CPU that
    speak DLPack, C-contiguous and of dtype float16, bfloat16, float32, float64, int8, uint8, int32 or int64; broadcast,
    allgather and all_to_all, which add nothing, take any dtype of numbers, booleans and times. Those of jax never
    change: they are read, and pushpull and broadcast make new ones, which Pending.result and `await` return.

    They are used in place and without a copy: until the call's Pending is done leave them alone, neither read nor write
    nor resize them. Their memory is kept that long, and what would free it raises: a numpy array's resize, and torch's
    resize_ to more than the memory holds, which also raises after the call, as it does after tensor.numpy(). Not held
    back are numpy's resize(refcheck=False) where a view is in flight, and resize_ of a torch without numpy: they free
    the memory. After torch's set_ the result goes to memory that is no longer the tensor's. Two outputs of one call
    that overlap in memory are refused; those of two calls in flight are not compared, and what overlapping ones hold is
    undefined.

    Calls that return a Pending do not wait for other ranks. Each raises at once, and submits nothing then:
        TypeError: for what is no key, array or number, and where keys and values are not both single or both lists;
        InvalidArgumentError: for arrays that cannot be used in place, lists and arrays that do not fit each other,
            numbers out of range, and outputs that overlap; with check_finite for NaN and infinity;
        DuplicateKeyError: for a key in flight, or twice in one call;
        UnsupportedError: for a method that this type of store does not have, and in a forked child;
        AbortedError, PeerLostError, InternalError: the store is closed, or has ended by that.
    What ranks disagree about, and what happens later, is raised by Pending.wait: MismatchError, TimedOutError,
    PeerLostError, AbortedError, InternalError. A call that some ranks do not make within key_timeout raises
    TimedOutError on all ranks: on those, when they make it. Nothing of it counts. All may call again, which is a new
    round for all.

    priority: higher goes first among arrays that are ready together; where ranks differ the highest counts.
    Thread-safe.

    A store is a context manager that closes it in the end. When an exception leaves the block the store stays open: if
    the program ends by it, with a status other than 0, the other ranks get PeerLostError that names this one; who
    handles the exception closes the store, or drops it. (Where another package has initialised MPI, such as mpi4py, its
    MPI_Finalize closes the store: they get AbortedError.)

    Ctrl-C interrupts every wait for other ranks or for servers with KeyboardInterrupt: Pending.wait, tutti.create and
    all methods that block, but for allocate. What was interrupted goes on in the background: to the other ranks this
    one has come.

    Also accepted, from the design that this API comes from: `out=` for `outs=` of pushpull, and `Rank` for `rank`. And
    as in mpi4py, Horovod and torch: `size` for `num_workers`, and `allreduce`, a pushpull that waits.
    """

    def __repr__(self) -> str:
        closed = ", closed" if self._is_closed else ""
        return f"<tutti.KVStore {self.type}, rank {self.rank} of {self.num_workers}{closed}>"

    def __enter__(self) -> KVStore:
        return self

    def __exit__(self, kind: object, raised: BaseException | None, traceback: object) -> None:
        self._leave_block(raised)

    def pushpull(self, key: Keys, ins: Values, outs: Values | None = None, priority: SupportsIndex = 0, *,
                 op: Op = "sum", out: Values | None = None) -> Pending:
        """Reduces `ins` over this process's devices and all ranks, and gives the result to every array of `outs`.

        ins: arrays of any one shape and dtype. outs: of the same; left out, the result goes to `ins`, or for arrays of
            jax to new ones, which Pending.result returns. The store only reads `ins` if the caller passes `outs`. With
            dist_sync_mpi a rank that passes an empty list contributes, and gets nothing.
        op: 'sum', 'average', 'min' or 'max'; an average divides by the number of ranks.

        Does not block. Collective: every rank calls it once for the key, with arrays of the same dtype and shape, in
        any order among keys. Raises as the class says: an output that is read-only is an InvalidArgumentError.
        """
        if out is not None:
            if outs is not None:
                raise TypeError("outs and out are names of one argument; give one")
            outs = out
        if outs is None and sys.modules.get("jax"):
            from tutti import _jax  # pylint: disable=import-outside-toplevel  # import tutti stays quick
            if _jax.is_among(ins):
                return _jax.returned(ins, _jax.empty_like, lambda outs: self._pushpull(key, ins, outs, priority, op))
        return self._pushpull(key, ins, outs, priority, op)

    @property
    def size(self) -> int:
        """The number of processes, as num_workers."""
        return self.num_workers

    def allreduce(self, key: Keys, ins: Values, outs: Values | None = None, *, op: Op = "sum") -> Any:
        """Does what pushpull does, and waits for it. Returns None, or for arrays of jax the new ones.

        Blocks until every rank has called it for the key: programs that overlap computing with the exchange call
        pushpull. Collective. Raises as pushpull and Pending.wait do.
        """
        return self.pushpull(key, ins, outs, op=op).result()

    def broadcast(self, key: Keys, value: Values, root_rank: SupportsIndex = 0, priority: SupportsIndex = 0) -> Pending:
        """Gives the first array of rank `root_rank` to every array of `value` on every rank.

        value: writable arrays of one shape and dtype, the same on all ranks, or arrays of jax, for which Pending.result
            returns new ones. But for dist_sync_mpi it is also stored under the key, in place of what was there.

        Does not block. Collective. Raises as the class says: a root that is no rank is an InvalidArgumentError.
        """
        if sys.modules.get("jax"):
            from tutti import _jax  # pylint: disable=import-outside-toplevel
            if _jax.is_among(value):
                return _jax.returned(value, _jax.copied,
                                      lambda copies: self._broadcast(key, copies, root_rank, priority))
        return self._broadcast(key, value, root_rank, priority)

    def reduce_scatter(self, key: Keys, ins: Values, outs: Values, priority: SupportsIndex = 0, *,
                       op: Op = "sum") -> Pending:
        """Reduces `ins` as pushpull does, and gives this rank its shard of the result.

        ins: whole arrays. outs: arrays of any shape, with as many elements as the shard: in row-major order the
        elements count*rank//num_workers to count*(rank+1)//num_workers.

        Does not block. Collective. Raises as the class says.
        """
        return self._reduce_scatter(key, ins, outs, priority, op)

    def allgather(self, key: Keys, ins: Values, outs: Values, priority: SupportsIndex = 0) -> Pending:
        """Puts the ranks' shards together in every array of `outs`.

        ins: this rank's shard, the elements that reduce_scatter would give it. outs: whole arrays.

        Does not block. Collective. Raises as the class says; Pending.wait raises AbortedError when a rank has joined.
        """
        return self._allgather(key, ins, outs, priority)

    def all_to_all(self, key: Key, ins: Array, outs: Array, counts: Any, priority: SupportsIndex = 0) -> Pending:
        """Sends every rank a share of `ins`, and fills `outs` with the shares that the ranks send to this one.

        ins: the shares for all ranks, by receiver, one after the other. outs: those of all ranks, by sender. Both have
            the same dtype, any, and any shape; they may be one array.
        counts: how many elements go where, perhaps 0. A matrix of num_workers rows and columns, the same on all ranks:
            counts[s][r] go from rank s to rank r. Or this rank's row of it, what it sends to each rank: then all ranks
            pass theirs, and the call first gathers the rows, for which it blocks.

        Does not block with a matrix. Collective. Raises as the class says; Pending.wait raises MismatchError where the
        matrices of ranks differ, and AbortedError when a rank has joined.
        """
        from tutti import _shares  # pylint: disable=import-outside-toplevel  # few programs need it
        return self._all_to_all(key, ins, outs, _shares.matrix(self, key, counts), priority)

    def send(self, value: Array, to_rank: SupportsIndex, tag: SupportsIndex = 0) -> Pending:
        """Sends an array to one other rank, which calls recv for it with the same tag.

        value: an array of any shape and dtype. check_finite does not look into it.

        Does not block. Not collective: only the two ranks call it, when they like, and it has no key. Its Pending is
        done when the receiver has the array: two ranks that each wait for their send before they call recv wait for
        each other. The first of several sends to one rank with one tag goes to the first recv there that takes it.

        Raises as the class says: a rank that there is not, this rank itself and a tag below 0 are an
        InvalidArgumentError. Pending.wait raises MismatchError, on both ranks, where dtypes or numbers of elements
        differ, TimedOutError when the other one does not make its call within key_timeout, and AbortedError when one of
        them closes the store before they have met. UnsupportedError for all types but dist_sync_mpi. The call of the
        other rank that belongs to one which ended in TimedOutError ends so, too, and takes no other array: both ranks
        must make their calls again.
        """
        return self._send(value, to_rank, tag)

    def recv(self, value: Array, from_rank: SupportsIndex | None = None, tag: SupportsIndex = 0) -> Received:
        """Receives into `value`, which is writable, what another rank sends: see send.

        from_rank: None takes the array with this tag that any rank has announced first; `source` of the Pending that is
            returned says whose it was. Where some rank has given up a send with this tag, such a recv ends in
            TimedOutError before it takes what others send. After it has ended so by itself, the next send with its tag
            does so, too, whichever rank makes it.

        Does not block. Not collective. Raises as send does.
        """
        return Received(*self._recv(value, from_rank, tag))

    def init(self, key: Keys, value: Values) -> None:
        """Stores a copy of the value, an array of any shape.

        Blocks for the copy. With servers it is collective: worker 0's value is stored, and it blocks until every worker
        has called it. Raises as the class says, InvalidArgumentError if the key has a value, and UnsupportedError with
        dist_sync_mpi: use broadcast.
        """
        self._init(key, value)

    def push(self, key: Keys, value: Values, priority: SupportsIndex = 0, *, op: Op = "sum") -> Pending:
        """Replaces the stored value by the sum (or op) of the devices' arrays, which have its shape and dtype.

        Does not block. With dist_sync and its kin it is collective: every worker makes the same call; dist_async and
        its kin need an optimizer, and update by each push at once, which an average divides by the number of workers.
        Raises as the class says, InvalidArgumentError for a key without a value (with servers in Pending.wait), and
        UnsupportedError with dist_sync_mpi: use pushpull.
        """
        return self._push(key, value, priority, op)

    def pull(self, key: Keys, out: Values, priority: SupportsIndex = 0) -> Pending:
        """Copies the stored value to every array of `out`, which have its shape and dtype.

        Does not block. Not collective; with servers it follows this worker's last push of the key. Raises as the class
        says, InvalidArgumentError for a key without a value (with servers in Pending.wait), and UnsupportedError with
        dist_sync_mpi: use pushpull.
        """
        return self._pull(key, out, priority)

    def row_sparse_pull(self, key: Keys, out: Values, row_ids: Values) -> None:
        """Copies some rows of the stored value to every array of `out`, whose other rows become zeros.

        out: arrays of the value's shape and dtype; with servers only the rows that are asked for travel.
        row_ids: one array for each key, of any shape and dtype, whose elements are whole numbers: indices of the first
            dimension. A row may stand there several times, and there may be none.

        Blocks until the rows are there. Not collective. Raises InvalidArgumentError for a row that the value does not
        have and for a key without a value, UnsupportedError with dist_sync_mpi.
        """
        self._row_sparse_pull(key, out, row_ids)

    def set_optimizer(self, optimizer: str, *, factors: Mapping[Key, tuple[float, float]] | None = None,
                      **parameters: float) -> None:
        """From now on the store updates its values by this rule: push and pushpull bring gradients.

        optimizer: 'sgd', 'nag', 'adam', 'adamw', 'adagrad', 'rmsprop' or 'lamb'; tutti/optimizer.h has the formulas.
        parameters: learning_rate, wd, rescale_grad, clip_gradient, multi_precision, and those of the rule, such as
            momentum. What is left out has MXNet's default.
        factors: {key: (of the learning rate, of wd)} for single keys.

        Called again with the same rule it changes the parameters, and keeps what the rule knows of each key. With
        servers it is collective and blocks until every worker has called it; else it does not block. With servers it
        raises TimedOutError on every worker where some do not call it within key_timeout, and nothing has changed; with
        dist_async on the worker that waited, which calls it again. Raises InvalidArgumentError for an unknown rule or
        parameter and a value out of range, UnsupportedError with dist_sync_mpi: update the weights in the program.
        """
        if not isinstance(optimizer, str):
            raise TypeError(f"an optimizer is a str, such as 'sgd', with its parameters by name, not {optimizer!r}")
        by_key = {key: (float(rate), float(wd)) for key, (rate, wd) in (factors or {}).items()}
        self._set_optimizer(optimizer, {name: float(value) for name, value in parameters.items()}, by_key)

    def save_optimizer_states(self, fname: Path, dump_optimizer: bool = False) -> None:
        """Writes what the rule keeps of each key into a file, with dump_optimizer also the rule and its parameters.

        The file is replaced whole or not at all. With servers it has the states of all of them, after this worker's
        own earlier calls; one worker is enough, and each that calls it writes the file it names. Blocks until the file
        is on the disk; not collective. Raises InvalidArgumentError when there is no optimizer, InternalError when the
        file cannot be written, UnsupportedError with dist_sync_mpi.
        """
        self._save_optimizer_states(os.fsdecode(fname), dump_optimizer)

    def load_optimizer_states(self, fname: Path) -> None:
        """Takes them from such a file; the optimizer, too, if it is there.

        A file fits any number of servers, and stores of one process. Blocks while it reads. With servers it is
        collective and blocks until every worker has called it; worker 0's file is read, the others need none. Raises
        InvalidArgumentError for a file that is missing or damaged and for another rule's states, UnsupportedError with
        dist_sync_mpi.
        """
        self._load_optimizer_states(os.fsdecode(fname))

    def set_gradient_compression(self, kind: str, threshold: SupportsFloat = 0.5) -> None:
        """The format in which float32 arrays travel between nodes: 'none', 'fp16' or 'bf16'.

        With servers that in which gradients travel to them, and also '2bit' (+threshold, -threshold or 0 an element)
        and '1bit' (+1 above the threshold, else -1), for float32, float16 and bfloat16: what is not sent of a gradient
        is added to the next one, also when the push then fails. An element that is not finite makes the sum so ('2bit':
        NaN), and nothing of it is added to the next one.

        All ranks call it with the same values before the first array. With servers it blocks until they have, else it
        does not block. Raises UnsupportedError for another kind, InvalidArgumentError after the first array and for a
        threshold that is not finite and above 0 ('1bit': or 0), MismatchError where workers differ, AbortedError when
        the store is closed.
        """
        if not isinstance(kind, str):
            raise TypeError(f"a kind of compression is a str, not {kind!r}")
        self._set_gradient_compression(kind, float(threshold))

    def num_dead_node(self) -> int:
        """How many nodes of the job (scheduler, servers, workers) were lost; 0 in stores of one process.

        Does not block; not collective. Raises UnsupportedError with dist_sync_mpi, where PeerLostError names the ranks.
        """
        return self._num_dead_node()

    def barrier(self) -> None:
        """Blocks until every rank has called it; does not wait for arrays in flight.

        Collective. Ctrl-C interrupts it; this rank has come all the same. Raises TimedOutError when ranks do not come
        within key_timeout, PeerLostError, AbortedError and InternalError as Pending.wait does.
        """
        self._barrier()

    def join(self) -> int:
        """For a rank that ran out of data: blocks until all ranks have joined, and returns the last rank to join.

        Until then it contributes nothing to what the others reduce: zeros to a sum, and an average does not count it.
        With servers there is no join: UnsupportedError. Collective. Ctrl-C interrupts it; this rank has
        joined all the same. Raises PeerLostError, AbortedError and InternalError as Pending.wait does.
        """
        return self._join()

    @overload
    def allocate(self, shape: Shape, dtype: Any = "float32", gpu: None = None) -> NDArray[Any]: ...

    @overload
    def allocate(self, shape: Shape, dtype: Any = "float32", *, gpu: SupportsIndex) -> GpuArray: ...

    def allocate(self, shape: Shape, dtype: Any = "float32",
                 gpu: SupportsIndex | None = None) -> NDArray[Any] | GpuArray:
        """A numpy array in memory that the ranks of a machine share, which is exchanged without copies.

        shape: a number of elements, or a sequence of dimensions, 8 at most. dtype: as numpy takes it, or torch's; for
        bfloat16 the package ml_dtypes must be installed. It holds zeros with dist_sync_mpi; in stores of one process
        its contents are undefined. It may outlive the store. gpu: the number of a GPU, for a tutti.GpuArray there, of
        undefined contents; UnsupportedError where the store takes arrays on the CPU alone.

        Not collective. Blocks for 0.5 to 3 ms a MiB, which nothing interrupts. Raises TypeError for what is no shape or
        dtype, InvalidArgumentError for a negative or too large one and for a dtype that tutti does not have,
        UnsupportedError where ml_dtypes is missing, InternalError when there is not enough memory, AbortedError when
        the store is closed.
        """
        dims, name = _arrays.dims_of(shape), _arrays.allocatable(dtype)
        if gpu is not None:
            return self._allocate_on(dims, name, operator.index(gpu))
        kind = _arrays.numpy_dtype(name)
        return self._allocate(dims, name).view(kind).reshape(dims)

    def counters(self) -> Counters:
        """What the store has done on this rank since create, and what it holds. Does not block; not collective.

        Raises AbortedError when the store is closed.
        """
        return self._counters()

    def choices(self) -> list[Choice]:
        """Sizes, limits and policies that the store uses, with where each comes from; for people.

        Empty in stores of one process. Does not block; not collective. Raises AbortedError when the store is closed.
        """
        return self._choices()

    def close(self) -> None:
        """Closes the store; a second time does nothing.

        Blocks until the arrays that have begun to move are exchanged, in every thread that calls it. Not collective:
        other calls that need this rank fail with AbortedError on the other ranks. Every other method then raises
        AbortedError. Ctrl-C interrupts the wait; the store goes on closing in the background. A store that nothing
        refers to any more is closed, too, which nothing interrupts.

        Raises what ended the store, such as PeerLostError, if no other call has told it; so does the end of a `with`
        block that no exception leaves.
        """
        self._close()

    broadcast_object = _objects.broadcast_object
    allgather_object = _objects.allgather_object
    fingerprint = _fingerprint.fingerprint
