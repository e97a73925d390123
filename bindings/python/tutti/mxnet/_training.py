"""Adds to MXNet's training loops the steps that a registered store needs."""
import functools

from mxnet import kvstore as stores, model
from mxnet.gluon import trainer
from mxnet.module import module

from tutti.mxnet._names import check, names
from tutti.mxnet.store import Store
from tutti.mxnet.values import SparseError


def _ours(kvstore):
    return isinstance(kvstore, Store) or isinstance(kvstore, str) and kvstore.lower() in names()


def _of_one_user(kvstore, kind):
    """Gives each user a part of our store of its own, because users share keys. MXNet gets no name: of a name in
    capitals it makes no store at all for one device.
    """
    if isinstance(kvstore, str):
        check(kvstore)
    if not _ours(kvstore):
        return kvstore
    return (stores.create(kvstore) if isinstance(kvstore, str) else kvstore).for_one_user(kind)


def _making(native):
    @functools.wraps(native)
    def make(trainer, *args, **given):
        """Makes the store now. MXNet would ask for it in the first step, to which ranks may come in different orders of
        Trainers.
        """
        native(trainer, *args, **given)
        trainer._kvstore_params["kvstore"] = _of_one_user(trainer._kvstore_params["kvstore"], "Trainer")
    return make


def _creating(native):
    def create(kvstore, num_device, arg_params):
        return native(_of_one_user(kvstore, "Module"), num_device, arg_params)
    return create


def _setting_up(native):
    def set_up(trainer):
        """MXNet's own function would ask for a store that updates weights, or say that it cannot use this one."""
        sparse = [kind for kind, is_so in (("weights", trainer._contains_sparse_weight),
                                           ("gradients", trainer._contains_sparse_grad)) if is_so]
        kvstore = trainer._kvstore_params["kvstore"]
        if sparse and _ours(kvstore):
            raise SparseError(f"{kvstore.type} does not exchange sparse {' and '.join(sparse)}; make the parameters "
                              "dense: stype='default', grad_stype='default', sparse_grad=False")
        native(trainer)
    return set_up


def _initializing(native):
    def initialize(kvstore, param_arrays, arg_params, param_names, update_on_kvstore):
        """MXNet's own function copies nothing back if workers update, so each would keep its own first weights."""
        native(kvstore, param_arrays, arg_params, param_names, update_on_kvstore)
        if isinstance(kvstore, Store) and not update_on_kvstore:
            for name, arrays in zip(param_names, param_arrays):
                kvstore.give_first(name, arg_params[name], arrays)
    return initialize


def _optimizing(native):
    @functools.wraps(native)
    def init_optimizer(self, *args, **given):
        """Also broadcasts auxiliary states, which MXNet's own function does not: for example BatchNorm's statistics
        from a checkpoint that only rank 0 has read.
        """
        before = self._kvstore
        native(self, *args, **given)
        if self._kvstore is not before and isinstance(self._kvstore, Store):
            group = self._exec_group
            for name, arrays in zip(group.aux_names, group.aux_arrays):
                self._kvstore.broadcast(name, arrays[0], arrays)
            self._params_dirty = True  # get_params takes them from the devices then
    return init_optimizer


def _feeding_forward(native):
    @functools.wraps(native)
    def train(symbol, ctx, arg_names, param_names, aux_names, arg_params, aux_params, *args, kvstore, **given):
        """Does the same as `_optimizing`, for a FeedForward."""
        if isinstance(kvstore, Store):
            states = kvstore._store.broadcast_object([aux_params[name].asnumpy() for name in aux_names])
            for name, state in zip(aux_names, states):
                aux_params[name][:] = state
        native(symbol, ctx, arg_names, param_names, aux_names, arg_params, aux_params, *args, kvstore=kvstore, **given)
    return train


def fit_training():
    """Replaces MXNet's functions by these, where its Trainer, Module and FeedForward look for them."""
    trainer.Trainer.__init__ = _making(trainer.Trainer.__init__)
    trainer.Trainer._init_kvstore = _setting_up(trainer.Trainer._init_kvstore)
    module.Module.init_optimizer = _optimizing(module.Module.init_optimizer)
    model._train_multi_device = _feeding_forward(model._train_multi_device)
    for name, wrap in (("_create_kvstore", _creating), ("_initialize_kvstore", _initializing)):
        ours = wrap(getattr(model, name))
        for place in (model, module):
            setattr(place, name, ours)
