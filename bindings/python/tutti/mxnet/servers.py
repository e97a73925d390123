"""The stores of a parameter-server job: `mx.kv.create("dist_sync")`, "dist_async" and so on under tutti's launcher."""
import contextlib
import pickle

from mxnet import optimizer as mx
from mxnet.kvstore import KVStoreBase

from tutti.errors import Error, InvalidArgumentError, UnsupportedError
from tutti.mxnet import optimizers, rows, saved
from tutti.mxnet.store import COUNTS, KEYS, Store, _Exchange, compression_of, named
from tutti.mxnet.values import copy_to, dense, listed, read_first

#: The commands of MXNet's own set_optimizer to the servers: an optimizer, and the wish for more precision.
CONTROLLER, MULTI_PRECISION = 0, 1
UNCOMPRESSED = "none", 0.5


def grouped(keys, values, take=dense):
    """{key: arrays} for one key with its value, or for lists of both, in which a key may stand several times."""
    if not isinstance(keys, (list, tuple)):
        return {keys: take(keys, listed(values))}
    if not isinstance(values, (list, tuple)) or len(values) != len(keys):
        raise InvalidArgumentError("with a list of keys, pass a list of values with an entry for each key")
    groups = {}
    for key, value in zip(keys, values):
        groups.setdefault(key, []).extend(take(key, listed(value)))
    return groups


@contextlib.contextmanager
def keys_as_given():
    """Lets errors name the key as the program does."""
    try:
        yield
    except Error as error:
        raise type(error)(str(error), key=KEYS.get(error.key, error.key), ranks=error.ranks) from None


class _Updater:
    """The object that a Trainer looks for in a store that has loaded states."""

    def __init__(self, optimizer):
        self.optimizer = optimizer


class ServedStore(Store):
    """Keeps values on servers. The servers sum the pushes of all workers. Once they have an optimizer, they update by
    the sum.

    push, pull, pushpull and broadcast do not wait: MXNet's engine starts each of them when its arrays are ready. Calls
        for one
    key go one after another. A program that waits for the arrays also waits for the exchange, and gets its error there.
    All stores of a process that are open at the same time are one store in the job. Options come from the environment
    (see `tutti.create`).
    """

    joined = None  # the open exchange of this process
    updated = "the model"  # the owner of the values that servers update

    def __init__(self):  # pylint: disable=super-init-not-called
        if ServedStore.joined is None:
            ServedStore.joined = _Exchange(self.asked)
            ServedStore.joined.sender, ServedStore.joined.compression = None, UNCOMPRESSED
        self._exchange = ServedStore.joined
        self._store = self._exchange.store
        if ("async" in self._store.type) != ("async" in self.asked):
            raise UnsupportedError(f"this process already has a store of type {self._store.type}, and the servers of "
                                   f"a job cannot be {self.asked} at the same time; use only one of the two types, or "
                                   "first call close() of the other store")
        number = next(COUNTS["store"])
        self._user = f"store {number}" if number > 1 else ""
        self._compression = UNCOMPRESSED
        self._optimizer = self._sent = self._key_kind = self._owner = None

    @property
    def type(self):
        return self.asked

    @staticmethod
    def is_capable(capability):
        """Whether the store updates weights. It does."""
        if capability.lower() == KVStoreBase.OPTIMIZER:
            return True
        raise ValueError(f"Unknown capability: {capability}")

    def init(self, key, value):
        """Stores worker 0's `value`. Waits until every worker has called it. A key has only one first value."""
        groups = grouped(key, value, rows.all_of)
        for each in groups:
            self._check_key(each)
        with keys_as_given():
            self._store.init([self._name(each) for each in groups],
                             [arrays[0].asnumpy() for arrays in groups.values()])

    def for_one_user(self, kind):
        part = super().for_one_user(kind)
        part._owner = None
        return part

    def _name(self, key):
        """The key's name in the job. All stores of the process share the job's keys, and each store has ints or strs as
        its user likes.

        The values that servers update have the same names in every program, because their states may come from a file
        of another program.
        """
        if self._owner is None:
            self._owner = self._user if self._optimizer is None else self.updated
        return named(key, self._owner)

    def give_first(self, key, _, outs):
        self.pull(key, outs)

    def push(self, key, value, priority=0):
        """Sums `value` over this worker's devices and all workers. Does not wait.

        With an optimizer the sum updates the stored value; without one it replaces the stored value.
        """
        for each, arrays in self._gradients(key, value):
            self._refresh(each)
            self._exchange.start("push", self._name(each), arrays, [], priority)

    def _gradients(self, key, value):
        """The gradients, row-sparse ones too, as if the rows that they lack were zeros."""
        def take(each, arrays):
            if self._optimizer is not None and rows.are_some(arrays):
                optimizers.check_rows(self._optimizer, each)
            return rows.all_of(each, arrays)
        return grouped(key, value, take).items()

    def pull(self, key, out=None, priority=0, ignore_sparse=True):
        """Copies the stored value to every array of `out`, after this worker's pushes. Does not wait.

        With `ignore_sparse` row_sparse arrays stay as they are; row_sparse_pull fills them.
        """
        if out is None:
            raise InvalidArgumentError(f"pull of key {key!r}: pass out=, the arrays that get the value")
        for each, outs in grouped(key, out, rows.but_sparse if ignore_sparse else dense).items():
            if outs:
                self._get("pull", each, [], outs, priority)

    def pushpull(self, key, value, out=None, priority=0):
        """Does a push, and then a pull to every array of `out`, or of `value`. Does not wait."""
        outs = grouped(key, value if out is None else out)
        for each, arrays in read_first(list(self._gradients(key, value)), list(outs.items())):
            self._refresh(each)
            self._get("pushpull", each, arrays, outs[each], priority)

    def _get(self, method, key, ins, outs, priority):
        """Lets the store write its value to one array only, because the others may lie in the same memory."""
        self._check_key(key)
        self._exchange.start(method, self._name(key), ins, outs[:1], priority)
        copy_to(outs[0], outs[1:])

    def close(self):
        if ServedStore.joined is self._exchange:
            ServedStore.joined = None
        super().close()

    close.__doc__ = Store.close.__doc__

    def join(self):
        self._refuse("join", "give every worker the same number of batches")

    def set_optimizer(self, optimizer):
        """From now on the servers update values by this optimizer. It must be one of MXNet's own that the servers know.

        Later changes of the optimizer, such as a new learning rate, reach the servers with the next push. So does the
        learning rate that a schedule gives for this worker's number of pushes of a key. Waits until every worker has
        called it; with `dist_async` until worker 0 has, or the lowest worker that is still there.
        """
        optimizers.check(optimizer, self.type)
        self._check_owner()
        self._exchange.wait()  # earlier pushes are values, or updates by the earlier optimizer
        before = self._optimizer
        self._optimizer = optimizer
        try:
            self._send()
        except BaseException:
            self._optimizer = before
            raise
        self._exchange.sender = self

    def _refresh(self, key):
        """Before a push: sends the optimizer if the servers have another one. All workers come to this point alike."""
        self._check_key(key)
        self._check_owner()
        if self._compression != self._exchange.compression:
            raise UnsupportedError(f"this program's gradients travel as {self._exchange.compression[0]}, because "
                                   "another Trainer, Module or store has asked for that; give all of them the same "
                                   "compression_params")
        if self._optimizer is None:
            return
        self._optimizer._update_count(key)
        if not optimizers.is_as(self._optimizer, self._sent, key):
            self._exchange.wait()  # earlier pushes are updates by the earlier parameters
            self._send()

    def _check_owner(self):
        """Refuses a second optimizer, because servers update every pushed value by the one optimizer that they have."""
        if self._exchange.sender not in (None, self):
            raise UnsupportedError(f"the servers of {self.type} have the optimizer of another Trainer, Module or "
                                   "store of this program, and would use it to update this one's values, too; let "
                                   "the workers update all values: with a Trainer update_on_kvstore=False, with a "
                                   "Module MXNET_UPDATE_ON_KVSTORE=0. Or use one after the other: on every worker "
                                   "call kv.close() of the first one's store, kv = mx.kv.create(...), and create "
                                   "another store")

    def _send(self):
        """Sends settings to the servers. If the servers refuse them, sends them again with the next push."""
        name, parameters, factors = setting = optimizers.setting(self._optimizer)
        self._store.set_optimizer(name, factors={self._name(key): of_key for key, of_key in factors.items()},
                                  **parameters)
        self._sent = setting

    @property
    def _updater(self):
        return None if self._optimizer is None else _Updater(self._optimizer)

    def save_optimizer_states(self, fname, dump_optimizer=False):
        """Writes the states that the servers keep of each value, such as its momentum, to a file.

        With `dump_optimizer` it also writes the optimizer with its learning rate and schedule. One worker is enough.
        """
        self._exchange.wait()
        if dump_optimizer and self._optimizer is not None:
            saved.write(fname, self._optimizer, self._store.save_optimizer_states)
        else:
            self._store.save_optimizer_states(fname)

    def load_optimizer_states(self, fname):
        """Loads the states from such a file into the servers. If the file has an optimizer, that replaces the
        program's.

        It reads worker 0's file, and trusts it: it unpickles an optimizer, as MXNet does. Waits until every worker has
        called it.
        """
        self._exchange.wait()
        first = self.rank == 0
        with saved.opened(fname) if first else contextlib.nullcontext((fname, None)) as (states, told):
            told = self._store.broadcast_object(told)
            if told is not None:
                self._take_over(pickle.loads(told))
            self._store.load_optimizer_states(states)

    def _take_over(self, optimizer):
        if self._optimizer is not None:
            optimizer.param_dict = self._optimizer.param_dict
        self.set_optimizer(optimizer)

    def set_gradient_compression(self, compression_params):
        """Sets how gradients travel to the servers: {'type': '2bit', 'threshold': 0.5}, or '1bit', 'fp16', 'bf16',
            'none'.

        It holds for the whole program. Call it before the program's first array. Waits until every worker has called
        it.
        """
        chosen = compression_of(compression_params)
        if chosen != self._exchange.compression:
            self._store.set_gradient_compression(*chosen)
            self._exchange.compression = chosen
        self._compression = chosen

    def row_sparse_pull(self, key, out=None, priority=0, row_ids=None):
        """Copies these rows of the value to every array of `out`, dense or row_sparse. Its other rows become zeros.

        row_ids: one array for all of `out`, or one for each, of any shape; with a list of keys, one for each key. Waits
            for this
        worker's earlier calls with the key, and for the rows.
        """
        for each, array, ids in rows.asked_for(key, out, row_ids):
            self._check_key(each)
            self._exchange.turn(self._name(each)).wait_to_read()
            with keys_as_given():
                rows.pull(self._store, self._name(each), array, ids)

    def num_dead_node(self):
        """Returns the number of nodes of the job (scheduler, servers and workers) that were lost."""
        return self._store.num_dead_node()

    def _set_updater(self, updater):
        """Does the same as set_optimizer for an updater of one of MXNet's optimizers: servers run no code of a program.
        """
        if not isinstance(updater, mx.Updater):
            self._refuse("_set_updater with a function", "call set_optimizer with one of MXNet's optimizers, or update "
                         "on the workers, from the sums of pushpull")
        self.set_optimizer(updater.optimizer)

    def _send_command_to_servers(self, head, body):
        """Does the same as set_optimizer if the command is the one by which MXNet's own store sends an optimizer."""
        if head == CONTROLLER:
            self.set_optimizer(pickle.loads(body.encode() if isinstance(body, str) else body))
        elif head != MULTI_PRECISION:  # the optimizer reports this difference itself
            self._refuse(f"_send_command_to_servers with head {head}", "the servers take set_optimizer's alone")
