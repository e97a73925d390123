"""What MXNet's training loops do not do for a store that is registered with them."""
from mxnet import model
from mxnet.gluon import trainer
from mxnet.module import module

from tutti.errors import UnsupportedError
from tutti.mxnet._names import names
from tutti.mxnet.store import Store, copy_to


def _ours(kvstore):
    return isinstance(kvstore, Store) or isinstance(kvstore, str) and kvstore.lower() in names()


def _creating(native):
    def create(kvstore, num_device, arg_params):
        """With a name in capitals MXNet's own makes no store at all for one device; and users of a store share keys."""
        if isinstance(kvstore, Store):
            kvstore = kvstore.for_one_user()
        elif _ours(kvstore):
            kvstore = kvstore.lower()
        return native(kvstore, num_device, arg_params)
    return create


def _creating_sparse(native):
    def create(kvstore):
        if _ours(kvstore):
            name = kvstore if isinstance(kvstore, str) else kvstore.type
            raise UnsupportedError(f"{name} does not exchange row_sparse weights; make the parameters dense: "
                                   "stype='default', grad_stype='default', sparse_grad=False")
        return native(kvstore)
    return create


def _initializing(native):
    def initialize(kvstore, param_arrays, arg_params, param_names, update_on_kvstore):
        """MXNet's own does not copy back what the store has, and so would each rank keep its own first weights."""
        native(kvstore, param_arrays, arg_params, param_names, update_on_kvstore)
        if isinstance(kvstore, Store):
            for name, arrays in zip(param_names, param_arrays):
                copy_to(arg_params[name], arrays)
    return initialize


def fit_training():
    """Puts these functions in the place of MXNet's, where its Trainer, Module and FeedForward look for them."""
    for name, wrap in (("_create_kvstore", _creating), ("_create_sparse_kvstore", _creating_sparse),
                       ("_initialize_kvstore", _initializing)):
        ours = wrap(getattr(model, name))
        for place in (model, trainer, module):
            if hasattr(place, name):
                setattr(place, name, ours)
