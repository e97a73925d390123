"""Becomes a program, with the job's variables and in its folder: mpirun, in a batch system's job of mode mpi."""
import json
import os
import sys

from launcher.trust import enter_folder, find


def main():
    told = json.loads(sys.stdin.readline())
    os.environ.update(told["env"])
    try:
        enter_folder(told["folder"], told["folder_owner"])
    except PermissionError as error:
        sys.exit(f"{os.uname().nodename}: {error}")
    program, *words = told["words"]
    path = find(program)
    if path is None:
        sys.exit(f"{os.uname().nodename}: {program} is not in PATH")
    os.execv(path, [program, *words])
