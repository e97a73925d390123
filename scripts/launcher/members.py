"""One program for each process: ssh to its host or, on this machine, none between."""
import collections
import json
import pathlib
import sys

from launcher import helper, hosts
from launcher.starter import Starter, carriers_environment, groups, place

CREW = pathlib.Path(__file__).with_name("crew.py")


def spread(request, placement, listed):
    """The host of each process by number: the workers' as placed, the servers go round, the scheduler is on the
    first."""
    workers = [host for host, count in placement for _ in range(count)]
    return workers + [listed[number % len(listed)] for number in range(request.servers)] + [listed[0]]


def words_to(host):
    """The words that start the helper there. Its data go to standard input, because others may read command lines."""
    words = [*helper.python(host is None), helper.BOOT]
    return words if host is None else hosts.words_to(host, words)


def plan(request, where, env, forwarded, server):
    program, parts = helper.source(), groups(request, server)
    variables = {name: env[name] for name in forwarded}
    workers = collections.Counter(where[:request.workers])
    shared = {"groups": parts, "env": variables, **place(request)}
    return [{"title": request.title(number) + ("" if host is None else f" on {host}"), "host": host,
             "words": words_to(host),
             "told": helper.lines(program, {"number": number, "workers_here": workers[host], **shared})}
            for number, host in enumerate(where)]


def starter(request, where, env, forwarded, server):
    """`where`: the host of each process by number, None for this machine."""
    members = plan(request, where, env, forwarded, server)
    return Starter("launch" if where[0] is None else "ssh", [sys.executable, "-I", "-S", str(CREW)],
                   carriers_environment(), json.dumps(members))
