"""The mpirun command line that starts one shim, and through it the command, for each worker."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from launcher.options import UsageError

FORWARDED = re.compile(r"(DMLC|PS|TUTTI|OMP|MXNET)_|(PATH|VIRTUAL_ENV|PYTHONPATH|LD_LIBRARY_PATH)$")
# What starts the processes in each mode.
NAMES = {"mpi": "mpirun", "ps": "what starts the processes"}
SHIM = pathlib.Path(__file__).with_name("shim.py")
# Open MPI 4.1 says this when a process is lost and the others may go on; it means nothing to a user.
NOISE = re.compile(r"(PMIX ERROR: BAD-PARAM in file .*/pmix_event_notification|"
                   r"ORTE_ERROR_LOG: Out of resource in file .*/show_help)\.c")


def find_mpirun():
    path = shutil.which("mpirun")
    if path is None:
        raise UsageError("--mode mpi needs mpirun, and it is not in PATH: apt-get install openmpi-bin")
    version = subprocess.run([path, "--version"], check=False, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
    if "Open MPI" not in version:
        raise UsageError(f"{path} is not Open MPI's mpirun, which alone keeps survivors alive: "
                         f"{version.strip().splitlines()[:1]}")
    return path


def job_environment(request, contact):
    """(environment of mpirun or the crew, names that mpirun forwards to every worker)."""
    env = dict(os.environ)
    env.update(TUTTI_MODE=request.mode, TUTTI_LAUNCH_CONTACT=contact)
    env.setdefault("TUTTI_AUTOLOAD", "mxnet")  # the package, where it is installed, gives MXNet tutti's stores
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


def shim_words(launcher):
    """How a host starts the shim. Another host may not have this folder: it gets the text itself."""
    if launcher == "local":
        return [sys.executable, "-I", "-S", str(SHIM)]
    return ["python3", "-I", "-S", "-c", SHIM.read_text(encoding="utf-8")]


def words(mpirun, request, placement, forwarded, interface):
    """`placement` is [(host, workers there)]."""
    line = [mpirun, "--enable-recovery", "-n", str(request.workers), "--bind-to", "none", "--map-by", "slot",
            "--host", ",".join(f"{host}:{count}" for host, count in placement)]
    if request.launcher == "local" and request.workers > len(os.sched_getaffinity(0)):
        line += ["--mca", "mpi_yield_when_idle", "1"]
    if interface:
        line += ["--mca", "oob_tcp_if_include", interface, "--mca", "btl_tcp_if_include", interface]
    if request.sync_dst_dir:
        line += ["--wdir", request.sync_dst_dir]
    for name in forwarded:
        line += ["-x", name]
    # As one word: mpirun would take a lone colon for the start of another program.
    return line + shim_words(request.launcher) + [json.dumps(request.command)]
