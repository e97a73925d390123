#!/usr/bin/env python3
"""Runs a command for which the kernel refuses some system calls, as a container's seccomp filter does.

    forbidding.py memfd_create,pidfd_open COMMAND ...
"""
import ctypes
import errno
import os
import platform
import struct
import sys

#: By machine: the calls' numbers.
NUMBERS = {"x86_64": {"memfd_create": 319, "pidfd_open": 434}, "aarch64": {"memfd_create": 279, "pidfd_open": 434}}
PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS, MODE_FILTER = 22, 38, 2
# Operations of a classic BPF program: load the call's number, jump if it is equal, return.
LOAD, JUMP_IF_EQUAL, RETURN = 0x20, 0x15, 0x06
ALLOW, REFUSE = 0x7fff0000, 0x00050000 | errno.EPERM


def why_not():
    """The reason why this machine cannot refuse system calls; empty if it can."""
    return "" if platform.machine() in NUMBERS else f"the system calls of {platform.machine()} are not known here"


def words(calls, *command):
    return [sys.executable, __file__, ",".join(calls), *command]


def install(numbers):
    steps = [(LOAD, 0, 0, 0)]
    for at, number in enumerate(numbers):
        steps.append((JUMP_IF_EQUAL, len(numbers) - at, 0, number))
    steps += [(RETURN, 0, 0, ALLOW), (RETURN, 0, 0, REFUSE)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    program = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) or libc.prctl(PR_SET_SECCOMP, MODE_FILTER, program, 0, 0):
        sys.exit(f"no filter can be installed: {os.strerror(ctypes.get_errno())}")


if __name__ == "__main__":
    install([NUMBERS[platform.machine()][name] for name in sys.argv[1].split(",")])
    os.execvp(sys.argv[2], sys.argv[2:])
