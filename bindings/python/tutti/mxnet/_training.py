"""What MXNet's training loops do not do for a store that is registered with them."""
from mxnet import model
from mxnet.gluon import trainer
from mxnet.module import module

from tutti.errors import UnsupportedError
from tutti.mxnet._names import check, names
from tutti.mxnet.store import Store


def _ours(kvstore):
    return isinstance(kvstore, Store) or isinstance(kvstore, str) and kvstore.lower() in names()


def _creating(native):
    def create(kvstore, num_device, arg_params):
        """With a name in capitals MXNet's own makes no store at all for one device; and users of a store share keys."""
        if isinstance(kvstore, Store):
            kvstore = kvstore.for_one_user()
        elif isinstance(kvstore, str):
            check(kvstore)
            kvstore = kvstore.lower() if _ours(kvstore) else kvstore
        return native(kvstore, num_device, arg_params)
    return create


def _setting_up(native):
    def set_up(trainer):
        """MXNet would ask for a store that updates weights, or say that it cannot use this one."""
        sparse = [kind for kind, is_so in (("weights", trainer._contains_sparse_weight),
                                           ("gradients", trainer._contains_sparse_grad)) if is_so]
        kvstore = trainer._kvstore_params["kvstore"]
        if sparse and _ours(kvstore):
            name = kvstore if isinstance(kvstore, str) else kvstore.type
            raise UnsupportedError(f"{name} does not exchange sparse {' and '.join(sparse)}; make the parameters "
                                   "dense: stype='default', grad_stype='default', sparse_grad=False")
        native(trainer)
    return set_up


def _initializing(native):
    def initialize(kvstore, param_arrays, arg_params, param_names, update_on_kvstore):
        """MXNet's own copies nothing back where workers update, and so would each keep its own first weights."""
        native(kvstore, param_arrays, arg_params, param_names, update_on_kvstore)
        if isinstance(kvstore, Store) and not update_on_kvstore:
            for name, arrays in zip(param_names, param_arrays):
                kvstore.give_first(name, arg_params[name], arrays)
    return initialize


def fit_training():
    """Puts these functions in the place of MXNet's, where its Trainer, Module and FeedForward look for them."""
    trainer.Trainer._init_kvstore = _setting_up(trainer.Trainer._init_kvstore)
    for name, wrap in (("_create_kvstore", _creating), ("_initialize_kvstore", _initializing)):
        ours = wrap(getattr(model, name))
        for place in (model, trainer, module):
            if hasattr(place, name):
                setattr(place, name, ours)
