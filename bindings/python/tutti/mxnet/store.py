"""The store that `mx.kv.create("dist_sync_mpi")` makes."""
import atexit
import collections
import copy
import itertools
import numbers
import os
import sys

import mxnet
from mxnet.kvstore import KVStoreBase

import tutti
from tutti import _core
from tutti.errors import InvalidArgumentError, UnsupportedError
from tutti.mxnet.values import copy_to, pairs, read_first

#: The number of Trainers and other users of a store that this program has made. Every rank makes them in one order.
COUNTS = collections.defaultdict(lambda: itertools.count(1))
#: {what the library calls an array: what the program does}
KEYS = {}
#: ps-lite's name for all nodes: the sum of its numbers for scheduler, servers and workers.
ALL_NODES = 7


def named(key, user):
    """The name of a user's key in a store whose users may all use the keys 0, 1, ... Errors show this name."""
    name = f"{key} of {user}" if user else str(key)
    KEYS[name] = key
    return name


def compression_of(params):
    """(kind, threshold) of MXNet's compression_params."""
    unknown = sorted(set(params) - {"type", "threshold"})
    if unknown or "type" not in params:
        wrong = f"{unknown[0]!r} is not known" if unknown else "there is no 'type'"
        raise InvalidArgumentError(f"compression {params!r}: {wrong}; it takes 'type' and, with 2bit and 1bit, "
                                   "'threshold'")
    try:
        return params["type"], float(params.get("threshold", 0.5))
    except (TypeError, ValueError):
        raise InvalidArgumentError(f"compression {params!r}: the threshold must be a number") from None


class _Exchange:
    """The part of a store that its users share. It lives until the program closes it or ends. A Trainer and its
    parameters refer to each other, so Python drops them at another time on each rank; and closing a store waits for all
    ranks.
    """

    open = []

    def __init__(self, store_type):
        if os.environ.get("MXNET_ENGINE_TYPE") == "NaiveEngine":
            raise UnsupportedError(f"{store_type} does not work with MXNET_ENGINE_TYPE=NaiveEngine, because that "
                                   "engine hides failed exchanges; take ThreadedEngine or ThreadedEnginePerDevice")
        self.store = tutti.create(store_type)
        self._engine = _core.mxnet.DependencyEngine(mxnet.libinfo.find_lib_path()[0], self.store)
        self._turns = {}
        self.compression = None  # which the program has asked for
        self.open.append(self)
        # MXNet's own handler runs before it is known whether the program ends well, and then the engine skips the work
        # that it has not begun.
        atexit.unregister(mxnet.base._notify_shutdown)
        self._engine.finish_at_exit()

    def turn(self, key):
        """The array by which the engine recognises calls of the key. It makes them go one after another."""
        found = self._turns.get(key)
        return self._turns.setdefault(key, mxnet.nd.empty(1)) if found is None else found

    def start(self, method, key, ins, outs, priority):
        handles = ([array.handle.value for array in arrays] for arrays in (ins, outs))
        getattr(self._engine, method)(key, *handles, self.turn(key).handle.value, priority)

    def wait(self):
        """Waits until all started exchanges are done. Raises their errors."""
        for turn in list(self._turns.values()):
            turn.wait_to_read()

    def close(self):
        """Waits for all started exchanges, and then until the store is closed. Raises their errors."""
        if self not in self.open:
            return
        self.open.remove(self)
        try:
            self.wait()
        finally:
            self.store.close()


@atexit.register
def _finish_custom_operators():
    """Waits for operations that may need custom operators. Those operators end with Python. The exit status is not
    known yet.
    """
    held = list(mxnet.operator._registry.ref_holder.values())
    operators = [each for each in held if isinstance(each, (mxnet.operator.CustomOp, mxnet.operator.CustomOpProp))]
    if hasattr(sys, "last_value") or not operators:
        return
    try:
        mxnet.nd.waitall()
    except mxnet.MXNetError:
        pass  # if nobody waited for the arrays, the exit handler reports it


class Store(KVStoreBase):
    """Sums gradients over all ranks of an MPI job. Each rank updates its own weights, which stay equal.

    Only `barrier` and `join` wait. MXNet's engine starts each exchange when its arrays are ready. A program that waits
    for the arrays also waits for the exchange, and gets its error there. Options come from the environment (see
    `tutti.create`).

    A store keeps its memory and its thread until it is closed or the program ends. So a program that makes many
    Trainers gives them one store.
    """

    asked = "dist_sync_mpi"

    def __init__(self):
        self._exchange = _Exchange(self.asked)
        self._store = self._exchange.store
        self._user, self._key_kind = "", None

    @property
    def type(self):
        return self._store.type

    @property
    def rank(self):
        return self._store.rank

    @property
    def num_workers(self):
        return self._store.num_workers

    @staticmethod
    def is_capable(capability):
        """Whether the store updates weights. It does not."""
        if capability.lower() == KVStoreBase.OPTIMIZER:
            return False
        raise ValueError(f"Unknown capability: {capability}")

    def broadcast(self, key, value, out, priority=0):
        """Writes rank 0's `value` to every array of `out` on all ranks. Collective. Does not wait."""
        targets = pairs(key, out)
        for (each, sources), (_, outs) in zip(read_first(pairs(key, value), targets), targets):
            copy_to(sources[0], outs[:1])
            self._start("broadcast", each, outs, priority)

    def init(self, key, value):
        """Writes rank 0's `value` to `value` on all ranks, as a store on servers would. Collective."""
        self.broadcast(key, value, value)

    def give_first(self, _, value, outs):
        """Copies the first value, with which `init` has been called, to a worker's arrays."""
        copy_to(value, outs)

    def pushpull(self, key, value, out=None, priority=0):
        """Sums `value` over the devices and all ranks, and writes the sum to every array of `out`, or to `value`.

        Collective. Does not wait. A higher priority goes first.
        """
        values = pairs(key, value)
        targets = values if out is None or out is value else pairs(key, out)
        summed = read_first(values, targets) if targets is values else [
            (each, [array.copy() for array in arrays]) for each, arrays in values]
        for (each, arrays), (_, outs) in zip(summed, targets):
            self._start("pushpull", each, arrays, priority)
            if arrays is not outs:
                copy_to(arrays[0], outs)

    def set_gradient_compression(self, compression_params):
        """Sets how float32 travels between machines: {'type': 'fp16'}, 'bf16' or 'none'. Call it before the first
        array.
        """
        kind, _ = compression_of(compression_params)
        if kind in ("1bit", "2bit"):
            raise UnsupportedError(f"{self.type} does not have {kind} compression, which only the types with a "
                                   "parameter server have (dist_sync, dist_async); here 'type' may be fp16, bf16 or "
                                   "none")
        if kind != self._exchange.compression:
            self._store.set_gradient_compression(kind)
            self._exchange.compression = kind

    def barrier(self):
        """Waits for all ranks. Collective."""
        self._store.barrier()

    _barrier = barrier

    def close(self):
        """Waits for all started exchanges, and closes the store for all Trainers, Modules and stores that share it.

        A second call does nothing. With servers it waits until every worker has called it. Then the program may create
        another store, which begins without values and optimizer. Raises the errors of the exchanges.
        """
        self._exchange.close()

    def join(self):
        """A rank that has run out of batches calls this. Waits until all ranks have, and meanwhile adds zeros to their
        sums.

        Collective. Returns the rank that came last. The others have updated their weights meanwhile, and this rank has
        not: `tutti.mxnet.join(trainer)` calls this method and gives the rank the others' weights.
        """
        mxnet.nd.waitall()
        return self._store.join()

    def set_optimizer(self, optimizer):
        self._refuse("set_optimizer", "create the Trainer or Module with its optimizer and update_on_kvstore=False")

    def save_optimizer_states(self, fname, dump_optimizer=False):
        self._refuse("save_optimizer_states", "call the Trainer's save_states")

    def load_optimizer_states(self, fname):
        self._refuse("load_optimizer_states", "call the Trainer's load_states")

    def push(self, key, value, priority=0):
        pairs(key, value)  # sparse ones are refused as such: MXNet pushes these, and no others
        self._refuse("push", "call pushpull")

    def pull(self, key, out=None, priority=0, ignore_sparse=True):
        self._refuse("pull", "call pushpull, or broadcast for a first value")

    def row_sparse_pull(self, key, out=None, priority=0, row_ids=None):
        self._refuse("row_sparse_pull", "make the parameter dense")

    def num_dead_node(self):
        self._refuse("num_dead_node", "catch tutti.PeerLostError, which names the ranks that are lost")

    def get_num_dead_node(self, node_id=ALL_NODES, timeout=60):  # pylint: disable=unused-argument
        """The same as num_dead_node, under MXNet's name. A node is lost when its connection ends, or when
        PS_HEARTBEAT_TIMEOUT has passed without a heartbeat. `timeout` has no effect.
        """
        if node_id != ALL_NODES:
            self._refuse(f"get_num_dead_node with node_id {node_id}", f"all nodes are counted, node_id {ALL_NODES}")
        return self.num_dead_node()

    def _set_updater(self, updater):
        self._refuse("_set_updater", "update the weights on each rank, from the sums of pushpull")

    def _send_command_to_servers(self, head, body):
        self._refuse("_send_command_to_servers", "there are no servers")

    def for_one_user(self, kind):
        """The store as one Trainer or Module has it: two that share a store may use equal keys.

        They are told apart by the order in which they are made, which is the same on every rank.
        """
        part = copy.copy(self)
        part._user, part._key_kind = f"{kind} {next(COUNTS[kind])}", None
        return part

    def _check_key(self, key):
        if isinstance(key, bool) or not isinstance(key, (str, numbers.Integral)):
            raise TypeError(f"a key is an int or a str, not {key!r}")
        kind = isinstance(key, str)
        if self._key_kind not in (None, kind):
            raise InvalidArgumentError(f"key {key!r}: the keys of one store must be all integers or all strings",
                                       key=key)
        self._key_kind = kind

    def _start(self, method, key, arrays, priority):
        self._check_key(key)
        # Arrays of one device may share memory, and the engine would wait for ever for the same memory twice.
        own = arrays if len({array.context for array in arrays}) == len(arrays) else [a.copy() for a in arrays]
        self._exchange.start(method, self._name(key), own if method == "pushpull" else [], own, priority)
        if own is not arrays:
            copy_to(own[0], arrays)

    def _name(self, key):
        return named(key, self._user)

    def _refuse(self, method, instead):
        raise UnsupportedError(f"{method} is not supported by {self.type}: {instead}")
