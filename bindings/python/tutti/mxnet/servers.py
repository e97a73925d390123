"""The stores of a parameter-server job: `mx.kv.create("dist_sync")` and its kin under tutti's launcher."""
import numbers
import pickle

from mxnet import optimizer as mx
from mxnet.kvstore import KVStoreBase

from tutti.errors import InvalidArgumentError, UnsupportedError
from tutti.mxnet import optimizers
from tutti.mxnet.store import Store, _Exchange, copy_to, dense, listed

#: What MXNet's own set_optimizer sends with `_send_command_to_servers`: an optimizer, and that it wants more precision.
CONTROLLER, MULTI_PRECISION = 0, 1


def grouped(keys, values):
    """{key: arrays} for one key with its value, or for lists of both, in which a key may stand several times."""
    if not isinstance(keys, (list, tuple)):
        return {keys: dense(keys, listed(values))}
    if not isinstance(values, (list, tuple)) or len(values) != len(keys):
        raise InvalidArgumentError("a list of keys takes a list of values, one a key")
    groups = {}
    for key, value in zip(keys, values):
        groups.setdefault(key, []).extend(dense(key, listed(value)))
    return groups


class _Updater:
    """What a Trainer looks for in a store that has loaded states."""

    def __init__(self, optimizer):
        self.optimizer = optimizer


class ServedStore(Store):
    """Keeps values on servers, which sum what all workers push and, once they have an optimizer, update by it.

    push, pull, pushpull and broadcast do not wait: MXNet's engine starts each when its arrays are ready, those of one
    key in turn, and whoever waits for the arrays waits for the exchange. An error is raised there too. All stores of a
    process are one in its job. Options come from the environment (see `tutti.create`).
    """

    joined = None  # the exchange of this process

    def __init__(self):  # pylint: disable=super-init-not-called
        if ServedStore.joined is None:
            ServedStore.joined = _Exchange(self.asked)
            ServedStore.joined.sender = None
        self._exchange = ServedStore.joined
        self._store = self._exchange.store
        if ("async" in self._store.type) != ("async" in self.asked):
            raise UnsupportedError(f"this process has a store of type {self._store.type} already, and a job's servers "
                                   f"cannot be {self.asked} as well; use one of the two")
        self._user = next(self._exchange.users)
        self._optimizer = self._sent = self._key_kind = None

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
        groups = grouped(key, value)
        for each in groups:
            self._check_key(each)
        self._store.init([self._name(each) for each in groups], [arrays[0].asnumpy() for arrays in groups.values()])

    def for_one_user(self):
        part = super().for_one_user()
        part._key_kind = None
        return part

    def _name(self, key):
        """All stores of the process share the job's keys, and each has integers or strings, as its user likes."""
        return key if self._user == 0 and isinstance(key, str) else f"{self._user}:{key}"

    def _start(self, method, key, arrays, priority):
        self._check_key(key)
        super()._start(method, key, arrays, priority)

    def _check_key(self, key):
        if isinstance(key, bool) or not isinstance(key, (str, numbers.Integral)):
            raise TypeError(f"a key is an int or a str, not {key!r}")
        kind = isinstance(key, str)
        if self._key_kind not in (None, kind):
            raise InvalidArgumentError(f"key {key!r}: the keys of one store are all integers or all strings", key=key)
        self._key_kind = kind

    def give_first(self, key, _, outs):
        self.pull(key, outs)

    def push(self, key, value, priority=0):
        """Sums `value` over this worker's devices and all workers; with an optimizer the stored value is updated by the
        sum, without one replaced. Does not wait."""
        for each, arrays in grouped(key, value).items():
            self._refresh(each)
            self._exchange.start("push", self._name(each), arrays, [], priority)

    def pull(self, key, out=None, priority=0, ignore_sparse=True):
        """Copies the stored value, after this worker's pushes, to every array of `out`. Does not wait."""
        if out is None:
            raise InvalidArgumentError(f"pull of key {key!r}: out= is missing, the arrays that get the value")
        for each, outs in grouped(key, out).items():
            self._get("pull", each, [], outs, priority)

    def pushpull(self, key, value, out=None, priority=0):
        """A push, and then a pull to every array of `out`, or of `value`. Does not wait."""
        outs = grouped(key, value if out is None else out)
        for each, arrays in grouped(key, value).items():
            self._refresh(each)
            self._get("pushpull", each, arrays, outs[each], priority)

    def _get(self, method, key, ins, outs, priority):
        """The store gives its value to one array, for others may lie in the same memory."""
        self._check_key(key)
        self._exchange.start(method, self._name(key), ins, outs[:1], priority)
        copy_to(outs[0], outs[1:])

    def join(self):
        self._refuse("join", "give every worker the same number of batches")

    def set_optimizer(self, optimizer):
        """From now on the servers update values by this optimizer: one of MXNet's own, of those that they know.

        What changes in it later, such as the learning rate, reaches them with the next push; so does what a schedule
        says after this worker's number of pushes of a key. Waits until every worker has called it (`dist_async`: until
        worker 0 has).
        """
        optimizers.check(optimizer, self.type)
        self._check_owner()
        self._exchange.sender, self._optimizer = self._user, optimizer
        self._send()

    def _refresh(self, key):
        """Before a push: whether the optimizer is still as the servers have it. All workers come by here alike."""
        self._check_key(key)
        self._check_owner()
        if self._optimizer is None:
            return
        self._optimizer._update_count(key)
        if optimizers.setting(self._optimizer) != self._sent:
            self._exchange.wait()  # earlier pushes are updates by the earlier parameters
            self._send()

    def _check_owner(self):
        """Servers update whatever is pushed by the one optimizer that they have."""
        if self._exchange.sender not in (None, self._user):
            raise UnsupportedError(f"the servers of {self.type} have the optimizer of another Trainer, Module or store "
                                   "of this program, and would update this one's values by it; let all of them update "
                                   "on the workers: with a Trainer update_on_kvstore=False, with a Module "
                                   "MXNET_UPDATE_ON_KVSTORE=0")

    def _send(self):
        name, parameters, factors = self._sent = optimizers.setting(self._optimizer)
        self._store.set_optimizer(name, factors={self._name(key): of_key for key, of_key in factors.items()},
                                  **parameters)

    @property
    def _updater(self):
        return None if self._optimizer is None else _Updater(self._optimizer)

    def save_optimizer_states(self, fname, dump_optimizer=False):
        """Writes what the servers keep of each value, such as its momentum, into a file."""
        self._exchange.wait()
        self._store.save_optimizer_states(fname, dump_optimizer)

    def load_optimizer_states(self, fname):
        """Gives the servers what such a file has. The optimizer's parameters stay those of this program's."""
        self._exchange.wait()
        self._store.load_optimizer_states(fname)
        self._sent = None

    def row_sparse_pull(self, key, out=None, priority=0, row_ids=None):
        self._refuse("row_sparse_pull", "make the parameter dense")

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
