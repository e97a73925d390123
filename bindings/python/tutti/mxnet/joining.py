"""Lets a rank that has run out of batches wait for the others."""
import numbers

from tutti.errors import InvalidArgumentError, UnsupportedError
from tutti.mxnet.store import Store


def join(*trainers):
    """A rank that has run out of batches calls this. It waits until every rank has called it. Then all have the same
    weights.

    Until then this rank contributes zeros to the sums of the others, which go on and update their weights. At the end
    every
    rank takes three things from the rank that came last: the weights, the states of optimizers (such as momentum and
        numbers
    of updates), and the scale of an AMP loss. Each rank keeps its own statistics of BatchNorm. Returns the rank that
    came last. Without a store over ranks it does nothing.

    trainers: all Trainers that the others may still step, in the same order on every rank. They share one store.
    """
    kv = _store_of(trainers)
    if kv is None:
        return 0
    last = kv.join()
    for trainer in trainers:
        told = kv._store.broadcast_object(_state(trainer) if kv.rank == last else None, last)
        if kv.rank != last:
            _take(trainer, *told)
    return last


def _store_of(trainers):
    if not trainers:
        raise InvalidArgumentError("join: pass at least one Trainer, and all Trainers that the other ranks may still "
                                   "step")
    for trainer in trainers:
        if not trainer._kv_initialized:
            trainer._init_kvstore()
        if trainer._params_to_init:
            trainer._init_params()
    stores = [trainer._kvstore if trainer._distributed else None for trainer in trainers]
    if len({getattr(kv, "_exchange", kv) for kv in stores}) > 1:
        raise InvalidArgumentError("join: these Trainers have several stores, and while this rank waits in one store, "
                                   "the other ranks would wait for it in the next; make one store, kv = "
                                   "mx.kv.create('dist_sync_mpi'), and give every Trainer kvstore=kv")
    if not isinstance(stores[0], (Store, type(None))):
        raise UnsupportedError(f"join: the store {stores[0].type} is one of MXNet's own; create a store of type "
                               "dist_sync_mpi")
    return stores[0]


def _trained(trainer):
    return [parameter for parameter in trainer._params if parameter.grad_req != "null"]


def _state(trainer):
    optimizer = trainer._optimizer
    counts = max(optimizer._all_index_update_counts.values(), key=len)  # equal on all devices that were used
    return ([parameter.list_data()[0].asnumpy() for parameter in _trained(trainer)],
            trainer._updaters[0].get_states(), counts, _numbers(optimizer), _numbers(_loss_scaler(trainer)))


def _loss_scaler(trainer):
    """The loss scaler that `amp.init_trainer` has put into the Trainer."""
    return getattr(trainer, "_amp_loss_scaler", None)


def _numbers(counting):
    """The numbers that an object counts while it is used, such as num_update, or m_schedule of Nadam."""
    return {name: value for name, value in getattr(counting, "__dict__", {}).items()
            if isinstance(value, numbers.Number)}


def _take(trainer, weights, states, counts, of_optimizer, of_scaler):
    for parameter, weight in zip(_trained(trainer), weights):
        parameter.set_data(weight)
    for updater in trainer._updaters:
        updater.set_states(states)
    vars(trainer._optimizer).update(of_optimizer)
    if of_scaler:
        vars(_loss_scaler(trainer)).update(of_scaler)
    for context in trainer._contexts:
        trainer._optimizer._all_index_update_counts[context.device_id] = dict(counts)
