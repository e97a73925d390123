"""Files for optimizers on servers: what the servers keep, and MXNet's optimizer with its schedule."""
import contextlib
import os
import pickle
import tempfile
import warnings
import zipfile

STATES, OPTIMIZER = "states", "optimizer.pickle"


def write(fname, optimizer, save):
    """`save` writes what the servers keep to the path that it is given. The file is replaced whole or not at all."""
    with tempfile.TemporaryDirectory(prefix=".tutti-", dir=os.path.dirname(os.path.abspath(fname))) as folder:
        states, whole = os.path.join(folder, STATES), os.path.join(folder, "whole")
        save(states)
        with zipfile.ZipFile(whole, "w") as file:
            file.writestr(OPTIMIZER, pickle.dumps(optimizer))
            file.write(states, STATES)
        with open(whole, "rb") as file:
            os.fsync(file.fileno())
        os.replace(whole, fname)


@contextlib.contextmanager
def opened(fname):
    """(path of the servers' states, pickled optimizer or None).

    If the file is not one of `write`, the store says to all workers what is wrong with it, unless it is a file of the
    store.
    """
    with tempfile.TemporaryDirectory() as folder:
        yield _parts(fname, folder)


def _parts(fname, folder):
    if not zipfile.is_zipfile(fname):
        return fname, None
    try:
        with zipfile.ZipFile(fname) as file:
            return file.extract(STATES, folder), file.read(OPTIMIZER)
    except (zipfile.BadZipFile, KeyError, OSError) as error:
        warnings.warn(f"{fname}: {error}")
        return fname, None
