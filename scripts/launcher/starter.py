"""What starts a job's processes, and what they are told."""
import dataclasses
import os
import re
import secrets
from typing import Dict, List

from launcher.options import UsageError

FORWARDED = re.compile(r"(DMLC|PS|TUTTI|OMP|MXNET)_|(PATH|VIRTUAL_ENV|PYTHONPATH|LD_LIBRARY_PATH)$")
# Once every worker has ended, how long what started them may take to notice.
LEAVE_SECONDS = 10.0
# Of a server that is killed again and again, within an hour.
MOST_RESTARTS = 5


@dataclasses.dataclass(frozen=True)
class Starter:
    """A program that starts the helper once for each process, and ends after the last of them."""
    name: str
    words: List[str]
    env: Dict[str, str]
    told: str = ""  # its standard input
    leave_seconds: float = LEAVE_SECONDS


def environment(request, contact):
    """(environment of what starts the processes, names of what every process gets of it)."""
    env = dict(os.environ)
    env.update(TUTTI_MODE=request.mode, TUTTI_LAUNCH_CONTACT=contact)
    env.setdefault("TUTTI_AUTOLOAD", "mxnet")  # the package, where it is installed, gives MXNet tutti's stores
    if request.mode == "ps":
        env.update(TUTTI_JOB_KEY=secrets.token_hex(32), DMLC_NUM_WORKER=str(request.workers),
                   DMLC_NUM_SERVER=str(request.servers))
        env.pop("TUTTI_JOB_KEY_FILE", None)  # each job has a key of its own
    named = set()
    for assignment in request.env:
        name, given, value = assignment.partition("=")
        if given:
            env[name] = value
        elif name not in env:
            raise UsageError(f"--env {name}: this variable is not set here; set it, or give --env {name}=VALUE")
        named.add(name)
    if request.sync_dst_dir:  # what lies beside the script wins
        for name in ("PYTHONPATH", "LD_LIBRARY_PATH"):
            env[name] = ":".join(filter(None, [request.sync_dst_dir, env.get(name)]))
    forwarded = sorted(named | {name for name in env if FORWARDED.match(name)})
    if os.geteuid() == 0:
        env.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return env, forwarded


def groups(request, server):
    """The processes by number: equal ones in groups."""
    workers = {"count": request.workers, "command": request.command}
    if request.mode == "mpi":
        return [workers]
    servers = {"count": request.servers, "role": "server", "command": [server, *request.server_options],
               "restarts": MOST_RESTARTS if request.survives else 0}
    return [{**workers, "role": "worker"}, servers,
            {"count": 1, "role": "scheduler", "command": [server]}]
