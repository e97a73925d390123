"""Intel MPI on emulated hosts: its own launcher, Hydra, with the lab's agent in place of ssh."""
import dataclasses
import os
import pathlib
import shlex

from compare import peers
from compare.contest import Contest, Launcher
from compare.emulated import hosts, mpi_job

# libfabric's TCP provider, as between hosts without other fabrics, on the interface of each host's link.
NETWORK = {"I_MPI_FABRICS": "ofi", "FI_PROVIDER": "tcp", "FI_TCP_IFACE": "eth0"}
YIELDING = {"I_MPI_THREAD_YIELD": "2"}


@dataclasses.dataclass(frozen=True)
class Hydra(Launcher):
    """Starts a program on the hosts of a lab with one rank each."""
    lab: hosts.Lab = None
    prefix: pathlib.Path = None

    def line(self, ranks, program):
        words = [f"{self.prefix}/bin/mpiexec.hydra", "-bootstrap", "ssh", "-bootstrap-exec", str(mpi_job.AGENT),
                 "-iface", "eth0",
                 "-hosts", ",".join(self.lab.names), "-ppn", "1", "-n", str(ranks), *map(str, program)]
        return ["setpriv", "--pdeathsig", "TERM", *hosts.enter(self.lab.names[0], shlex.join(words))]


def contests(stage):
    """Contests of Intel MPI. It yields where Open MPI does: with more ranks than cores."""
    prefix = peers.intel_prefix(stage.request.peers_python)
    if prefix is None:
        return []
    program = peers.compile_for(prefix, stage.request.build)
    crowded = stage.layout.ranks > len(os.sched_getaffinity(0))
    env = {"I_MPI_ROOT": str(prefix), "PATH": f"{prefix}/bin:{os.environ['PATH']}", **NETWORK,
           **(YIELDING if crowded else {})}
    setting = "libfabric's tcp" + (", I_MPI_THREAD_YIELD=2" if crowded else "")
    return [Contest("Intel MPI", setting, (program,), Hydra(env=env, lab=stage.job.lab, prefix=prefix),
                    {"mpi": "Intel MPI"})]
