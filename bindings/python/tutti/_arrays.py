"""Why an array cannot be used in place, and what to do about it."""
import sys

import numpy as np

from tutti.errors import InvalidArgumentError

DTYPES = ("bfloat16", "float16", "float32", "float64", "int8", "uint8", "int32", "int64")


def library_of(thing):
    return type(thing).__module__.partition(".")[0]


def dtype_name(dtype):
    """Of what numpy takes for a dtype, of torch's, or of "bfloat16", which numpy itself lacks."""
    if library_of(dtype) == "torch":
        return str(dtype).removeprefix("torch.")
    return "bfloat16" if str(dtype) == "bfloat16" else np.dtype(dtype).name


def of_torch(tensor):
    """Why torch's tensor is refused."""
    what = f"a tensor of shape {tuple(tensor.shape)} and dtype {tensor.dtype}"
    if tensor.device.type != "cpu":
        return f"{what} is on {tensor.device}, and tutti works on the CPU; pass tensor.cpu(), and copy a result back"
    if dtype_name(tensor.dtype) not in DTYPES:
        return f"{what} has no counterpart in tutti, whose dtypes are {', '.join(DTYPES)}; convert it: tensor.float()"
    if str(tensor.layout) != "torch.strided":
        return f"{what} is sparse, and tutti's are dense; pass tensor.to_dense()"
    if not tensor.is_contiguous():
        return (f"{what} and strides {tensor.stride()} is not contiguous, and tutti works in place; pass "
                "tensor.contiguous(), and copy a result back: tensor.copy_(result)")
    return f"{what} cannot be used in place; pass tensor.clone(), and copy a result back: tensor.copy_(result)"


def is_traced(array):
    return isinstance(array, sys.modules["jax"].core.Tracer)


def why_refused(array, written):
    """The exception for an array that the extension could not read, or not write where `written`."""
    kind = library_of(array)
    if getattr(array, "requires_grad", False) is True:
        return InvalidArgumentError(f"this {type(array).__name__} requires grad, and autograd would not see what is "
                                    "done to it; pass tensor.detach(), which shares its memory, or tensor.grad")
    if kind == "torch":
        return InvalidArgumentError(of_torch(array))
    if kind == "jax" and is_traced(array):
        return InvalidArgumentError("inside jax.jit and jax.grad there are no values yet; call tutti outside of them, "
                                    "on what they return")
    if kind in ("jax", "jaxlib") and written:
        return InvalidArgumentError("arrays of jax never change, and the result would be written to this one; pass "
                                    "outs=numpy.empty_like(array), and make it a jax array: jax.numpy.asarray(outs)")
    if not hasattr(array, "__array_interface__"):
        if hasattr(array, "__dlpack__"):
            return InvalidArgumentError(
                f"this {type(array).__name__} cannot be used in place: it must be on the CPU, C-contiguous, "
                f"writable, and of dtype {', '.join(DTYPES)}")
        return TypeError("a value is a numpy array, or another array that speaks DLPack, not "
                         f"{type(array).__name__}; numpy.asarray makes an array of numbers and lists")
    what = f"an array of shape {array.shape} and dtype {array.dtype}"
    if array.dtype.hasobject:
        return InvalidArgumentError(f"{what} holds Python objects, which cannot be exchanged as numbers; give it a "
                                    "dtype of numbers: array.astype('float32')")
    if not array.dtype.isnative:
        return InvalidArgumentError(f"{what} is not in this machine's byte order; convert it: "
                                    "array.astype(array.dtype.newbyteorder('='))")
    if array.dtype.name not in DTYPES:
        return InvalidArgumentError(f"{what} has no counterpart in tutti, whose dtypes are {', '.join(DTYPES)}; "
                                    "convert it: array.astype('float32')")
    if not array.flags.c_contiguous:
        return InvalidArgumentError(f"{what} and strides {array.strides} is not C-contiguous, and tutti works in "
                                    "place; pass numpy.ascontiguousarray(array), and copy a result back")
    if written and not array.flags.writeable:
        return InvalidArgumentError(f"{what} is read-only, and the result would be written to it; pass array.copy(), "
                                    "or another array for the result")
    return InvalidArgumentError(f"{what} cannot be used in place; pass array.copy()")
