#!/usr/bin/env python3
"""Runs a job whose workers need a parameter server: first scheduler and servers, then the job, whose exit status is
this program's.

    served.py --workers 2 --servers 1 --role build/tutti-server mpirun -n 2 build/benchmarks/server_bench
    served.py --workers 8 --servers 4 --role 'python3 -c "import mxnet"' mpirun -n 8 mxnet_pushpull.py

The role's line starts a process that reads from DMLC_ROLE what it is. With --hosts servers run on those emulated
hosts, one on each in turn, and the scheduler on the first. At the end it says how much of a core the servers
used together in the half second in which they used least: nothing, if they sleep while there is nothing to do.
"""
import argparse
import contextlib
import math
import os
import pathlib
import secrets
import shlex
import signal
import socket
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "test/lab")]
from command_line import Parser  # pylint: disable=wrong-import-position
from hosts import enter  # pylint: disable=wrong-import-position
from launcher.processes import dies_with_parent  # pylint: disable=wrong-import-position

WATCHED = 0.5  # seconds
PATIENCE = 15  # for servers that have nothing left to do


def free_port():
    with socket.socket() as probe:
        probe.bind(("", 0))
        return probe.getsockname()[1]


def place(given):
    """The variables that tell each process of a job, MXNet's or tutti's, its place."""
    found = {"DMLC_PS_ROOT_URI": given.root, "DMLC_PS_ROOT_PORT": str(free_port()),
             "DMLC_NUM_WORKER": str(given.workers), "DMLC_NUM_SERVER": str(given.servers),
             "TUTTI_JOB_KEY": secrets.token_hex(32)}
    return {**found, "DMLC_INTERFACE": given.interface} if given.interface else found


def start_roles(given, env):
    hosts = given.hosts or [None]
    roles = [("scheduler", hosts[0])] + [("server", hosts[i % len(hosts)]) for i in range(given.servers)]
    return [subprocess.Popen(enter(host, given.role) if host else shlex.split(given.role),
                             env={**env, "DMLC_ROLE": role}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                             preexec_fn=dies_with_parent(signal.SIGKILL)) for role, host in roles]


def processor_seconds(process):
    """The processor time of all its threads so far."""
    total = 0
    for file in pathlib.Path(f"/proc/{process.pid}/task").glob("*/schedstat"):
        with contextlib.suppress(OSError):
            total += int(file.read_text().split()[0])
    return total / 1e9


def follow(job, roles):
    """(the job's exit status, the least part of a core that the servers used together for WATCHED seconds). A role
    that fails ends the job."""
    least, before = math.inf, None
    while True:
        try:
            return job.wait(WATCHED), least
        except subprocess.TimeoutExpired:
            pass
        failed = [role.returncode for role in roles if role.poll()]
        if failed:
            print(f"served.py: a server or the scheduler ended with {failed[0]}", file=sys.stderr)
            job.terminate()
            return job.wait() or 1, least
        used = sum(map(processor_seconds, roles[1:]))
        if before is not None and all(role.returncode is None for role in roles):
            least = min(least, max(0, used - before) / WATCHED)
        before = used


def end(roles, patience):
    for role in roles:
        try:
            role.wait(patience)
        except subprocess.TimeoutExpired:
            role.kill()
            role.wait()


def parse(words):
    options = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--workers", type=int, required=True, help="that the job starts")
    options.add_argument("--servers", type=int, required=True)
    options.add_argument("--role", required=True, metavar="LINE", help="starts a server, or the scheduler")
    options.add_argument("--root", default="127.0.0.1", help="the scheduler's address (%(default)s)")
    options.add_argument("--interface", help="network interface of all processes (the route's)")
    options.add_argument("--hosts", type=lambda text: text.split(","), help="emulated ones, of the servers")
    options.add_argument("job", nargs=argparse.REMAINDER, help="the line that starts the workers")
    given = options.parse_args(words)
    if not given.job:
        options.error("which job? Its line comes after the options")
    return given


def main(words):
    given = parse(words)
    env = {**os.environ, **place(given)}
    roles = start_roles(given, env)
    with subprocess.Popen(given.job, env={**env, "DMLC_ROLE": "worker"}) as job:
        status, least = follow(job, roles)
    end(roles, 0 if status else PATIENCE)
    if math.isfinite(least):
        print(f"# servers' least use of a core: {least:.4f}")
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
