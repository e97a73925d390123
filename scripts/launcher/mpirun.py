"""The mpirun command line that starts the helper, and through it the command, for each process."""
import json
import os
import re
import subprocess

from launcher import helper
from launcher.options import UsageError
from launcher.programs import must_find
from launcher.starter import Starter, carried, groups, place

# Open MPI 4.1 says this when a process is lost and the others may go on; it means nothing to a user.
NOISE = re.compile(r"(PMIX ERROR: BAD-PARAM in file .*/pmix_event_notification|"
                   r"ORTE_ERROR_LOG: Out of resource in file .*/show_help)\.c")


def find_mpirun(request):
    path = must_find("mpirun", "--mode mpi" if request.mode == "mpi" else f"--launcher {request.launcher}",
                     "apt-get install openmpi-bin")
    version = subprocess.run([path, "--version"], check=False, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    if "Open MPI" not in version:
        raise UsageError(f"{path} is not Open MPI's mpirun, which alone keeps survivors alive: "
                         f"{version.strip().splitlines()[:1]}")
    return path


def mapping(request, placement):
    """Where the processes go. In mode ps they are no ranks that a host has slots for, and go round the hosts."""
    line = ["--bind-to", "none", "--map-by", "slot" if request.mode == "mpi" else "node:OVERSUBSCRIBE"]
    if placement:
        line += ["--host", ",".join(f"{host}:{count}" for host, count in placement)]
    return line


def words(mpirun, request, placement, forwarded, server=None):
    """`placement` is [(host, workers there)]; empty: where the allocation is that this runs in."""
    line = [mpirun, "--enable-recovery", "-n", str(request.processes()), *mapping(request, placement)]
    if request.launcher == "local" and request.workers > len(os.sched_getaffinity(0)):
        line += ["--mca", "mpi_yield_when_idle", "1"]
    interface = os.environ.get("DMLC_INTERFACE")
    if interface:
        line += ["--mca", "oob_tcp_if_include", interface, "--mca", "btl_tcp_if_include", interface]
    if request.sync_dst_dir:
        line += ["--wdir", request.sync_dst_dir]
    for name in forwarded:
        line += ["-x", name]
    told = {"groups": groups(request, server), "index": ["OMPI_COMM_WORLD_RANK", 0], **place(request)}
    # As one word: mpirun would take a lone colon for the start of another program.
    return line + helper.python(request.launcher == "local") + [helper.source(), json.dumps(told)]


def starter(request, placement, env, forwarded, server):
    env, forwarded = carried(env, forwarded)
    line = words(find_mpirun(request), request, placement, forwarded, server)
    return Starter("mpirun", line, env)
