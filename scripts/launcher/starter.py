"""Starts a job's processes, and passes them their settings."""
import dataclasses
import json
import os
import re
import secrets
import signal
from typing import Dict, List, Sequence, Tuple

from launcher import servers
from launcher.options import UsageError
from launcher.processes import ANNOUNCING
from launcher.shim import WORKERS_VARIABLES

# By these a process gets into its job. Those of the launcher's own environment are for other jobs; those of its job are
# for the processes alone, for batch systems store the variables of what they start, and show them to everyone.
OF_ONE_JOB = "TUTTI_JOB_KEY", "TUTTI_JOB_KEY_FILE", "TUTTI_LAUNCH_CONTACT", "TUTTI_LISTEN_FD", "TUTTI_END_NOTICES"
FORWARDED = re.compile(r"(DMLC|PS|TUTTI|OMP|MXNET)_|(PATH|VIRTUAL_ENV|PYTHONPATH|LD_LIBRARY_PATH)$")
# Where programs and libraries are looked for.
LOOKED_UP = "PATH", "LD_LIBRARY_PATH"
# Once every worker has ended, how long what started them may take to notice.
LEAVE_SECONDS = 10.0
# The most restarts, within an hour, of a server that is killed again and again.
MOST_RESTARTS = 5


@dataclasses.dataclass(frozen=True)
class Starter:
    """A program that starts the helper once for each process, and ends after the last of them."""
    name: str
    words: List[str]
    env: Dict[str, str]
    told: str = ""  # its standard input
    leave_seconds: float = LEAVE_SECONDS
    placement: Sequence[Tuple[str, int]] = ()  # [(host, workers there)], where it does not choose the hosts
    may_queue: bool = False  # until there is room for the job


def carriers_environment():
    """The environment of a program that carries settings to the processes, and does not need to know them."""
    env = {name: value for name, value in os.environ.items() if name not in OF_ONE_JOB}
    if os.geteuid() == 0:  # which Open MPI refuses unless told twice
        env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return env


def environment(request, contact):
    """(environment of the processes, names of what every one of them gets of it, wherever it runs)."""
    env = carriers_environment()
    env.update(TUTTI_MODE=request.mode, TUTTI_LAUNCH_CONTACT=contact)
    env.setdefault("TUTTI_AUTOLOAD", "mxnet")  # the package, where it is installed, gives MXNet tutti's stores
    if request.mode == "ps":
        env.update(TUTTI_JOB_KEY=secrets.token_hex(32), DMLC_NUM_WORKER=str(request.workers),
                   DMLC_NUM_SERVER=str(request.servers))
    named = set()
    for assignment in request.env:
        name, given, value = assignment.partition("=")
        if given:
            env[name] = value
        elif name not in env:
            raise UsageError(f"--env {name}: this variable is not set here; set it, or pass --env {name}=VALUE")
        named.add(name)
    if request.sync_dst_dir:  # files beside the script take precedence
        for name in ("PYTHONPATH", "LD_LIBRARY_PATH"):
            env[name] = ":".join(filter(None, [request.sync_dst_dir, env.get(name)]))
    return env, sorted((named | {name for name in env if FORWARDED.match(name)}) - set(request.no_env))


def carried(env, forwarded):
    """(the environment of a program that carries its own variables on, names of those that it carries). Variables
    that differ from this environment are for the workers. They would change the program itself, or its ssh, so one
    variable of its own carries them all. So it does those that mpirun would put its own folders in front of."""
    others = {name: env[name] for name in forwarded
              if os.environ.get(name) != env[name] and not name.startswith("TUTTI_")}
    own = {name: value for name, value in env.items() if name not in others}
    own.update((name, os.environ[name]) for name in others if name in os.environ)
    paths = {name: env[name] for name in LOOKED_UP if name in forwarded}
    own[WORKERS_VARIABLES] = json.dumps({**paths, **others})
    return own, [*(name for name in forwarded if name not in others), WORKERS_VARIABLES]


def place(request):
    """Where the command starts. On another host something else may lie there, so it is told who owns it here."""
    if request.sync_dst_dir:
        return {"folder": request.sync_dst_dir, "folder_owner": 0}
    owner = os.stat(os.curdir).st_uid
    return {"folder": os.getcwd(), "folder_owner": 0 if owner == os.geteuid() else owner}


def groups(request, server):
    """The processes by number: equal ones in groups. A batch system may announce something to all of them, and it means
    the workers."""
    workers = {"count": request.workers, "command": request.command, "grace": request.grace}
    if request.launcher == "sge":
        workers["ignored"] = [signal.SIGUSR1, signal.SIGUSR2]
    if request.mode == "mpi":
        return [workers]
    owners = servers.owners(request.command)
    return [{**workers, "role": "worker"},
            {"count": request.servers, "role": "server", "command": [server, *request.server_options], "owners": owners,
             "ignored": ANNOUNCING,
             "restarts": MOST_RESTARTS if request.survives else 0},
            {"count": 1, "role": "scheduler", "command": [server], "owners": owners, "ignored": ANNOUNCING,
             **address_of_scheduler(request)}]


def address_of_scheduler(request):
    """Elsewhere it is the one from which its helper comes."""
    return {"address": servers.root_address(os.environ.get("DMLC_INTERFACE"))} if request.launcher == "local" else {}
