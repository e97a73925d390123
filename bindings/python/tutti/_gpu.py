"""Finds arrays of other libraries on a GPU: their memory, and the stream in which their library works."""
import sys

from tutti.errors import InvalidArgumentError

#: CUDA's legacy default stream, by the number that CUDA and DLPack give it.
LEGACY = 1


def place(array):
    """The GPU's number, and the handle of the stream that holds the work of the array's library so far."""
    if is_a(array, "torch", "Tensor"):
        return array.device.index, sys.modules["torch"].cuda.current_stream(array.device).cuda_stream
    if is_a(array, "cupy", "ndarray"):
        with array.device:
            return array.device.id, sys.modules["cupy"].cuda.get_current_stream().ptr
    if hasattr(array, "__dlpack__"):
        return array.__dlpack_device__()[1], LEGACY
    return 0, array.__cuda_array_interface__.get("stream") or LEGACY


def capsule(array):
    """DLPack's capsule, without a wait of this thread. None if the library has none.

    -1 asks torch and cupy to order nothing: `place` knows their stream. Any other library makes the legacy stream
    follow its work. Its work may be in streams of its own, for which the legacy stream does not wait otherwise.
    """
    if not hasattr(array, "__dlpack__"):
        return None
    is_known = is_a(array, "torch", "Tensor") or is_a(array, "cupy", "ndarray")
    return array.__dlpack__(stream=-1 if is_known else LEGACY)


def is_a(array, library, kind):
    """Whether the array is of that class of a library. Does not import the library for the question."""
    module = sys.modules.get(library)
    return module is not None and isinstance(array, getattr(module, kind))


def interface(array, written):
    """The address, shape and dtype of an array that only supports CUDA's array interface."""
    found = array.__cuda_array_interface__
    kind, (address, read_only) = found["typestr"], found["data"]
    what = f"this {type(array).__name__} of shape {found['shape']} and type {kind!r}"
    if found.get("mask") is not None:
        raise InvalidArgumentError(f"{what} is masked; pass an array without a mask")
    if read_only and written:
        raise InvalidArgumentError(f"{what} is read-only, but tutti would write the result to it; pass a copy, and "
                                   "keep the copy")
    strides, item = found.get("strides"), int(kind[2:])
    if strides is not None and tuple(strides) != contiguous(found["shape"], item):
        raise InvalidArgumentError(f"{what} and strides {strides} is not C-contiguous, but tutti works in place; pass "
                                   "a contiguous copy, and copy the result back")
    names = {"f": "float", "i": "int", "u": "uint"}
    if kind[0] == ">" or kind[1] not in names:
        raise InvalidArgumentError(f"{what} has no counterpart in tutti")
    return address, list(found["shape"]), f"{names[kind[1]]}{8 * item}"


def contiguous(shape, item):
    """The strides of a C-contiguous array."""
    strides = []
    for dim in reversed(shape):
        strides.insert(0, item)
        item *= dim
    return tuple(strides)


def handle(stream):
    """The handle of a stream: an int, or a stream of torch, of cupy, or of a library with __cuda_stream__."""
    if hasattr(stream, "__cuda_stream__"):
        return stream.__cuda_stream__()[1]
    for name in ("cuda_stream", "ptr"):
        if hasattr(stream, name):
            return getattr(stream, name)
    if hasattr(stream, "__index__"):
        return stream.__index__()
    raise TypeError("a stream is torch's, cupy's, another with __cuda_stream__, or its handle as an int, not "
                    f"{type(stream).__name__}")
