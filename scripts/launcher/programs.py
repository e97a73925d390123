"""Programs that the launcher itself runs, such as ssh."""
import os

from launcher.options import UsageError
from launcher.trust import find


def must_find(name, asks, package):
    path = find(name)
    if path is None:
        raise UsageError(f"{asks} needs {name}, and it is not in PATH: {package}")
    return path


def found_as_by_a_shell(word):
    """The file that a command's first word names, or None: a word with a slash is a path."""
    return os.path.abspath(word) if os.sep in word else find(word)


def check_folder():
    """Workers start in the current folder, which may have been removed meanwhile."""
    try:
        os.getcwd()
    except OSError as error:
        raise UsageError(f"the current folder, in which workers start: {error.strerror}; it was removed or moved, so "
                         "change to one that is there, as by cd") from error


def leave_out_empty_entries(env):
    """A variable that was put together of one that was not set has an empty entry. It stands for the current folder,
    from which every program would load its libraries and modules."""
    for name in ("LD_LIBRARY_PATH", "PYTHONPATH"):
        folders = list(filter(None, env.get(name, "").split(os.pathsep)))
        if folders:
            env[name] = os.pathsep.join(folders)
        else:
            env.pop(name, None)
