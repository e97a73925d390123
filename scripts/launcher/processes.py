"""Processes below this one: none outlives it, and none is left behind. A part of what runs on other hosts."""
import ctypes
import os
import signal

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
# Users and batch systems ask a process to end by these signals.
ENDING = signal.SIGTERM, signal.SIGINT, signal.SIGHUP
# They announce something by these, such as that a job's time is nearly up. Each ends a process that has no handler.
ANNOUNCING = (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM, signal.SIGVTALRM, signal.SIGPROF, signal.SIGXCPU,
              signal.SIGPWR)
prctl = ctypes.CDLL(None, use_errno=True).prctl


def adopt_orphans():
    """Makes processes below this one its children when they lose their parent. Otherwise they would become children of
    init.
    """
    prctl(PR_SET_CHILD_SUBREAPER, 1)


def dies_with_parent(number, ignored=()):
    """To call in a child before exec: it gets this signal when this process dies, however it dies. The program that it
    becomes ignores the others."""
    mine = os.getpid()

    def prepare():
        prctl(PR_SET_PDEATHSIG, number)
        if os.getppid() != mine:
            os._exit(128 + number)
        for each in ignored:
            signal.signal(each, signal.SIG_IGN)

    return prepare


def children():
    """{process id: process ids of its children}."""
    found = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                parent = int(file.read().rpartition(b")")[2].split()[1])
        except OSError:
            continue
        found.setdefault(parent, []).append(int(name))
    return found


def descendants():
    """Process ids of all that live below this process."""
    below_each = children()
    found, todo = [], [os.getpid()]
    while todo:
        below = below_each.get(todo.pop(), [])
        found += below
        todo += below
    return found


def running_below():
    """{process id: name} of those that have not ended."""
    found = {}
    for pid in descendants():
        try:
            with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
                head, _, rest = file.read().rpartition(")")
        except OSError:
            continue
        if not rest.startswith(" Z"):
            found[pid] = head.partition("(")[2]
    return found


def lives_below(name):
    """Whether a process of this name does, which has not ended."""
    return name in running_below().values()


def signal_all(number, pids=None):
    """Sends the signal to these processes, or to all below, to which it may. It may not send to those of another user,
    such as of a command with sudo.

    Returns the ids of those that it reached.
    """
    reached = set()
    for pid in descendants() if pids is None else pids:
        try:
            os.kill(pid, number)
            reached.add(pid)
        except (ProcessLookupError, PermissionError):
            pass
    return reached


def end_all():
    """Kills and reaps until nothing lives below, adopted orphans included, that this user may end."""
    while signal_all(signal.SIGKILL):
        os.waitpid(-1, 0)
