"""One program for each process: ssh to its host or, on this machine, none between."""
import json
import os
import pathlib
import shlex
import shutil
import sys

from launcher import helper
from launcher.hosts import SSH
from launcher.options import UsageError
from launcher.starter import Starter, groups

CREW = pathlib.Path(__file__).with_name("crew.py")


def check_ssh():
    if shutil.which("ssh") is None:
        raise UsageError("--launcher ssh needs ssh, and it is not in PATH: apt-get install openssh-client")


def spread(request, placement, hosts):
    """The host of each process by number: the workers' as placed, the servers go round, the scheduler is on the
    first."""
    workers = [host for host, count in placement for _ in range(count)]
    return workers + [hosts[number % len(hosts)] for number in range(request.servers)] + [hosts[0]]


def words_to(host):
    """What starts the helper there. What it is told goes to standard input, for others may read command lines."""
    words = [*helper.python(host is None), helper.BOOT]
    return words if host is None else [*SSH, "-x", "-T", host, shlex.join(["exec", *words])]


def plan(request, where, env, forwarded, server):
    program, parts = helper.source(), groups(request, server)
    variables = {name: env[name] for name in forwarded}
    folder = request.sync_dst_dir or os.getcwd()
    return [{"title": request.title(number) + ("" if host is None else f" on {host}"), "host": host,
             "words": words_to(host),
             "told": helper.lines(program, {"number": number, "groups": parts, "env": variables, "folder": folder})}
            for number, host in enumerate(where)]


def starter(request, where, env, forwarded, server):
    """`where`: the host of each process by number, None for this machine."""
    members = plan(request, where, env, forwarded, server)
    return Starter("launch" if where[0] is None else "ssh", [sys.executable, "-I", "-S", str(CREW)], env,
                   json.dumps(members))
