"""What tutti raises. The text names the key, the ranks, what each said and what to do."""
from tutti._core import ErrorCode


class Error(Exception):
    """Every error of the library; `code` tells the kind, as the subclass does."""

    code: ErrorCode


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
