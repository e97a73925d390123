"""What a parameter-server job needs beside its workers."""
import os
import pathlib
import shutil
import sys

from launcher import hosts
from launcher.options import UsageError

SERVER = "tutti-server"


def folders(command):
    """Where it may be: near the command, where this launcher is, in PATH."""
    # The python of an environment is a link to one elsewhere.
    near = pathlib.Path(os.path.abspath(command[0])).parent
    linked = pathlib.Path(command[0]).resolve().parent
    here = pathlib.Path(__file__).resolve().parents[1]
    launcher = pathlib.Path(sys.argv[0]).resolve().parent
    return near, near.parent, linked, linked.parent, here, here.parent / "build", launcher, None


def find_server(request):
    """The program that is scheduler and server, as its hosts have it."""
    for folder in folders(request.command):
        path = shutil.which(SERVER, path=folder and str(folder))
        if path:
            return copied(path, request.sync_dst_dir)
    raise UsageError(f"--mode ps needs {SERVER}, which is neither beside the command nor in PATH; "
                     "it is built and installed with tutti")


def copied(path, folder):
    """A file of the current folder is where that is copied to."""
    below = os.path.relpath(path, os.getcwd())
    return path if folder is None or below.startswith(os.pardir) else os.path.join(folder, below)


def root_address(interface):
    """Of the scheduler of a job on this machine alone."""
    return hosts.addresses(interface)[interface] if interface else "127.0.0.1"
