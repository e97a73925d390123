"""The exceptions that tutti raises. The text names the key and the ranks, and says what each rank said and what to do.
"""
import re
from collections.abc import Iterable

from tutti import _core
from tutti._core import ErrorCode


class Error(Exception):
    """The base of all errors of the library. It holds what the error is about as data, so nobody needs to parse its
    text.

    code: the kind of the error, which the subclass tells, too. None for an Error that is of no subclass.
    key: the key that the error is about. None if the error is about no key or about several: a lost rank, for example,
        fails all keys in flight.
    ranks: the ranks that caused the error, in ascending order:
        - the ranks that are lost or have left;
        - TimedOutError: the ranks that did not make their call;
        - MismatchError: the ranks that said something else than the lowest rank;
        - the ranks whose values are refused: this rank with check_finite; other ranks in fingerprint and in the calls
          with objects.
        Empty if no rank caused it, or if the call itself is wrong.
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
    """The call itself is wrong. The store has submitted nothing."""

    code = ErrorCode.invalid_argument


class UnsupportedError(Error, NotImplementedError):
    """This store type or this build does not offer the call. The text says what to use instead."""

    code = ErrorCode.unsupported


class MismatchError(Error):
    """Ranks disagree about a shape, dtype, operation, root, option or version. All ranks get the same error."""

    code = ErrorCode.mismatch


class DuplicateKeyError(Error):
    """The key is already in flight, or stands twice in one call."""

    code = ErrorCode.duplicate_key


class TimedOutError(Error, TimeoutError):
    """Some ranks did not make their call in time. The store lives on."""

    code = ErrorCode.timeout


class PeerLostError(Error):
    """A rank has died or hangs. The store has ended; the process goes on."""

    code = ErrorCode.peer_lost


class AbortedError(Error):
    """The store is closed or is closing, or a rank that the call needs has left."""

    code = ErrorCode.aborted


class InternalError(Error):
    """An invariant is broken, or a call of the system or of MPI has failed.

    The store has ended, unless the help of the method says that it lives on.
    """

    code = ErrorCode.internal


#: The class for each code, which the extension raises.
CLASSES = {kind.code: kind for kind in Error.__subclasses__()}

#: The library's word for a dtype or an option; or a key or value in quotes, which stays as it is.
WORDS = re.compile(r"(?<!\w)'[^']*'|\b(?:bf16|f16|f32|f64|i8|u8|i32|i64|b8|b16|b32|b64|b128)\b|Options::\w+")
DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64", "i8": "int8", "u8": "uint8",
          "i32": "int32", "i64": "int64", **{f"b{bits}": f"of {bits} bits" for bits in (8, 16, 32, 64, 128)}}


def in_words_of_python(text: str) -> str:
    """The text in the words of Python. The library's own texts have the words of C++."""
    return WORDS.sub(lambda found: DTYPES.get(found[0], found[0].removeprefix("Options::")), text)


_core.raise_these(CLASSES, in_words_of_python)
