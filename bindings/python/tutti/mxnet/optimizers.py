"""MXNet's optimizers as the servers know them: a rule by name, its parameters as numbers, and factors of single keys.

Servers run no code of a program's.
"""
from mxnet import optimizer as mx

from tutti.errors import UnsupportedError

#: The rule and, of its own parameters, {ours: MXNet's}.
ADAM = {"beta1": "beta1", "beta2": "beta2", "epsilon": "epsilon"}
RULES = {
    mx.SGD: ("sgd", {"momentum": "momentum"}),
    mx.ccSGD: ("sgd", {"momentum": "momentum"}),
    mx.NAG: ("nag", {"momentum": "momentum"}),
    mx.Adam: ("adam", ADAM),
    mx.AdaGrad: ("adagrad", {"epsilon": "float_stable_eps"}),
    mx.RMSProp: ("rmsprop", {name: name for name in ("gamma1", "gamma2", "epsilon", "centered", "clip_weights")}),
    mx.LAMB: ("lamb", {**ADAM, "bias_correction": "bias_correction", "lower_bound": "lower_bound",
                       "upper_bound": "upper_bound"}),
}
#: The parameters that all of them have.
COMMON = {name: name for name in ("learning_rate", "wd", "rescale_grad", "clip_gradient", "multi_precision")}
#: A key's factors that change nothing.
NEUTRAL = 1.0, 1.0


def check(optimizer, store_type):
    """An optimizer that is a subclass of a known one may update otherwise, so it is not known."""
    if type(optimizer) not in RULES:
        known = sorted({kind.__name__ for kind in RULES})
        raise UnsupportedError(
            f"optimizer {type(optimizer).__name__} is not known to the servers of {store_type} (known: "
            f"{', '.join(known)}); update the weights on the workers: with a Trainer update_on_kvstore=False, with a "
            "Module the environment variable MXNET_UPDATE_ON_KVSTORE=0")
    if optimizer.begin_num_update and RULES[type(optimizer)][0] in ("adam", "lamb"):
        raise UnsupportedError(f"begin_num_update={optimizer.begin_num_update}: on servers {type(optimizer).__name__} "
                               "counts its updates from 0, or from the states that load_optimizer_states loads; "
                               "leave begin_num_update out")


def check_rows(optimizer, key):
    """Servers update all rows of a value. MXNet's own rule may leave out the rows that a row_sparse gradient does not
    have."""
    lazy = getattr(optimizer, "lazy_update", isinstance(optimizer, mx.AdaGrad))
    if lazy and (isinstance(optimizer, mx.Adam) or getattr(optimizer, "momentum", 0) or optimizer.wd):
        instead = "wd=0" if isinstance(optimizer, mx.AdaGrad) else "lazy_update=False"
        raise UnsupportedError(f"key {key!r}: {type(optimizer).__name__} does not update rows that this row_sparse "
                               f"gradient lacks, but the servers would; give the optimizer {instead}")


def of_key(optimizer, key):
    """The factors of a key's learning rate and weight decay, which MXNet calls multipliers."""
    if key in optimizer.param_dict:
        parameter = optimizer.param_dict[key]
        return float(parameter.lr_mult), float(parameter.wd_mult)
    name = optimizer.idx2name.get(key, key)
    return tuple(float(mult.get(key, mult.get(name, 1.0))) for mult in (optimizer.lr_mult, optimizer.wd_mult))


def factors(optimizer):
    """The factors of the keys whose factors are not 1."""
    keys = {*optimizer.param_dict, *optimizer.idx2name, *optimizer.idx2name.values(), *optimizer.lr_mult,
            *optimizer.wd_mult}
    return {key: found for key in keys if (found := of_key(optimizer, key)) != NEUTRAL}


def rule(optimizer):
    """(its name, {parameter: number}) as they are now."""
    name, own = RULES[type(optimizer)]
    values = {ours: getattr(optimizer, theirs) for ours, theirs in {**COMMON, **own}.items()}
    return name, {ours: float(value or 0) for ours, value in values.items()}


def setting(optimizer):
    """(the rule's name, {parameter: number}, {key: factors}) as they are now."""
    return *rule(optimizer), factors(optimizer)


def is_as(optimizer, sent, key):
    """Whether an update of this key would still be as the setting says. Looks at no other key, for there are many."""
    return sent is not None and rule(optimizer) == sent[:2] and of_key(optimizer, key) == sent[2].get(key, NEUTRAL)
