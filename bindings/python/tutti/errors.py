"""What tutti raises. The text names the key, the ranks, what each said and what to do."""
import re
from collections.abc import Iterable

from tutti import _core
from tutti._core import ErrorCode


class Error(Exception):
    """Every error of the library, with what it is about as data: nobody needs to parse its text.

    code: the kind, which the subclass tells too; None for an Error that is of none.
    key: of the array that the error is about. None when that is no key or more than one: a lost rank for example fails
        all keys in flight.
    ranks: those that caused it, ascending: that are lost or have left, that did not come (TimedOutError), that said
        something else than the lowest rank (MismatchError), or whose values are refused: this one's by check_finite,
        others' by fingerprint and the calls with objects. Empty when no rank did, or when the call itself is wrong.
    """

    code: ErrorCode | None = None
    key: int | str | None
    ranks: tuple[int, ...]

    def __init__(self, text: str = "", *, key: int | str | None = None, ranks: Iterable[int] = ()):
        super().__init__(text)
        self.key = key
        self.ranks = tuple(ranks)

    def __repr__(self) -> str:
        about = [f"key={self.key!r}"] * (self.key is not None) + [f"ranks={self.ranks}"] * bool(self.ranks)
        return f"{type(self).__name__}({', '.join([repr(str(self)), *about])})"


class InvalidArgumentError(Error, ValueError):
    """The call itself is wrong; nothing was submitted."""

    code = ErrorCode.invalid_argument


class UnsupportedError(Error, NotImplementedError):
    """This store type or build does not offer it; the text says what does."""

    code = ErrorCode.unsupported


class MismatchError(Error):
    """Ranks disagree (shape, dtype, operation, root, options, version); the same on all ranks."""

    code = ErrorCode.mismatch


class DuplicateKeyError(Error):
    """The key is in flight already, or stands twice in one call."""

    code = ErrorCode.duplicate_key


class TimedOutError(Error, TimeoutError):
    """Some ranks never submitted the key; the store lives on."""

    code = ErrorCode.timeout


class PeerLostError(Error):
    """A rank died or hangs. The store is dead, the process is not."""

    code = ErrorCode.peer_lost


class AbortedError(Error):
    """The store is closed or being closed, or a rank that is needed has left."""

    code = ErrorCode.aborted


class InternalError(Error):
    """A broken invariant, or a failed system or MPI call. The store is dead."""

    code = ErrorCode.internal


#: The class for each code, which the extension raises.
CLASSES = {kind.code: kind for kind in Error.__subclasses__()}

#: The library's word for a dtype or an option; or a key or value in quotes, which stays as it is.
WORDS = re.compile(r"(?<!\w)'[^']*'|\b(?:bf16|f16|f32|f64|i8|u8|i32|i64|b8|b16|b32|b64|b128)\b|Options::\w+")
DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64", "i8": "int8", "u8": "uint8",
          "i32": "int32", "i64": "int64", **{f"b{bits}": f"of {bits} bits" for bits in (8, 16, 32, 64, 128)}}


def in_words_of_python(text: str) -> str:
    """What the library says, which speaks C++."""
    return WORDS.sub(lambda found: DTYPES.get(found[0], found[0].removeprefix("Options::")), text)


_core.raise_these(CLASSES, in_words_of_python)
