#!/usr/bin/env python3
"""Starts a distributed training job; see --help."""
import os
import sys

from launcher import hosts, mpirun, options, output, servers
from launcher.job import Job


def place(request):
    """[(host, workers there)], the hosts having what they need."""
    if request.launcher == "local":
        return [("localhost", request.workers)]
    placement = hosts.deal(request.workers, hosts.read_hostfile(request.hostfile))
    if request.sync_dst_dir:
        hosts.sync([host for host, _ in placement], request.sync_dst_dir)
    return placement


def started(words):
    """The job that the words ask for, under way."""
    request = options.parse(words)
    if request.mode == "mpi" and request.servers is not None:
        output.say("-s: in --mode mpi no servers are started")
    interface = os.environ.get("DMLC_INTERFACE")
    addresses = hosts.reachable(interface)
    program = mpirun.find_mpirun() if request.mode == "mpi" else servers.find_server(request.command)
    job = Job(request, [] if request.launcher == "local" else addresses)
    env, forwarded = mpirun.job_environment(request, job.contact)
    if request.mode == "mpi":
        job.start(mpirun.words(program, request, place(request), forwarded, interface), env)
    else:
        job.start(servers.words(request, program), servers.job_environment(request, env, interface))
    return job


def main():
    output.open_standard_streams()
    try:
        return started(sys.argv[1:]).run()
    except options.UsageError as error:
        output.say(str(error), error.lines)
        return 2
    except output.CannotWrite as error:
        if error.code == 1:
            output.say(str(error))
        return error.code
    finally:
        output.settle_standard_streams()


if __name__ == "__main__":
    sys.exit(main())
