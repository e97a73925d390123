"""A parameter-server job: its environment, and the crew that starts it."""
import json
import os
import pathlib
import secrets
import shutil
import socket
import sys

from launcher import hosts
from launcher.options import UsageError

CREW = pathlib.Path(__file__).with_name("crew.py")
SERVER = "tutti-server"


def find_server(command):
    """The program that is scheduler and server: near the command, in PATH, or where this launcher is."""
    here = pathlib.Path(__file__).resolve().parents[2]
    near = pathlib.Path(command[0]).resolve().parent
    for folder in (near, near.parent, None, pathlib.Path(sys.argv[0]).resolve().parent, here / "build"):
        path = shutil.which(SERVER, path=folder and str(folder))
        if path:
            return path
    raise UsageError(f"--mode ps needs {SERVER}, which is neither in PATH nor beside the command; "
                     "it is built and installed with tutti")


def root_address(interface):
    return hosts.addresses(interface)[interface] if interface else "127.0.0.1"


def free_port(address):
    with socket.socket() as probe:
        probe.bind((address, 0))
        return probe.getsockname()[1]


def job_environment(request, env, interface):
    """What all processes have, beside what any job's have."""
    root = root_address(interface)
    return {**env, "TUTTI_MODE": "ps", "TUTTI_JOB_KEY": secrets.token_hex(32),
            "DMLC_PS_ROOT_URI": root, "DMLC_PS_ROOT_PORT": str(free_port(root)),
            "DMLC_NUM_WORKER": str(request.workers), "DMLC_NUM_SERVER": str(request.servers)}


def plan(request, server):
    """The processes by number: the workers, the servers, the scheduler."""
    def one(role, rank, command):
        return {"env": {"DMLC_ROLE": role, "DMLC_RANK": str(rank)}, "command": command}

    return [*(one("worker", rank, request.command) for rank in range(request.workers)),
            *(one("server", rank, [server]) for rank in range(request.servers)),
            one("scheduler", 0, [server])]


def words(request, server):
    """The command line of the crew. The job's secret is not in it: others may read those."""
    return [sys.executable, "-I", "-S", str(CREW), json.dumps(plan(request, server))]
