"""tutti's errors where MXNet tells them: it has their words alone, and raises them where an array is waited for."""
import mxnet

from tutti import _core
from tutti.errors import CLASSES, Error
from tutti.mxnet.store import KEYS


def _kind(ours):
    """The class that is raised: tutti's, and MXNetError, which scripts catch."""
    return type(ours.__name__, (ours, mxnet.MXNetError), {"__doc__": ours.__doc__, "__module__": __name__})


_KINDS = {code: _kind(ours) for code, ours in CLASSES.items()}


def _told(code, words):
    """The exception for MXNet's words, which begin with the name that it was registered by."""
    failed = _core.mxnet.failure(words)
    text = words.partition(": ")[2]
    if not isinstance(failed, Error):
        return _KINDS[code](text)
    return _KINDS[code](text, key=KEYS.get(failed.key, failed.key), ranks=failed.ranks)


def register_errors():
    for code in CLASSES:
        mxnet.error.register(f"tutti.{code.name}", lambda words, code=code: _told(code, words))
