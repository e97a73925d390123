"""The store of the Python API. `_core.Store` does the work."""
from __future__ import annotations

import operator
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, SupportsFloat, SupportsIndex, overload

from tutti import _arrays, _core, _fingerprint, _objects
from tutti._core import Bound, GpuArray, Pending
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
        """The rank that sent the array. -1 before the call is done, and if the call has failed. Does not block."""
        return self._source.rank() if self.done() else -1


class KVStore(_core.Store):
    """Exchanges named arrays between devices, processes and machines. `tutti.create` makes one.

    Keys: a key is an int of 64 bits or a str. All keys of a store are ints, or all are strs.

    Values: a value is an array, or a list with one array for each device of this process. A list of keys takes a list
    of values. tutti takes arrays of numpy, and other arrays on the CPU that support DLPack. They must be C-contiguous.
        dtypes: float16, bfloat16, float32, float64, int8, uint8, int32 and int64. broadcast, allgather and all_to_all
            add nothing, so they take any dtype of numbers, booleans and times.
        jax: arrays of jax never change. tutti reads them, and pushpull and broadcast make new arrays, which
            Pending.result and `await` return.

    Ownership: tutti uses the arrays in place, without a copy. Until the call's Pending is done, do not read, write or
    resize them. The store keeps their memory alive that long, and what would free the memory raises an error:
        - resize of a numpy array;
        - resize_ of a torch tensor to more than its memory holds. After the call it raises, too, as it does after
          tensor.numpy().
    Two things free the memory all the same: numpy's resize(refcheck=False) while a view is in flight, and resize_ of a
    torch that has no numpy. After torch's set_ the result goes to memory that no longer belongs to the tensor.

    Overlapping outputs: a call refuses two outputs that overlap in memory. The store does not compare the outputs of
    two calls in flight; if they overlap, their contents are undefined.

    Methods that return a Pending do not wait for other ranks. Errors that the method itself raises; then it has
    submitted nothing:
        TypeError: an argument is no key, no array or no number, or only one of keys and values is a list;
        InvalidArgumentError: an array cannot be used in place, lists or arrays do not fit each other, a number is out
            of range, or outputs overlap; with check_finite, an array has a NaN or an infinity;
        DuplicateKeyError: with dist_sync_mpi, the key is in flight or stands twice in the call;
        UnsupportedError: this type of store does not have the method, or this process is a forked child;
        AbortedError, PeerLostError, InternalError: the store is closed, or has ended by that error.

    Errors that Pending.wait raises: MismatchError if ranks disagree, and TimedOutError, PeerLostError, AbortedError and
    InternalError for what happens later. If some ranks do not make a call within key_timeout, it raises TimedOutError
    on all ranks; on the late ranks as soon as they make the call. No rank's array was used. All ranks may call again,
    which begins a new round for all.

    priority: among arrays that are ready together, a higher priority goes first. If ranks pass different priorities,
        the highest counts.

    Threads: a store is thread-safe.

    With `with`: a store is a context manager that closes the store at the end of the block. If an exception leaves the
    block, the store stays open. If the program ends by that exception, with a status other than 0, the other ranks get
    a PeerLostError that names this rank. A program that handles the exception closes the store, or drops it. (If
    another package, such as mpi4py, has initialised MPI, its MPI_Finalize closes the store, and the other ranks get
    AbortedError.)

    Ctrl-C interrupts every wait for other ranks or for servers by KeyboardInterrupt: in Pending.wait, in tutti.create,
    and in all methods that block, except for allocate. The interrupted call goes on in the background: for the other
    ranks, this rank has made it.

    Other names: `out=` means `outs=` of pushpull, and `Rank` means `rank`, as in the design that this API comes from.
    As in mpi4py, Horovod and torch, `size` means `num_workers`, and `allreduce` is a pushpull that waits.
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
        """Reduces `ins` over this process's devices and over all ranks, and writes the result to each of `outs`.

        ins: arrays of one dtype and shape.
        outs: arrays of the same dtype and shape. Without outs, the result goes to `ins`; for arrays of jax it goes to
            new arrays, which Pending.result returns. With outs, the store only reads `ins`. With dist_sync_mpi a rank
            that passes an empty list contributes to the result, but does not receive it.
        op: 'sum', 'average', 'min' or 'max'. An average divides by the number of ranks.

        Does not block. Collective: every rank calls it once for the key, with arrays of the same dtype and shape. Ranks
        may call it for different keys in different orders. Raises as the class says. A read-only output is an
        InvalidArgumentError.
        """
        if out is not None:
            if outs is not None:
                raise TypeError("outs and out are two names of one argument; pass only one of them")
            outs = out
        if outs is None and sys.modules.get("jax"):
            from tutti import _jax  # pylint: disable=import-outside-toplevel  # import tutti stays quick
            if _jax.is_among(ins):
                return _jax.returned(ins, _jax.empty_like, lambda outs: self._pushpull(key, ins, outs, priority, op))
        return self._pushpull(key, ins, outs, priority, op)

    @property
    def size(self) -> int:
        """The number of processes, like num_workers."""
        return self.num_workers

    def allreduce(self, key: Keys, ins: Values, outs: Values | None = None, *, op: Op = "sum") -> Any:
        """Does the same as pushpull, and waits for it. Returns None, or for arrays of jax the new arrays.

        Blocks until every rank has called it for the key. A program that computes while arrays are exchanged calls
        pushpull instead. Collective. Raises as pushpull and Pending.wait do.
        """
        if outs is None and sys.modules.get("jax"):
            from tutti import _jax  # pylint: disable=import-outside-toplevel  # import tutti stays quick
            if _jax.is_among(ins):
                return self.pushpull(key, ins, op=op).result()
        return self._allreduce(key, ins, outs, op)

    def bind(self, key: Keys, ins: Values, outs: Values | None = None, priority: SupportsIndex = 0, *,
             op: Op = "sum") -> Bound:
        """Settles the arguments of a pushpull that the program will make again and again, by Bound.start or Bound.run.

        The arguments are those of pushpull. Arrays of jax never change, so `outs` must be others. A start of the
        binding takes less time than a pushpull, because the arguments are read and checked once. An array on a GPU is
        bound with its current stream.

        Does not block. Not collective: it submits nothing. Raises as the class says, except for a key in flight.
        """
        return self._bind(key, ins, outs, priority, op)

    def broadcast(self, key: Keys, value: Values, root_rank: SupportsIndex = 0, priority: SupportsIndex = 0) -> Pending:
        """Writes the first array of rank `root_rank` to each array of `value` on every rank.

        value: writable arrays of one dtype and shape, the same on all ranks; or arrays of jax, for which Pending.result
            returns new arrays. All types but dist_sync_mpi also store the root's array under the key, in place of an
            earlier value.

        Does not block. Collective. Raises as the class says. A root that does not exist is an InvalidArgumentError.
        """
        if sys.modules.get("jax"):
            from tutti import _jax  # pylint: disable=import-outside-toplevel
            if _jax.is_among(value):
                return _jax.returned(value, _jax.copied,
                                      lambda copies: self._broadcast(key, copies, root_rank, priority))
        return self._broadcast(key, value, root_rank, priority)

    def reduce_scatter(self, key: Keys, ins: Values, outs: Values, priority: SupportsIndex = 0, *,
                       op: Op = "sum") -> Pending:
        """Reduces `ins` as pushpull does, and writes this rank's shard of the result to each of `outs`.

        ins: whole arrays.
        outs: arrays of any shape, with as many elements as the shard. In row-major order, the shard consists of the
            elements from count*rank//num_workers to count*(rank+1)//num_workers.

        Does not block. Collective. Raises as the class says.
        """
        return self._reduce_scatter(key, ins, outs, priority, op)

    def allgather(self, key: Keys, ins: Values, outs: Values, priority: SupportsIndex = 0) -> Pending:
        """Puts the ranks' shards together, and writes the whole to each array of `outs`.

        ins: this rank's shard: the elements that reduce_scatter would give it.
        outs: whole arrays.

        Does not block. Collective. Raises as the class says. Pending.wait raises AbortedError if a rank has joined.
        """
        return self._allgather(key, ins, outs, priority)

    def all_to_all(self, key: Key, ins: Array, outs: Array, counts: Any, priority: SupportsIndex = 0) -> Pending:
        """Sends each rank its share of `ins`, and fills `outs` with the shares that the ranks send to this rank.

        ins: the shares for all ranks, one after the other, ordered by receiver.
        outs: the shares of all ranks, one after the other, ordered by sender. ins and outs have the same dtype, which
            may be any, and any shape. They may be one array.
        counts: the numbers of elements, perhaps 0. Pass one of:
            - a matrix of num_workers rows and columns, the same on all ranks: rank s sends counts[s][r] elements to
              rank r;
            - this rank's row of the matrix, which says how much it sends to each rank. All ranks then pass their rows,
              and the call first gathers them, for which it blocks.

        Does not block with a matrix. Collective. Raises as the class says. Pending.wait raises MismatchError if the
        ranks' matrices differ, and AbortedError if a rank has joined.
        """
        from tutti import _shares  # pylint: disable=import-outside-toplevel  # few programs need it
        return self._all_to_all(key, ins, outs, _shares.matrix(self, key, counts), priority)

    def send(self, value: Array, to_rank: SupportsIndex, tag: SupportsIndex = 0) -> Pending:
        """Sends an array to one other rank, which calls recv for it with the same tag.

        value: an array of any shape and dtype. check_finite does not look at it.

        Does not block. Not collective: only the two ranks call it, at any time, and it has no key. Its Pending is done
        when the receiver has the array. So if two ranks each wait for their send before they call recv, both wait until
        TimedOutError. If a rank sends several arrays to one rank with one tag, the first of them goes to the first recv
        there that accepts it.

        Raises as the class says:
            InvalidArgumentError: the rank does not exist or is this rank itself, or the tag is below 0;
            UnsupportedError: the store's type is not dist_sync_mpi.
        Pending.wait raises:
            MismatchError, on both ranks: the dtypes or numbers of elements differ;
            TimedOutError: the other rank did not make its call within key_timeout. If the other rank makes the matching
                call later, that call ends in TimedOutError, too, and takes no other array. Both ranks must make their
                calls again.
            AbortedError: one of the two ranks closed its store before the two calls met.
        """
        return self._send(value, to_rank, tag)

    def recv(self, value: Array, from_rank: SupportsIndex | None = None, tag: SupportsIndex = 0) -> Received:
        """Receives an array from another rank into `value`, which must be writable. See send.

        from_rank: None receives from any rank: it takes the array with this tag that was announced to this rank first.
            The Pending that recv returns has the attribute `source`, the rank that sent the array.

        More TimedOutErrors of a recv from any rank:
            - If some rank's send with this tag has ended in TimedOutError, the recv does, too, before it takes an array
              that another rank sends.
            - If the recv itself ends in TimedOutError, the next send with its tag does, too, whichever rank makes it.

        Does not block. Not collective. Raises as send does.
        """
        return Received(*self._recv(value, from_rank, tag))

    def init(self, key: Keys, value: Values) -> None:
        """Stores a copy of the value, an array of any shape.

        Blocks until the copy is made. With servers it is collective: the servers store worker 0's value, and it blocks
        until every worker has called it. Raises as the class says: InvalidArgumentError if the key already has a value,
        and UnsupportedError with dist_sync_mpi; use broadcast there.
        """
        self._init(key, value)

    def push(self, key: Keys, value: Values, priority: SupportsIndex = 0, *, op: Op = "sum") -> Pending:
        """Replaces the stored value by the sum (or by the result of `op`) of the devices' arrays.

        The arrays have the dtype and shape of the stored value. Once the store has an optimizer, push uses the sum as a
        gradient: it updates the stored value by it.

        Does not block. With servers:
            - The synchronous types (dist_sync and so on) are collective: every worker makes the same call.
            - The asynchronous types (dist_async and so on) need an optimizer. They update once for each push, as soon
              as it arrives. An average divides each push by the number of workers.

        Raises as the class says: InvalidArgumentError for a key without a value (with servers in Pending.wait), and
        UnsupportedError with dist_sync_mpi; use pushpull there.
        """
        return self._push(key, value, priority, op)

    def pull(self, key: Keys, out: Values, priority: SupportsIndex = 0) -> Pending:
        """Copies the stored value to each array of `out`. These arrays have its dtype and shape.

        Does not block. Not collective. With servers it follows this worker's last push of the key.

        Raises as the class says: InvalidArgumentError for a key without a value (with servers in Pending.wait), and
        UnsupportedError with dist_sync_mpi; use pushpull there.
        """
        return self._pull(key, out, priority)

    def row_sparse_pull(self, key: Keys, out: Values, row_ids: Values) -> None:
        """Copies some rows of the stored value to each array of `out`, and fills their other rows with zeros.

        out: arrays of the value's dtype and shape. With servers only the rows that row_ids names travel.
        row_ids: one array for each key, of any shape and dtype. Its elements are whole numbers: indices of the first
            dimension. It may name a row several times, and it may be empty.

        Blocks until the rows are there. Not collective. Raises InvalidArgumentError for a row that the value does not
        have and for a key without a value, and UnsupportedError with dist_sync_mpi.
        """
        self._row_sparse_pull(key, out, row_ids)

    def set_optimizer(self, optimizer: str, *, factors: Mapping[Key, tuple[float, float]] | None = None,
                      **parameters: float) -> None:
        """From now on the store updates its values by this rule: push and pushpull bring gradients.

        optimizer: 'sgd', 'nag', 'adam', 'adamw', 'adagrad', 'rmsprop' or 'lamb'. tutti/optimizer.h has the formulas.
        parameters: learning_rate, wd, rescale_grad, clip_gradient, multi_precision, and those of the rule, such as
            momentum. Parameters that are left out have MXNet's defaults.
        factors: {key: (factor of the learning rate, factor of wd)} for single keys.

        A second call with the same rule changes the parameters, and keeps the rule's state of each key, such as its
        momentum.

        With servers it is collective, and blocks until every worker has called it (with asynchronous types, until
        worker 0 has). Otherwise it does not block.

        Raises InvalidArgumentError for an unknown rule or parameter and for a value out of range, and UnsupportedError
        with dist_sync_mpi; update the weights in the program there. With servers it raises TimedOutError on every
        worker if some workers do not call it within key_timeout, with asynchronous types on the worker that waited.
        Then nothing has changed, and these workers may call again.
        """
        if not isinstance(optimizer, str):
            raise TypeError(f"an optimizer is a str, such as 'sgd', with its parameters by name, not {optimizer!r}")
        by_key = {key: (float(rate), float(wd)) for key, (rate, wd) in (factors or {}).items()}
        self._set_optimizer(optimizer, {name: float(value) for name, value in parameters.items()}, by_key)

    def save_optimizer_states(self, fname: Path, dump_optimizer: bool = False) -> None:
        """Writes the rule's state of each key, such as its momentum, to a file. With dump_optimizer it also writes the
        rule and its parameters.

        The file is replaced as a whole or not at all. With servers the file has the states of all servers, after they
        have executed this worker's earlier calls. One worker is enough; each worker that calls it writes the file that
        it names.

        Blocks until the file is on disk. Not collective. Raises InvalidArgumentError if there is no optimizer,
        InternalError if it cannot write the file, and UnsupportedError with dist_sync_mpi.
        """
        self._save_optimizer_states(os.fsdecode(fname), dump_optimizer)

    def load_optimizer_states(self, fname: Path) -> None:
        """Loads the states from a file of save_optimizer_states, and the optimizer, too, if the file has it.

        A store with any number of servers can load the file, and so can a store of one process. Blocks while it reads.
        With servers it is collective, and blocks until every worker has called it (with asynchronous types, until
        worker 0 has). Only worker 0 reads its file; the other workers need none.

        Raises InvalidArgumentError if the file is missing or damaged, or has the states of another rule, and
        UnsupportedError with dist_sync_mpi.
        """
        self._load_optimizer_states(os.fsdecode(fname))

    def set_gradient_compression(self, kind: str, threshold: SupportsFloat = 0.5) -> None:
        """Sets the format in which float32 arrays travel between nodes: 'none', 'fp16' or 'bf16'.

        With servers it is the format in which gradients travel to them. Servers also take two further kinds, for
        float32, float16 and bfloat16:
            '2bit': sends +threshold, -threshold or 0 for each element;
            '1bit': sends +1 for an element above the threshold, else -1.
        With these, a worker keeps what rounding leaves over of a gradient, and adds it to the next gradient. It does so
        even if the push fails. If one input element is NaN or infinite, so is that element of the sum ('2bit': NaN),
        and nothing of it is added to the next gradient.

        All ranks call it with the same values before the first array. With servers it blocks until all have; otherwise
        it does not block.

        Raises UnsupportedError for another kind, InvalidArgumentError after the first array and for a threshold that is
        not finite and above 0 ('1bit': at least 0), MismatchError if workers pass different values, and AbortedError if
        the store is closed.
        """
        if not isinstance(kind, str):
            raise TypeError(f"a kind of compression is a str, not {kind!r}")
        self._set_gradient_compression(kind, float(threshold))

    def num_dead_node(self) -> int:
        """Returns how many processes of the job (scheduler, servers and workers) were lost; 0 in a store of one
        process.

        Does not block. Not collective. Raises UnsupportedError with dist_sync_mpi, where a PeerLostError names the
        ranks.
        """
        return self._num_dead_node()

    def barrier(self) -> None:
        """Blocks until every rank has called it. It promises nothing about arrays in flight, which may still move when
        it returns: wait for their Pendings.

        Collective. Ctrl-C interrupts the wait; for the other ranks, this rank has come all the same. Raises
        TimedOutError if some ranks do not come within key_timeout. Raises PeerLostError, AbortedError and InternalError
        as Pending.wait does.
        """
        self._barrier()

    def join(self) -> int:
        """A rank that has run out of data calls this. Blocks until all ranks have joined, and returns the last rank to
        join.

        Until then this rank contributes nothing to what the others reduce: it adds zeros to a sum, and an average does
        not count it. Collective. Ctrl-C interrupts the wait; for the other ranks, this rank has joined all the same.

        Raises UnsupportedError with servers. Raises PeerLostError, AbortedError and InternalError as Pending.wait does.
        """
        return self._join()

    @overload
    def allocate(self, shape: Shape, dtype: Any = "float32", gpu: None = None) -> NDArray[Any]: ...

    @overload
    def allocate(self, shape: Shape, dtype: Any = "float32", *, gpu: SupportsIndex) -> GpuArray: ...

    def allocate(self, shape: Shape, dtype: Any = "float32",
                 gpu: SupportsIndex | None = None) -> NDArray[Any] | GpuArray:
        """Allocates a numpy array in memory that the ranks of a machine share, so that it is exchanged without copies.

        shape: a number of elements, or a sequence of at most 8 dimensions.
        dtype: a dtype of numpy or torch, or its name. For bfloat16 the package ml_dtypes must be installed.
        gpu: the number of a GPU. The result is then a tutti.GpuArray there, with undefined contents.

        With dist_sync_mpi the array holds zeros. In stores of one process its contents are undefined. The array may
        outlive the store.

        Not collective. Blocks for 0.5 to 3 ms for each MiB, and Ctrl-C does not interrupt it. Raises:
            TypeError: the argument is no shape or no dtype;
            InvalidArgumentError: a dimension is negative, the array is too large, or tutti does not have the dtype;
            UnsupportedError: ml_dtypes is missing, or the store takes no arrays on a GPU;
            InternalError: there is not enough memory;
            AbortedError: the store is closed.
        """
        dims, name = _arrays.dims_of(shape), _arrays.allocatable(dtype)
        if gpu is not None:
            return self._allocate_on(dims, name, operator.index(gpu))
        kind = _arrays.numpy_dtype(name)
        return self._allocate(dims, name).view(kind).reshape(dims)

    def counters(self) -> Counters:
        """Counts what the store has done on this rank since create, and the memory that it holds. Does not block. Not
        collective.

        Raises AbortedError if the store is closed.
        """
        return self._counters()

    def choices(self) -> list[Choice]:
        """Lists the sizes, limits and policies that the store uses, and where each comes from. For people to read.

        The list is empty in stores of one process. Does not block. Not collective. Raises AbortedError if the store is
        closed.
        """
        return self._choices()

    def close(self) -> None:
        """Closes the store. A second call does nothing.

        Every thread that calls it blocks until the arrays that have begun to move are exchanged. Not collective: other
        calls that need this rank fail with AbortedError on the other ranks. Afterwards every other method raises
        AbortedError. Ctrl-C interrupts the wait; the store then goes on closing in the background. If nothing refers to
        a store any more, it is closed, too, and Ctrl-C does not interrupt that.

        Raises the error that ended the store, such as PeerLostError, if no other call has raised it. The end of a
        `with` block does the same, unless an exception leaves the block.
        """
        self._close()

    broadcast_object = _objects.broadcast_object
    allgather_object = _objects.allgather_object
    fingerprint = _fingerprint.fingerprint
