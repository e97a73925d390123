"""Says why an array cannot be used in place, and what to do about it. Reads shapes and dtypes as users give them."""
import operator
import sys

import numpy as np

from tutti.errors import InvalidArgumentError, UnsupportedError

#: The dtypes that are added up. Calls that only move elements take others of 1 to 16 bytes, too.
DTYPES = ("bfloat16", "float16", "float32", "float64", "int8", "uint8", "int32", "int64")
#: For each dtype of numbers that tutti does not have, a dtype that holds all its values, or nearly all.
INSTEAD = {"bool": "uint8", "int16": "int32", "uint16": "int32", "uint32": "int64", "uint64": "int64",
           "float128": "float64"}
#: The advice for each of numpy's kinds of arrays that tutti does not take.
ADVICE = {"c": "pass array.view(array.real.dtype), which shares its memory: real and imaginary parts side by side",
          "S": "broadcast_object and allgather_object of the store exchange text",
          "U": "broadcast_object and allgather_object of the store exchange text",
          "O": "broadcast_object and allgather_object of the store exchange objects",
          "M": "pass array.view('int64'), which shares its memory",
          "m": "pass array.view('int64'), which shares its memory"}

#: Each error that advises to pass a copy ends with this, because the store writes the result only into the copy.
COPY_BACK = "and copy the result back: array[...] = result"


def is_torch(thing):
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(thing, torch.Tensor)


def pinned(tensor):
    """An object that keeps the memory of torch's tensor alive. It is detached, so it keeps that memory even if set_
    gives the tensor another. numpy has seen it, so from then on torch does not resize the memory.
    """
    torch, tensor = sys.modules["torch"], tensor.detach()
    if tensor.dtype is torch.bfloat16:
        tensor = tensor.view(torch.int16)
    try:
        return tensor.numpy()
    except (RuntimeError, TypeError):  # this torch has no numpy, or not this one, or numpy has no such dtype
        return tensor


def memory_of(tensor, written):
    """(address, shape, bytes of an element) of torch's tensor on the CPU, for calls that only move its elements."""
    is_dense = str(tensor.layout) == "torch.strided" and tensor.is_contiguous()
    if tensor.device.type != "cpu" or not is_dense or tensor.is_conj() or tensor.is_neg():
        raise why_refused(tensor, written, True)
    return tensor.data_ptr(), list(tensor.shape), tensor.element_size()


def is_masked(array):
    """Whether it is a masked array. The extension asks the same of arrays of numpy's subclasses."""
    return isinstance(array, np.ndarray) and hasattr(array, "mask")


def is_traced(array):
    return isinstance(array, sys.modules["jax"].core.Tracer)


def library_of(thing):
    return type(thing).__module__.partition(".")[0]


def dtype_name(dtype):
    """The name of a dtype of numpy or torch, or of "bfloat16", which numpy itself lacks."""
    if library_of(dtype) == "torch":
        return str(dtype).removeprefix("torch.")
    return "bfloat16" if str(dtype) == "bfloat16" else np.dtype(dtype).name


def allocatable(dtype):
    """The name of a dtype for allocate."""
    name = dtype_name(dtype)
    if library_of(dtype) != "torch" and name != "bfloat16" and not np.dtype(dtype).isnative:
        raise InvalidArgumentError(f"allocate: dtype {dtype!r} has another byte order than this machine; take {name!r}")
    if name not in DTYPES:
        raise InvalidArgumentError(f"allocate: tutti does not have dtype {name}; it has {', '.join(DTYPES)}")
    return name


def numpy_dtype(name):
    """numpy's dtype of this name. bfloat16 comes from a package of its own."""
    if name != "bfloat16":
        return np.dtype(name)
    try:
        import ml_dtypes  # pylint: disable=import-outside-toplevel  # where it is asked for
    except ImportError as error:
        raise UnsupportedError("numpy has no bfloat16 of its own; install the package that adds it: pip install "
                               "ml_dtypes") from error
    return np.dtype(ml_dtypes.bfloat16)


def dims_of(shape):
    """The dimensions as a list of ints."""
    is_one = hasattr(shape, "__index__") and not np.ndim(shape)
    try:
        dims = [operator.index(dim) for dim in ([shape] if is_one else shape)]
    except TypeError:
        dims = None
    if dims is None or isinstance(shape, (str, bytes)):
        raise TypeError(f"a shape is an int or a sequence of ints, not {shape!r}")
    for dim in dims:
        if not 0 <= dim < 1 << 63:
            raise InvalidArgumentError(f"allocate: shape {shape!r} has a dimension of {dim}; it takes 0 to 2**63 - 1")
    return dims


def torchs_advice(tensor):
    if tensor.dtype.is_complex:
        return ("torch.view_as_real(tensor), which shares its memory (where tensor.is_conj() that of "
                "tensor.resolve_conj())")
    kind = INSTEAD.get(dtype_name(tensor.dtype))
    converted = f"tensor.to(torch.{kind})" if kind else "tensor.float()"
    return f"{converted}, and copy the result back: tensor.copy_(result)"


ONLY_MOVED = "broadcast, allgather and all_to_all take it as it is"


def not_added(what, advice):
    """The reason why an array of another dtype is refused if its elements would be added."""
    return f"{what} cannot be added up, as {', '.join(DTYPES)} can; {advice}. {ONLY_MOVED}"


def of_torch(tensor, moved):
    """The reason why torch's tensor is refused."""
    what = f"a tensor of shape {tuple(tensor.shape)} and dtype {tensor.dtype}"
    if tensor.device.type not in ("cpu", "cuda"):
        return (f"{what} is on {tensor.device}, and tutti works on the CPU and on CUDA's GPUs; pass tensor.cpu(), and "
                "copy a result back: tensor.copy_(result)")
    if dtype_name(tensor.dtype) not in DTYPES and not moved:
        return not_added(what, f"convert it: {torchs_advice(tensor)}")
    if tensor.is_conj():
        return (f"{what} is the conjugate of what its memory holds; pass tensor.resolve_conj(), and copy a result "
                "back: tensor.copy_(result)")
    if str(tensor.layout) != "torch.strided":
        return (f"{what} is sparse, and tutti's are dense; pass tensor.to_dense(), and copy a result back: "
                "tensor.copy_(result)")
    if tensor.is_neg():
        return (f"{what} is the negative of what its memory holds, such as the imaginary part of a conjugate; pass "
                "tensor.resolve_neg(), and copy a result back: tensor.copy_(result)")
    if not tensor.is_contiguous():
        return (f"{what} and strides {tensor.stride()} is not contiguous, and tutti works in place; pass "
                "tensor.contiguous(), and copy a result back: tensor.copy_(result)")
    return f"{what} cannot be used in place; pass tensor.clone(), and copy a result back: tensor.copy_(result)"


def numpys_advice(dtype):
    if dtype.names:
        return "exchange its fields, each as an array of its own: array['name'].copy(), and copy the result back"
    if dtype.type is np.void:
        return "pass array.view('uint8'), which shares its memory"
    return ADVICE.get(dtype.kind) or f"convert it: array.astype({INSTEAD.get(dtype.name, 'float32')!r}), {COPY_BACK}"


def is_movable(dtype):
    """Whether arrays of this dtype of numpy can be moved. The extension asks the same."""
    return (dtype.kind in "biufcmM" or dtype.kind == "V" and dtype.type is not np.void) and \
        dtype.itemsize in (1, 2, 4, 8, 16)


def of_numpy(array, written, moved):
    """The reason why numpy's array is refused."""
    what = f"an array of shape {array.shape} and dtype {array.dtype}"
    if is_masked(array):
        return (f"{what} is masked, and what is masked would be exchanged as if it were there; pass array.filled(0), "
                f"{COPY_BACK}; or array.data, which shares its memory, where nothing is masked")
    if array.dtype.hasobject and not array.dtype.names:
        return f"{what} holds Python objects, which cannot be exchanged as numbers; {ADVICE['O']}"
    if not array.dtype.isnative:
        return (f"{what} is not in this machine's byte order; convert it: array.astype(array.dtype.newbyteorder('=')), "
                f"{COPY_BACK}")
    if array.dtype.name not in DTYPES and not is_movable(array.dtype):
        return f"{what} has no counterpart in tutti, whose dtypes are {', '.join(DTYPES)}; {numpys_advice(array.dtype)}"
    if array.dtype.name not in DTYPES and not moved:
        return not_added(what, numpys_advice(array.dtype))
    if not array.flags.c_contiguous:
        return (f"{what} and strides {array.strides} is not C-contiguous, and tutti works in place; pass "
                f"numpy.ascontiguousarray(array), {COPY_BACK}")
    if written and not array.flags.writeable:
        return (f"{what} is read-only, and the result would be written to it; pass another array for the result, or a "
                "copy that you keep: result = array.copy()")
    return f"{what} cannot be used in place; pass array.copy(), {COPY_BACK}"


def of_jax(array, written):
    """The reason why jax's array is refused. It is None if jax is not the reason."""
    if library_of(array) == "jax" and is_traced(array):
        return ("inside jax.jit and jax.grad there are no values yet; call tutti outside of them, on what they return")
    if written:
        return ("arrays of jax never change, and the result would be written to this one; pass "
                "numpy.empty_like(array) for it, and make that a jax array: jax.numpy.asarray(outs). Without outs, "
                "pushpull does so itself: kv.pushpull(key, array).result()")
    return None


def why_refused(array, written, moved):
    """The exception for an array that the extension could not read, or, with `written`, could not write.

    moved: the call only moves the elements.
    """
    if isinstance(array, type) or not (isinstance(array, np.ndarray) or hasattr(array, "__dlpack__")):
        name = f"the class {array.__name__}" if isinstance(array, type) else type(array).__name__
        return TypeError("a value is a numpy array, or another array that speaks DLPack, not "
                         f"{name}; numpy.asarray makes an array of numbers and lists")
    if getattr(array, "requires_grad", False) is True:
        return InvalidArgumentError(f"this {type(array).__name__} requires grad, and autograd would not see what is "
                                    "done to it; pass tensor.detach(), which shares its memory, or tensor.grad")
    if is_torch(array):
        return InvalidArgumentError(of_torch(array, moved))
    if isinstance(array, (np.ndarray, np.generic)):
        return InvalidArgumentError(of_numpy(array, written, moved))
    reason = of_jax(array, written) if library_of(array) in ("jax", "jaxlib") else None
    return InvalidArgumentError(
        reason or f"this {type(array).__name__} cannot be used in place: it must be on the CPU or a GPU, C-contiguous, "
        f"writable, and of dtype {', '.join(DTYPES)}")
