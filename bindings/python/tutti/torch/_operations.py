"""The reduce operations of c10d: the store computes some of them, and torch computes the others."""
import torch
from torch._C import _distributed_c10d as c10d

from tutti.errors import UnsupportedError

#: The operations that the store computes, by c10d's names.
STORES = {"SUM": "sum", "AVG": "average", "MIN": "min", "MAX": "max"}
#: The operations that the store lacks. Each rank gathers all tensors, and torch computes the result.
TORCHS = {"PRODUCT": torch.mul, "BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}


#: pybind11 looks through all names when it is asked for one.
NAMES = {operation.value: name for name, operation in c10d.ReduceOp.RedOpType.__members__.items()}


def name_of(opts):
    return NAMES[opts.reduceOp.op.value] if opts is not None else "SUM"


def factor_of(opts):
    """The factor of PREMUL_SUM."""
    factor = getattr(opts.reduceOp, "factor", None)
    if factor is None:
        raise UnsupportedError("PREMUL_SUM: this version of torch does not tell its factor; multiply the tensor before "
                               "the call, and take ReduceOp.SUM")
    return factor


def reduced(name, rows):
    """Reduces the rows in the order of the ranks, so that all ranks get the same bits."""
    total = rows[0].clone()
    for row in rows[1:]:
        TORCHS[name](total, row, out=total)
    return total
