"""Names for type annotations, and the tuples in which a store describes itself."""
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
    """Counts what a store has done on this rank since create, and the memory that it holds.

    Values never decrease, except for allocated_bytes.

    tensors_reduced: completed pushes, pushpulls and reduce_scatters. A call with several keys counts once a key.
    bytes_reduced: bytes of their arrays. A key counts once, however many devices it has.
    tensors_broadcast, bytes_broadcast: the same for broadcasts.
    tensors_gathered: completed allgathers and all_to_alls, by key.
    bytes_gathered: for an allgather, the bytes of its result; for an all_to_all, what the busiest rank sends or
        receives.
    batches: batches that the store has run. Fusion makes them fewer than arrays.
    control_messages: messages sent to and received from the coordinator, without heartbeats.
    bytes_between_nodes: bytes that this rank has sent over MPI or to parameter servers.
    nodes: the number of the store's nodes.
    buffer_bytes: bytes of the store's buffers on this rank, with its share of the node's shared memory.
    allocated_bytes: bytes of the arrays from allocate that exist now, in whole pages.
    allocated_peak_bytes: the most that allocated_bytes ever was.
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

    origin: where the value comes from:
        - the name of an environment variable: this variable set it;
        - "program": an option of create set it;
        - "job": it follows from the number and placement of the ranks;
        - "machine": it follows from the machine's processors and caches;
        - "always": the library fixes it;
        - "default": nothing has set it.
    """

    name: str
    value: str
    origin: str
