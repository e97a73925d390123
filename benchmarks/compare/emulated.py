"""Hosts for a suite, of test/lab: made when they are needed, gone when the suite goes on or ends."""
import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import shlex
import subprocess
import sys

from compare.contest import BenchError, Launcher

LAB = pathlib.Path(__file__).resolve().parents[2] / "test/lab"
sys.path.insert(0, str(LAB))
import hosts  # pylint: disable=wrong-import-position
import mpi_job  # pylint: disable=wrong-import-position
import registry  # pylint: disable=wrong-import-position

# Bytes of payload in a full Ethernet frame with TCP and its time stamps.
PAYLOAD_OF_A_FRAME = 1448
# Ranks of one host use shared memory, as on real hosts.
ALSO_IN_A_HOST = {"OMPI_MCA_btl": "vader,tcp,self"}
STREAM = (sys.executable, str(LAB / "stream.py"))
LIMIT = 60
# Measure a link by at most this many streams; fewer if one reaches the rate to which the link is shaped.
STREAMS = 5


@dataclasses.dataclass(frozen=True)
class Links:
    """The links: one for each host, with this many bits a second in each direction."""
    rate: float = 1e9

    @property
    def payload(self):
        """The bytes a second that remain for TCP's payload."""
        return self.rate / 8 * PAYLOAD_OF_A_FRAME / hosts.ON_THE_WIRE

    @property
    def burst(self):
        """The bytes of payload that a link passes at once after a rest. They pass the sender's and the receiver's
        queue at once. Both have the same rate and are equally full, so this counts once, not twice."""
        return hosts.burst(self.rate) * PAYLOAD_OF_A_FRAME / hosts.COUNTED

    @property
    def rest(self):
        """The rest before a turn in milliseconds: twice the time after which a link passes a whole burst again."""
        return 2e3 * self.burst / self.payload

    def __str__(self):
        return f"links of {self.rate / 1e9:g} Gbit/s" if self.rate >= 1e9 else f"links of {self.rate / 1e6:g} Mbit/s"


@dataclasses.dataclass(frozen=True)
class Layout:
    """The number of hosts with ranks, the ranks on each, and their mapping: block or cyclic. `apart`: the number of
    further hosts, without ranks."""
    hosts: int
    each: int = 1
    mapping: str = "block"
    apart: int = 0

    @property
    def ranks(self):
        return self.hosts * self.each

    def __str__(self):
        return (f"{self.hosts} hosts" + (f" x {self.each} ranks, {self.mapping}" if self.each > 1 else "")
                + (f", {self.apart} for servers" if self.apart else ""))

    def share(self):
        """The part of a tensor's bytes that an allreduce must move over each host's link, in each direction."""
        return 2 * (self.hosts - 1) / self.hosts


@dataclasses.dataclass(frozen=True)
class OnHosts(Launcher):
    """Starts a program on all ranks of a lab. The last `apart` hosts have no ranks."""
    lab: hosts.Lab = None
    mapping: str = "block"
    apart: int = 0

    def line(self, ranks, program):
        args = argparse.Namespace(map=self.mapping, env=[], program=[str(word) for word in program])
        with_ranks = dataclasses.replace(self.lab, ranks=self.lab.ranks[:len(self.lab.ranks) - self.apart])
        return mpi_job.command(with_ranks, args)

    @property
    def first(self):
        return self.lab.names[0]


@contextlib.contextmanager
def launcher(layout, links):
    """Makes hosts with these links for the time of the block, and gives a launcher for them."""
    reason = hosts.why_not()
    if reason:
        raise BenchError(reason)
    try:
        lab = hosts.Lab(f"bench{os.getpid()}", (layout.each,) * (layout.hosts + layout.apart), links.rate)
        with registry.made(lab):
            yield OnHosts(env={**mpi_job.settings(lab), **ALSO_IN_A_HOST}, lab=lab, mapping=layout.mapping,
                          apart=layout.apart)
    except hosts.Refused as error:
        raise BenchError(str(error)) from None


def payload_rate(job, links, seconds):
    """The bytes a second that a link carries: the quickest of some streams, but not less than the rate to which the
    link is shaped. Anything else that runs slows a stream down, and a slow stream as measure would flatter the
    results."""
    best = 0
    for _ in range(STREAMS):
        best = max(best, stream_rate(job, seconds))
        if best >= links.payload:
            break
    return max(best, links.payload)


def stream_rate(job, seconds):
    """The bytes a second that one TCP stream carries from the first host to the second."""
    sender, receiver = job.lab.names[:2]
    receiving = subprocess.Popen(hosts.enter(receiver, shlex.join([*STREAM, "receive"])), text=True,
                                 stdout=subprocess.PIPE)
    try:
        port = receiving.stdout.readline().strip()
        words = [*STREAM, "send", receiver, port, str(seconds)]
        subprocess.run(hosts.enter(sender, shlex.join(words)), check=True, timeout=LIMIT)
        said = json.loads(receiving.communicate(timeout=LIMIT)[0])
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise BenchError(f"cannot measure a link: {error}") from None
    finally:
        receiving.kill()
        receiving.wait()
    return said["bytes"] / (said["end"] - said["start"])
