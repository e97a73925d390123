"""c10d's ways of reducing, for the store or for torch."""
import torch

from tutti.errors import UnsupportedError

#: The store's.
STORES = {"SUM": "sum", "AVG": "average", "MIN": "min", "MAX": "max"}
#: Torch's, for all ranks' tensors as rows: the store does not have them.
TORCHS = {"PRODUCT": torch.mul, "BAND": torch.bitwise_and, "BOR": torch.bitwise_or, "BXOR": torch.bitwise_xor}


def name_of(opts):
    return opts.reduceOp.op.name if opts is not None else "SUM"


def factor_of(opts):
    """By which PREMUL_SUM multiplies."""
    factor = getattr(opts.reduceOp, "factor", None)
    if factor is None:
        raise UnsupportedError("PREMUL_SUM: this version of torch does not tell its factor; multiply the tensor before "
                               "the call, and take ReduceOp.SUM")
    return factor


def reduced(name, rows):
    """What torch makes of all ranks' tensors; in the ranks' order, so that all get the same bits."""
    total = rows[0].clone()
    for row in rows[1:]:
        TORCHS[name](total, row, out=total)
    return total
