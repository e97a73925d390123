"""Names for type annotations, and what a store tells about itself."""
import os
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, SupportsFloat, SupportsIndex, TypeAlias

#: An int of Python or numpy, or a str.
Key: TypeAlias = SupportsIndex | str
Keys: TypeAlias = Key | Sequence[Key]
#: A numpy array, or another on the CPU that speaks DLPack. For stores that take them, on a GPU: of torch, of cupy or
#: another that speaks DLPack or CUDA's array interface. Calls follow the stream in which its library works.
Array: TypeAlias = Any
#: One array, or one for each device; with a list of keys one of these for each key.
Values: TypeAlias = Array | Sequence[Array] | Sequence[Sequence[Array]]


Op: TypeAlias = Literal["sum", "average", "min", "max"]
Shape: TypeAlias = SupportsIndex | Sequence[SupportsIndex]
Seconds: TypeAlias = SupportsFloat | SupportsIndex
#: The name of a file.
Path: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]


class Counters(NamedTuple):
    """What a store has done on this rank since create, and what it holds. All only grow, except allocated_bytes.

    tensors_reduced: completed pushes, pushpulls and reduce_scatters, by key.
    bytes_reduced: of their arrays, once for all devices.
    tensors_broadcast, bytes_broadcast: likewise.
    tensors_gathered: completed allgathers, by key; bytes_gathered: of their results.
    batches: batches run; fusion makes them fewer than arrays.
    control_messages: sent to or received from the coordinator; no heartbeats.
    bytes_between_nodes: sent by this rank over MPI, or to parameter servers.
    nodes: nodes of the store.
    buffer_bytes: of the store's buffers on this rank, with its share of the node's shared memory.
    allocated_bytes: of arrays from allocate now, in whole pages; allocated_peak_bytes: the most that ever was.
    """

    tensors_reduced: int
    bytes_reduced: int
    tensors_broadcast: int
    bytes_broadcast: int
    tensors_gathered: int
    bytes_gathered: int
    batches: int
    control_messages: int
    bytes_between_nodes: int
    nodes: int
    buffer_bytes: int
    allocated_bytes: int
    allocated_peak_bytes: int


class Choice(NamedTuple):
    """A size, limit or policy that a store uses.

    origin: "default"; the name of the environment variable that set it; "program": an option of create set it; "job":
    it follows from the number and placement of ranks; "machine": from processors and caches; "always": it is fixed.
    """

    name: str
    value: str
    origin: str
