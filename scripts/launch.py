#!/usr/bin/env python3
"""Starts a distributed training job; see --help."""
import os
import signal
import sys

from launcher import hosts, mpirun, options
from launcher.job import Job


def place(request):
    """[(host, workers there)], the hosts having what they need."""
    if request.launcher == "local":
        return [("localhost", request.workers)]
    placement = hosts.deal(request.workers, hosts.read_hostfile(request.hostfile))
    if request.sync_dst_dir:
        hosts.sync([host for host, _ in placement], request.sync_dst_dir)
    return placement


def main():
    try:
        request = options.parse(sys.argv[1:])
        if request.servers is not None:
            options.say("-s: in --mode mpi no servers are started")
        interface = os.environ.get("DMLC_INTERFACE")
        addresses = hosts.reachable(interface)
        program = mpirun.find_mpirun()
        job = Job(request, [] if request.launcher == "local" else addresses)
        env, forwarded = mpirun.job_environment(request, job.contact)
        job.start(mpirun.words(program, request, place(request), forwarded, interface), env)
    except options.UsageError as error:
        options.say(str(error), error.lines)
        return 2
    try:
        return job.run()
    except BrokenPipeError:  # whoever read the output has gone, and the job is over
        for stream in (1, 2):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream)
        return 128 + signal.SIGPIPE


if __name__ == "__main__":
    sys.exit(main())
