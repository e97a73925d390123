"""This module lists the labs. Each has a file here, which is locked by the process that makes or removes the lab; a lab
whose file nobody locks is removed, unless the file says that it is kept.

    registry.py FILE    waits until nobody locks the file, and removes the lab unless it is kept
"""
import contextlib
import dataclasses
import fcntl
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from hosts import Lab, Refused

FOLDER = pathlib.Path("/run/tutti-lab")
# Any other command locks the file for a moment, to see whether it has an owner.
PATIENCE_SECONDS = 5


def path_of(name):
    return FOLDER / f"{name}.json"


def hostfile_of(lab):
    """Writes a host file in Open MPI's format, for programs that want one."""
    return FOLDER / f"{lab.name}.hosts"


def write(file, lab, kept):
    """Writes the file in one piece. Both contents have the same length, so a reader sees one or the other."""
    os.pwrite(file, json.dumps({"kept": int(kept), **dataclasses.asdict(lab)}).encode(), 0)


def read(path):
    """(the lab, whether it is kept); nothing if the file is gone."""
    try:
        state = json.loads(path.read_text())
    except FileNotFoundError:
        return None
    kept = bool(state.pop("kept"))
    return Lab(**{**state, "ranks": tuple(state["ranks"])}), kept


def erase(lab):
    lab.remove()
    hostfile_of(lab).unlink(missing_ok=True)
    path_of(lab.name).unlink(missing_ok=True)


def settle(path, wait, kept_too=False):
    """Removes the lab of a file that nobody locks, unless it is kept. If the file is locked, leaves it, or waits for
    the lock to end. Returns whether nobody locked it."""
    try:
        file = path.open()
    except FileNotFoundError:
        return True
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            return False
        # Someone else may have been faster.
        if os.fstat(file.fileno()).st_nlink > 0:
            lab, kept = read(path)
            if kept_too or not kept:
                erase(lab)
    return True


def sweep():
    """Removes what killed processes have left."""
    for path in FOLDER.glob("*.json"):
        settle(path, wait=False)


def claim(lab):
    """A descriptor of the lab's file, locked."""
    path = path_of(lab.name)
    if not path.exists():
        lab.check_names_are_free()
    FOLDER.mkdir(exist_ok=True)
    # The file appears with its content and locked, because a file without an owner would be removed.
    with tempfile.NamedTemporaryFile(dir=FOLDER) as draft:
        fcntl.flock(draft, fcntl.LOCK_EX)
        write(draft.fileno(), lab, kept=False)
        try:
            os.link(draft.name, path)
        except FileExistsError:
            raise Refused(f"there is a lab '{lab.name}' already; `scripts/lab down --name {lab.name}` "
                          "removes it") from None
        return os.dup(draft.fileno())


@contextlib.contextmanager
def made(lab, kept=False):
    """The lab, while the block runs or, if it is to be kept, until it is taken down. However this process
    ends before that, the lab is removed by a child that waits for it."""
    sweep()
    file = claim(lab)
    watcher = subprocess.Popen([sys.executable, __file__, path_of(lab.name)], stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, start_new_session=True)
    try:
        lab.create()
        slots = (f"{host} slots={count}\n" for host, count in zip(lab.names, lab.ranks))
        hostfile_of(lab).write_text("".join(slots))
        yield lab
        if kept:
            write(file, lab, kept=True)
    finally:
        os.close(file)
        watcher.wait()


def take_down(name):
    find(name)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not settle(path_of(name), wait=False, kept_too=True):
        if time.monotonic() > deadline:
            raise Refused(f"lab '{name}' is being made or removed by another process; tried for {PATIENCE_SECONDS} s")
        time.sleep(0.02)


def kept_labs():
    """The labs that are up, by name."""
    sweep()
    states = filter(None, map(read, sorted(FOLDER.glob("*.json"))))
    return {lab.name: lab for lab, kept in states if kept}


def find(name):
    labs = kept_labs()
    if name not in labs:
        there = f" (there are: {', '.join(labs)})" if labs else ""
        raise Refused(f"no lab '{name}' is up{there}; `scripts/lab up N --name {name}` makes it")
    return labs[name]


if __name__ == "__main__":
    settle(pathlib.Path(sys.argv[1]), wait=True)
