"""Launchers of jobs whose workers need a parameter server."""
import dataclasses
import pathlib
import shlex
import sys

from compare.contest import Launcher

PROGRAM = pathlib.Path(__file__).resolve().parents[1] / "peers/served.py"


@dataclasses.dataclass(frozen=True)
class Served(Launcher):
    """Starts scheduler and servers, and then what `inner` starts. `role`: the line of a server or the scheduler;
    `where`: where they run, in served.py's options."""
    inner: Launcher = None
    servers: int = 1
    role: str = ""
    where: tuple = ()

    def line(self, ranks, program):
        return [sys.executable, str(PROGRAM), "--workers", str(ranks), "--servers", str(self.servers),
                "--role", self.role, *self.where, *self.inner.line(ranks, program)]


def served(launcher, servers, role, where=()):
    return Served(env=launcher.env, inner=launcher, servers=servers, role=role, where=where)


def on_hosts(job, names):
    """`where` servers run on those hosts of the emulated job."""
    return ("--root", job.lab.addresses[job.lab.names.index(names[0])], "--interface", "eth0",
            "--hosts", ",".join(names))


def tuttis(request):
    return shlex.quote(str(request.build / "tutti-server"))


def mxnets(request):
    """MXNet runs a role that is no worker's when it is imported."""
    return f"{shlex.quote(str(request.mxnet_python))} -c 'import mxnet'"
