"""Prepares a process before its command can start: its number, its group, the scheduler's port.

A part of the program that runs on other hosts.
"""
import os
import socket

from launcher.contact import family_of
from launcher.trust import find


class CannotBegin(Exception):
    """The command is not started; the text says why."""


def problem_text(error):
    """The text of an error, without its number."""
    if getattr(error, "strerror", None) is None:
        return str(error)
    return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror


def listen_for_scheduler(address, variables):
    """The socket that the scheduler takes over: at no time can another user's process listen in its place."""
    wanted = variables.get("DMLC_PS_ROOT_PORT") or "0"
    if not (wanted.isascii() and wanted.isdigit() and int(wanted) < 1 << 16):
        raise CannotBegin(f"environment variable DMLC_PS_ROOT_PORT={wanted!a} is not usable; it takes a whole number "
                          "from 1 to 65535")
    try:
        return socket.create_server((address, int(wanted)), family=family_of(address), backlog=socket.SOMAXCONN)
    except OSError as error:
        raise CannotBegin(f"the scheduler cannot listen at {address}, DMLC_PS_ROOT_PORT={wanted}: "
                          f"{os.strerror(error.errno)}; choose another port, or make the port free") from error


def surroundings(command):
    """Where programs and modules are looked for here; of a command of Python, the Python that it is."""
    names = [word for word in command[:1] if "python" in word] or ["python3", "python"] if command else []
    pythons = [f"{name} is {find(name) or 'not in PATH'}" for name in names]
    variables = ("PATH", "PYTHONPATH") if command else ("PATH",)
    paths = [f"{name} there is {os.environ.get(name, 'not set')}" for name in variables]
    return f"on {os.uname().nodename} " + ", ".join(pythons + paths)


def place_of(program):
    """Where a program that cannot be started was looked for here."""
    return f"the command starts in {os.getcwd()} on {os.uname().nodename}" if "/" in program else surroundings([])


def part_of(groups, number):
    """The group of equal processes that this number is in, and its number there."""
    for group in groups:
        if number < group["count"]:
            return group, number
        number -= group["count"]
    raise CannotBegin(f"this process has a number too many: the job has {sum(group['count'] for group in groups)} "
                      "processes")


def index_of(told):
    """This process's number: told, or counted by what started it."""
    if "number" in told:
        return told["number"]
    variable, first = told["index"]
    if not os.environ.get(variable, "").isdecimal():
        raise CannotBegin(f"{variable} has no number for this process; the program that starts the processes should "
                          "set the variable")
    return int(os.environ[variable]) - first


def node_name():
    """Equal for processes of one host, whatever its name is: one boot, one network."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            boot = file.read().strip()
        return f"{boot} {os.stat('/proc/self/ns/net').st_ino}"
    except OSError:
        return os.uname().nodename
