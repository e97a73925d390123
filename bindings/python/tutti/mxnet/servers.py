"""The stores of a parameter-server job: `mx.kv.create("dist_sync")` and its kin under tutti's launcher."""
import contextlib
import pickle

from mxnet import optimizer as mx
from mxnet.kvstore import KVStoreBase

from tutti.errors import Error, InvalidArgumentError, UnsupportedError
from tutti.mxnet import optimizers, rows, saved
from tutti.mxnet.store import COUNTS, KEYS, Store, _Exchange, compression_of, named
from tutti.mxnet.values import copy_to, dense, listed, read_first

#: What MXNet's own set_optimizer sends with `_send_command_to_servers`: an optimizer, and that it wants more precision.
CONTROLLER, MULTI_PRECISION = 0, 1
UNCOMPRESSED = "none", 0.5


def grouped(keys, values, take=dense):
    """{key: arrays} for one key with its value, or for lists of both, in which a key may stand several times."""
    if not isinstance(keys, (list, tuple)):
        return {keys: take(keys, listed(values))}
    if not isinstance(values, (list, tuple)) or len(values) != len(keys):
        raise InvalidArgumentError("a list of keys takes a list of values, one a key")
    groups = {}
    for key, value in zip(keys, values):
        groups.setdefault(key, []).extend(take(key, listed(value)))
    return groups


@contextlib.contextmanager
def keys_as_given():
    """In an error the key is what the program calls it."""
    try:
        yield
    except Error as error:
        raise type(error)(str(error), key=KEYS.get(error.key, error.key), ranks=error.ranks) from None


class _Updater:
    """What a Trainer looks for in a store that has loaded states."""

    def __init__(self, optimizer):
        self.optimizer = optimizer


class ServedStore(Store):
    """Keeps values on servers, which sum what all workers push and, once they have an optimizer, update by it.

    push, pull, pushpull and broadcast do not wait: MXNet's engine starts each when its arrays are ready, those of one
    key in turn, and whoever waits for the arrays waits for the exchange. An error is raised there too. All stores of a
    process that are open at a time are one in its job. Options come from the environment (see `tutti.create`).
    """

    joined = None  # the open exchange of this process
    updated = "the model"  # whose the values are that servers update

    def __init__(self):  # pylint: disable=super-init-not-called
        if ServedStore.joined is None:
            ServedStore.joined = _Exchange(self.asked)
            ServedStore.joined.sender, ServedStore.joined.compression = None, UNCOMPRESSED
        self._exchange = ServedStore.joined
        self._store = self._exchange.store
        if ("async" in self._store.type) != ("async" in self.asked):
            raise UnsupportedError(f"this process has a store of type {self._store.type} already, and a job's servers "
                                   f"cannot be {self.asked} as well at the same time; use one of the two, or close "
                                   "the other first, with its close()")
        number = next(COUNTS["store"])
        self._user = f"store {number}" if number > 1 else ""
        self._compression = UNCOMPRESSED
        self._optimizer = self._sent = self._key_kind = self._owner = None

    @property
    def type(self):
        return self.asked

    @staticmethod
    def is_capable(capability):
        """Whether the store updates weights: it does."""
        if capability.lower() == KVStoreBase.OPTIMIZER:
            return True
        raise ValueError(f"Unknown capability: {capability}")

    def init(self, key, value):
        """Stores worker 0's `value`. Waits until every worker has called it. A key has one first value."""
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
        """All stores of the process share the job's keys, and each has integers or strings, as its user likes.

        What servers update is called alike in every program, for its states may come from a file of another.
        """
        if self._owner is None:
            self._owner = self._user if self._optimizer is None else self.updated
        return named(key, self._owner)

    def give_first(self, key, _, outs):
        self.pull(key, outs)

    def push(self, key, value, priority=0):
        """Sums `value` over this worker's devices and all workers; with an optimizer the stored value is updated by the
        sum, without one replaced. Does not wait."""
        for each, arrays in self._gradients(key, value):
            self._refresh(each)
            self._exchange.start("push", self._name(each), arrays, [], priority)

    def _gradients(self, key, value):
        """Row-sparse ones too, as if the rows that they have not were zeros."""
        def take(each, arrays):
            if self._optimizer is not None and rows.are_some(arrays):
                optimizers.check_rows(self._optimizer, each)
            return rows.all_of(each, arrays)
        return grouped(key, value, take).items()

    def pull(self, key, out=None, priority=0, ignore_sparse=True):
        """Copies the stored value, after this worker's pushes, to every array of `out`. Does not wait.

        With `ignore_sparse` row_sparse arrays stay as they are: row_sparse_pull fills them.
        """
        if out is None:
            raise InvalidArgumentError(f"pull of key {key!r}: out= is missing, the arrays that get the value")
        for each, outs in grouped(key, out, rows.but_sparse if ignore_sparse else dense).items():
            if outs:
                self._get("pull", each, [], outs, priority)

    def pushpull(self, key, value, out=None, priority=0):
        """A push, and then a pull to every array of `out`, or of `value`. Does not wait."""
        outs = grouped(key, value if out is None else out)
        for each, arrays in read_first(list(self._gradients(key, value)), list(outs.items())):
            self._refresh(each)
            self._get("pushpull", each, arrays, outs[each], priority)

    def _get(self, method, key, ins, outs, priority):
        """The store gives its value to one array, for others may lie in the same memory."""
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
        """From now on the servers update values by this optimizer: one of MXNet's own, of those that they know.

        What changes in it later, such as the learning rate, reaches them with the next push; so does what a schedule
        says after this worker's number of pushes of a key. Waits until every worker has called it (`dist_async`: until
        worker 0 has, or the lowest that has not gone).
        """
        optimizers.check(optimizer, self.type)
        self._check_owner()
        self._exchange.wait()  # what was pushed before is a value, or an update by the optimizer before
        before = self._optimizer
        self._optimizer = optimizer
        try:
            self._send()
        except BaseException:
            self._optimizer = before
            raise
        self._exchange.sender = self

    def _refresh(self, key):
        """Before a push: whether the optimizer is still as the servers have it. All workers come by here alike."""
        self._check_key(key)
        self._check_owner()
        if self._compression != self._exchange.compression:
            raise UnsupportedError(f"this program's gradients travel as {self._exchange.compression[0]}, for another "
                                   "Trainer, Module or store has asked for it; give all the same compression_params")
        if self._optimizer is None:
            return
        self._optimizer._update_count(key)
        if not optimizers.is_as(self._optimizer, self._sent, key):
            self._exchange.wait()  # earlier pushes are updates by the earlier parameters
            self._send()

    def _check_owner(self):
        """Servers update whatever is pushed by the one optimizer that they have."""
        if self._exchange.sender not in (None, self):
            raise UnsupportedError(f"the servers of {self.type} have the optimizer of another Trainer, Module or store "
                                   "of this program, and would update this one's values by it; let all of them update "
                                   "on the workers: with a Trainer update_on_kvstore=False, with a Module "
                                   "MXNET_UPDATE_ON_KVSTORE=0. Or use one after the other: close the first one's store "
                                   "with kv.close(), of kv = mx.kv.create(...), on every worker, and create another")

    def _send(self):
        """What the servers refuse they have not: it is sent again with the next push."""
        name, parameters, factors = setting = optimizers.setting(self._optimizer)
        self._store.set_optimizer(name, factors={self._name(key): of_key for key, of_key in factors.items()},
                                  **parameters)
        self._sent = setting

    @property
    def _updater(self):
        return None if self._optimizer is None else _Updater(self._optimizer)

    def save_optimizer_states(self, fname, dump_optimizer=False):
        """Writes what the servers keep of each value, such as its momentum, into a file; with `dump_optimizer` also
        the optimizer with its learning rate and schedule. One worker is enough."""
        self._exchange.wait()
        if dump_optimizer and self._optimizer is not None:
            saved.write(fname, self._optimizer, self._store.save_optimizer_states)
        else:
            self._store.save_optimizer_states(fname)

    def load_optimizer_states(self, fname):
        """Gives the servers what such a file has; its optimizer, if it has one, takes the place of this program's.

        Worker 0's file is read, and it is trusted: an optimizer is unpickled, as MXNet does. Waits until every worker
        has called it.
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
        """{'type': '2bit', 'threshold': 0.5}, or '1bit', 'fp16', 'bf16', 'none': how gradients travel to the servers.

        For the whole program, before its first array. Waits until every worker has called it.
        """
        chosen = compression_of(compression_params)
        if chosen != self._exchange.compression:
            self._store.set_gradient_compression(*chosen)
            self._exchange.compression = chosen
        self._compression = chosen

    def row_sparse_pull(self, key, out=None, priority=0, row_ids=None):
        """Gives every array of `out`, dense or row_sparse, these rows of the value; its other rows become zeros.

        row_ids: an array for all of `out` or one for each, of any shape; with a list of keys one for each key. Waits
        for this worker's earlier calls with the key, and for the rows.
        """
        for each, array, ids in rows.asked_for(key, out, row_ids):
            self._check_key(each)
            self._exchange.turn(self._name(each)).wait_to_read()
            with keys_as_given():
                rows.pull(self._store, self._name(each), array, ids)

    def num_dead_node(self):
        """How many nodes of the job (scheduler, servers, workers) were lost."""
        return self._store.num_dead_node()

    def _set_updater(self, updater):
        """For an updater of one of MXNet's optimizers as set_optimizer: servers run no code of a program's."""
        if not isinstance(updater, mx.Updater):
            self._refuse("_set_updater with a function", "call set_optimizer with one of MXNet's optimizers, or update "
                         "on the workers, from the sums of pushpull")
        self.set_optimizer(updater.optimizer)

    def _send_command_to_servers(self, head, body):
        """As set_optimizer, where it is the command by which MXNet's own sends an optimizer."""
        if head == CONTROLLER:
            self.set_optimizer(pickle.loads(body.encode() if isinstance(body, str) else body))
        elif head != MULTI_PRECISION:  # the optimizer says so itself
            self._refuse(f"_send_command_to_servers with head {head}", "the servers take set_optimizer's alone")
