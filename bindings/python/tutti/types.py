"""Names for type annotations."""
from collections.abc import Sequence
from typing import Any, TypeAlias

Key: TypeAlias = int | str
Keys: TypeAlias = Key | Sequence[Key]
#: A numpy array, or another on the CPU that speaks DLPack.
Array: TypeAlias = Any
#: One array, or one for each device; with a list of keys one of these for each key.
Values: TypeAlias = Array | Sequence[Array] | Sequence[Sequence[Array]]
