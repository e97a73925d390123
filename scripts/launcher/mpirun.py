"""The mpirun command line that starts the helper, and through it the command, for each process."""
import ipaddress
import json
import os
import re
import subprocess

from launcher import helper
from launcher.networks import addresses, is_here, is_loopback, name_of
from launcher.options import UsageError
from launcher.programs import must_find
from launcher.starter import Starter, carried, groups, place

# Open MPI 4.1 says this when a process is lost and the others may go on; it means nothing to a user.
NOISE = re.compile(r"(PMIX ERROR: BAD-PARAM in file .*/pmix_event_notification|"
                   r"ORTE_ERROR_LOG: Out of resource in file .*/show_help)\.c")
# An option, by which Open MPI does not cut hosts' names at the first dot.
KEEP_NAMES = "orte_keep_fqdn_hostnames"
# Open MPI's variable for what its ranks move messages by, and all but the shared memory of a host.
TRANSPORTS, WITHOUT_MEMORY = "OMPI_MCA_btl", "^vader,smcuda"
# mpirun and its daemons hang where the name of a host has other characters.
KNOWN_NAME = re.compile(r"[A-Za-z0-9.-]+")


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
    if not placement:
        return line
    for host, _ in placement:
        if not KNOWN_NAME.fullmatch(name_of(host)):
            raise UsageError(f"{host}: mpirun does not accept this name of a host; a name may have letters, digits, "
                             "dots and hyphens; write its IPv4 address, or give it such a name in /etc/hosts")
    if may_be_cut_alike([*(name_of(host) for host, _ in placement), os.uname().nodename]):
        line += ["--mca", KEEP_NAMES, "1"]
    if has_users(placement):
        # Daemons that start others are not told of users.
        return [*line, "--hostfile", "/dev/stdin", "--mca", "plm_rsh_no_tree_spawn", "1"]
    return [*line, "--host", ",".join(f"{host}:{count}" for host, count in placement)]


def may_be_cut_alike(names):
    """Open MPI takes hosts for one whose names are equal up to the first dot. A host that is given by its address may
    have any name."""
    whole = {name.lower() for name in names}
    return any(map(is_address, whole)) or len({name.partition(".")[0] for name in whole}) < len(whole)


def is_address(name):
    try:
        return bool(ipaddress.ip_address(name))
    except ValueError:
        return False


def has_users(placement):
    """Whether some host is USER@HOST, which mpirun understands in a file alone."""
    return any("@" in host for host, _ in placement)


def hosts_file(placement):
    return "".join(f"{host} slots={count}\n" for host, count in placement)


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


def check_networks(request, placement):
    """Open MPI 4.1 knows IPv6, and now and then hangs where there is nothing else."""
    interface = os.environ.get("DMLC_INTERFACE") or None
    here = [address for each in addresses(interface).values() for address in each]
    if request.launcher == "local" or any("." in address and not is_loopback(address) for address in here):
        return
    far = [host for host, _ in placement if not is_here(host)]
    if far:
        raise UsageError(f"mpirun needs an IPv4 address of this machine by which {far[0]} may reach it, and there is "
                         "none: over IPv6 alone it may hang. Give the hosts IPv4 addresses, or take --launcher ssh "
                         "--mode ps, for which IPv6 is enough")


def starter(request, placement, env, forwarded, server):
    check_networks(request, placement)
    env, forwarded = carried(env, forwarded)
    line = words(find_mpirun(request), request, placement, forwarded, server)
    return Starter("mpirun", line, env, hosts_file(placement) if has_users(placement) else "", placement=placement)
