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

# Of a frame with TCP and its time stamps, the payload.
PAYLOAD_OF_A_FRAME = 1448
# As on real hosts, MPI has shared memory between ranks of one.
ALSO_IN_A_HOST = {"OMPI_MCA_btl": "vader,tcp,self"}
STREAM = (sys.executable, str(LAB / "stream.py"))
LIMIT = 60
# Streams that a link's rate is the quickest of; none after one that carries what the link is shaped to.
STREAMS = 5


@dataclasses.dataclass(frozen=True)
class Links:
    """Of each host one, of so many bits a second either way."""
    rate: float = 1e9

    @property
    def payload(self):
        """What that leaves for TCP's payload, bytes a second."""
        return self.rate / 8 * PAYLOAD_OF_A_FRAME / hosts.ON_THE_WIRE

    @property
    def burst(self):
        """Of payload, the bytes that a link that has rested lets pass at once. They pass the sender's queue so, and the
        receiver's behind it, which is of the same rate and as full: once, not twice."""
        return hosts.burst(self.rate) * PAYLOAD_OF_A_FRAME / hosts.COUNTED

    @property
    def rest(self):
        """Milliseconds, twice what they take to let so much pass at once again."""
        return 2e3 * self.burst / self.payload

    def __str__(self):
        return f"links of {self.rate / 1e9:g} Gbit/s" if self.rate >= 1e9 else f"links of {self.rate / 1e6:g} Mbit/s"


@dataclasses.dataclass(frozen=True)
class Layout:
    """So many hosts with so many ranks each; block or cyclic."""
    hosts: int
    each: int = 1
    mapping: str = "block"

    @property
    def ranks(self):
        return self.hosts * self.each

    def __str__(self):
        return f"{self.hosts} hosts" + (f" x {self.each} ranks, {self.mapping}" if self.each > 1 else "")

    def share(self):
        """Of a tensor's bytes, what an allreduce must move over each host's link, either way."""
        return 2 * (self.hosts - 1) / self.hosts


@dataclasses.dataclass(frozen=True)
class OnHosts(Launcher):
    """Starts a program on all ranks of a lab."""
    lab: hosts.Lab = None
    mapping: str = "block"

    def line(self, ranks, program):
        args = argparse.Namespace(map=self.mapping, env=[], program=[str(word) for word in program])
        return mpi_job.command(self.lab, args)

    @property
    def first(self):
        return self.lab.names[0]


@contextlib.contextmanager
def launcher(layout, links):
    """For a job on hosts with such links that are there while the block runs."""
    reason = hosts.why_not()
    if reason:
        raise BenchError(reason)
    try:
        lab = hosts.Lab(f"bench{os.getpid()}", (layout.each,) * layout.hosts, links.rate)
        with registry.made(lab):
            yield OnHosts(env={**mpi_job.settings(lab), **ALSO_IN_A_HOST}, lab=lab, mapping=layout.mapping)
    except hosts.Refused as error:
        raise BenchError(str(error)) from None


def payload_rate(job, links, seconds):
    """Bytes a second that a link carries. Whatever else the machine does holds a stream up, and who is judged by a slow one
    is flattered: the quickest of some counts, and never less than what the link is shaped to."""
    best = 0
    for _ in range(STREAMS):
        best = max(best, stream_rate(job, seconds))
        if best >= links.payload:
            break
    return max(best, links.payload)


def stream_rate(job, seconds):
    """Bytes a second that one TCP stream carries from the first host to the second."""
    sender, receiver = job.lab.names[:2]
    receiving = subprocess.Popen(hosts.enter(receiver, shlex.join([*STREAM, "receive"])), text=True, stdout=subprocess.PIPE)
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
