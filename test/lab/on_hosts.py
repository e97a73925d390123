#!/usr/bin/env python3
"""Runs an MPI job on emulated hosts: network namespaces joined by a bridge, each with a host name.

    on_hosts.py [--env NAME=VALUE ...] HOSTSxRANKS PROGRAM [ARGUMENT ...]

`2x4` is two hosts with four ranks each, `2+1+1` three hosts with these many ranks. Consecutive ranks
share a host. Needs root; without it, exits 77 (skipped) with the reason. Exits with mpirun's code.
Everything lives in namespaces named after this process, and goes away with it.
"""
import argparse
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile

SKIPPED = 77


def why_not():
    """Why this machine cannot emulate hosts; empty if it can."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        return "emulated hosts need root and iproute2"
    # In a chroot whose root is no mount point, for one, the kernel refuses.
    probe = subprocess.run(["unshare", "--mount", "--net", "true"], stderr=subprocess.PIPE, text=True, check=False)
    return f"network namespaces cannot be entered here: {probe.stderr.strip()}" if probe.returncode else ""


def run(command):
    subprocess.run(shlex.split(command), check=True, stdout=subprocess.DEVNULL)


class Hosts:
    """Namespaces with an eth0 each, and a switch between them; the machine's own network is not
    touched."""

    def __init__(self, count):
        self.names = [f"tutti{os.getpid()}h{i}" for i in range(count)]
        self.switch = f"tutti{os.getpid()}sw"

    def __enter__(self):
        try:
            self._create()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _create(self):
        run(f"ip netns add {self.switch}")
        run(f"ip -n {self.switch} link add bridge type bridge")
        run(f"ip -n {self.switch} link set bridge up")
        table = "127.0.0.1 localhost\n"
        table += "".join(f"10.99.0.{i + 1} {name}\n" for i, name in enumerate(self.names))
        for i, name in enumerate(self.names):
            run(f"ip netns add {name}")
            run(f"ip -n {name} link add eth0 type veth peer name port{i} netns {self.switch}")
            run(f"ip -n {name} addr add 10.99.0.{i + 1}/24 dev eth0")
            run(f"ip -n {name} link set lo up")
            run(f"ip -n {name} link set eth0 up")
            run(f"ip -n {self.switch} link set port{i} master bridge up")
            names = pathlib.Path("/etc/netns") / name
            names.mkdir(parents=True)
            (names / "hosts").write_text(table)

    def __exit__(self, *unused):
        for name in [*self.names, self.switch]:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)
            shutil.rmtree(pathlib.Path("/etc/netns") / name, ignore_errors=True)


def enter(host, command):
    """The words that run `command`, a shell line, on a host."""
    return ["ip", "netns", "exec", host, "unshare", "--uts", "sh", "-c",
            f"hostname {host}; exec {command}"]


# What mpirun calls instead of ssh: the host, then a command in words for a shell.
AGENT = """#!/bin/sh
host=$1
shift
exec ip netns exec "$host" unshare --uts sh -c "hostname $host; exec $*"
"""


def mpirun_words(hosts, ranks, agent, env, program):
    slots = ",".join(f"{name}:{count}" for name, count in zip(hosts.names, ranks))
    words = ["mpirun", "-n", str(sum(ranks)), "--host", slots, "--map-by", "slot",
             "--bind-to", "none", "--mca", "plm_rsh_agent", str(agent),
             "--mca", "oob_tcp_if_include", "eth0", "--mca", "btl", "tcp,self",
             "--mca", "btl_tcp_if_include", "eth0", "--mca", "mpi_yield_when_idle", "1"]
    for assignment in env:
        words += ["-x", assignment]
    return words + program


def parse(arguments):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("layout")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    return parser.parse_args(arguments)


def ranks_of(layout):
    if "x" in layout:
        count, each = map(int, layout.split("x"))
        return [each] * count
    return [int(count) for count in layout.split("+")]


def main():
    args = parse(sys.argv[1:])
    reason = why_not()
    if reason:
        print(f"skipped: {reason}")
        return SKIPPED
    # Turn a polite end into an exception, so that the namespaces are removed.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                      OMPI_MCA_rmaps_base_oversubscribe="1")
    ranks = ranks_of(args.layout)
    with Hosts(len(ranks)) as hosts, tempfile.TemporaryDirectory() as folder:
        agent = pathlib.Path(folder) / "agent"
        agent.write_text(AGENT)
        agent.chmod(0o755)
        words = mpirun_words(hosts, ranks, agent, args.env, args.program)
        return subprocess.run(enter(hosts.names[0], shlex.join(words)), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
