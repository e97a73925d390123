#!/usr/bin/env python3
"""Starts a distributed training job; see --help."""
import os
import signal
import sys

from command_line import file_problem
from launcher import batch, hostfile, hosts, members, mpirun, networks, options, output, programs, servers, starter
from launcher.job import Job


def placed(request, listed):
    """[(host, workers there)], the hosts having what they need; none where the user names no host."""
    if request.launcher == "local":
        return [("localhost", request.workers)]
    if not listed:
        return []
    placement = hosts.deal(request.workers, listed)
    if request.sync_dst_dir:
        used = [host for host, _ in placement] if request.mode == "mpi" else [host for host, _ in listed]
        hosts.sync(list(dict.fromkeys(used)), request.sync_dst_dir)
    return placement


def starter_of(request, listed, env, forwarded):
    server = servers.find_server(request) if request.mode == "ps" else None
    if request.launcher in batch.SYSTEMS:
        return batch.SYSTEMS[request.launcher](request, env, forwarded, server)
    if request.mode == "mpi" or request.launcher == "mpi":
        return mpirun.starter(request, placed(request, listed), env, forwarded, server)
    if request.launcher == "local":
        return members.starter(request, [None] * request.processes(), env, forwarded, server)
    where = members.spread(request, placed(request, listed), list(dict.fromkeys(host for host, _ in listed)))
    return members.starter(request, where, env, forwarded, server)


def started(words):
    """The job that the words ask for, under way."""
    programs.leave_out_empty_entries(os.environ)
    request = options.parse(words)
    programs.check_folder()
    if request.mode == "mpi" and request.servers is not None:
        output.say("-s: in --mode mpi no servers are started")
    interface = os.environ.get("DMLC_INTERFACE")
    listed = hostfile.read_hostfile(request.hostfile) if request.hostfile else []
    addresses = networks.reachable(interface, [host for host, _ in listed])
    is_here = request.launcher == "local"
    job = Job(request, [] if is_here else addresses, servers.root_address(interface) if is_here else None)
    env, forwarded = starter.environment(request, job.contact)
    job.start(starter_of(request, listed, env, forwarded))
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
    except OSError as error:
        output.say(file_problem(error))
        return 1
    except KeyboardInterrupt:  # before there is a job to end
        output.say("ended by SIGINT")
        return 128 + signal.SIGINT
    finally:
        output.settle_standard_streams()


if __name__ == "__main__":
    sys.exit(main())
