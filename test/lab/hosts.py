"""Emulated hosts: network namespaces joined by a switch, each with a host name, an address and a link
of its own. The machine's own network is not touched."""
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import select
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from typing import Optional

SKIPPED = 77
MOST_HOSTS = 250
# Seen: what one core pushes through two queues and the switch, TCP at both ends included.
BITS_PER_CORE = 5e9
UNITS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9}
# The size of a full TCP segment as the kernel counts it, and its size on a wire, with preamble, check sum and gap.
COUNTED, ON_THE_WIRE = 1514, 1538
# The queues' timers are late by about this much when all cores are busy: less, and the link idles
# though there is something to send. More, and short messages pass unshaped.
BURST_SECONDS = 0.001
# The largest piece that TCP hands over in one; a smaller bucket would have it cut up, packet by packet.
LEAST_BURST = 68_000
# The time that a packet may wait at a port of the switch, because many hosts may send to one.
QUEUE_SECONDS = 0.02
# The time that processes have to end after they are asked, before they are killed.
PATIENCE_SECONDS = 5
# The files that MPI makes for a job, by its host: folders of mpirun, and shared memory.
LEFT_BY_JOBS = ("ompi.{host}.*", "vader_segment.{host}.*")


class Refused(Exception):
    """The request cannot be met. The text says why."""


def why_not():
    """The reason why this machine cannot emulate hosts; empty if it can."""
    if os.geteuid() != 0:
        return "emulated hosts need root: network namespaces are made for them"
    if shutil.which("ip") is None or shutil.which("tc") is None:
        return "emulated hosts need iproute2; scripts/setup --tests installs it"
    # The kernel may refuse, for example in a chroot whose root is no mount point.
    probe = subprocess.run(["unshare", "--mount", "--net", "true"], stderr=subprocess.PIPE, text=True, check=False)
    return f"network namespaces cannot be entered here: {probe.stderr.strip()}" if probe.returncode else ""


def burst(rate):
    """The bytes, as the kernel counts them, that a link with this many bits a second passes at once after a rest."""
    return max(LEAST_BURST, rate / 8 * COUNTED / ON_THE_WIRE * BURST_SECONDS)


def parse_rate(text):
    """Bits per second of `1gbit`, `200mbit`; None of `none`."""
    if text == "none":
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([kmg]?)bit", text)
    rate = float(match[1]) * UNITS[match[2]] if match else 0
    if rate < 1e6:
        raise Refused(f"a rate is 1mbit or more, as in 200mbit or 1gbit, or none for unshaped links; not '{text}'")
    return rate


def run(command):
    """Runs a command, which must succeed, and returns its output."""
    done = subprocess.run(shlex.split(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)
    if done.returncode:
        raise Refused(f"`{command}` failed: {done.stderr.strip()}")
    return done.stdout


def enter(host, command, named=None):
    """The words that run `command`, a shell line, on a host. `named`: the host's name for the command, other than the
    lab's."""
    if named is not None:
        command = f"sh -c {shlex.quote(f'hostname {named}; exec {command}')}"
    return [str(pathlib.Path(__file__).with_name("agent.sh")), host, command]


@dataclasses.dataclass(frozen=True)
class Lab:
    """Hosts by plan: how many ranks a job has on each, the rate of their links, in bits a second, and their names."""
    name: str
    ranks: tuple
    rate: Optional[float] = None
    naming: str = "{}-h{}"

    def __post_init__(self):
        if not re.fullmatch(r"[a-z0-9]{1,20}", self.name):
            raise Refused(f"a lab's name is of up to 20 small letters and digits; not '{self.name}'")
        if not 1 <= len(self.ranks) <= MOST_HOSTS or min(self.ranks) < 1:
            raise Refused(f"a lab has 1 to {MOST_HOSTS} hosts with 1 rank or more each")
        cores = len(os.sched_getaffinity(0))
        if self.rate and len(self.ranks) * self.rate > cores * BITS_PER_CORE:
            raise Refused(f"{len(self.ranks)} links at {self.rate / 1e9:g} Gbit/s are more than {cores} cores can "
                          f"push, about {cores * BITS_PER_CORE / 1e9:g} Gbit/s in all: the processors would be "
                          "measured, not the links")

    @property
    def names(self):
        """The names of the hosts. Their namespaces have the same names."""
        return [self.naming.format(self.name, i) for i in range(len(self.ranks))]

    @property
    def addresses(self):
        return [f"10.99.0.{i + 1}" for i in range(len(self.ranks))]

    @property
    def switch(self):
        return f"{self.name}-switch"

    def check_names_are_free(self):
        """Checks that nothing has these names. Anything that has one belongs to somebody else, and must not be removed.
        """
        taken = {line.split()[0] for line in run("ip netns list").splitlines()} & {*self.names, self.switch}
        if taken:
            raise Refused(f"there are network namespaces of this name: {', '.join(sorted(taken))}")

    def create(self):
        run(f"ip netns add {self.switch}")
        run(f"ip -n {self.switch} link add bridge type bridge")
        run(f"ip -n {self.switch} link set bridge up")
        table = "127.0.0.1 localhost\n"
        table += "".join(f"{address} {name}\n" for address, name in zip(self.addresses, self.names))
        for i, name in enumerate(self.names):
            self._create_host(i, name, table)

    def _create_host(self, i, name, table):
        run(f"ip netns add {name}")
        names = pathlib.Path("/etc/netns") / name
        names.mkdir(parents=True, exist_ok=True)
        (names / "hosts").write_text(table)
        run(f"ip -n {name} link add eth0 type veth peer name port{i} netns {self.switch}")
        run(f"ip -n {name} addr add {self.addresses[i]}/24 dev eth0")
        run(f"ip -n {name} link set lo up")
        if self.rate:
            self._shape(name, "eth0")
            self._shape(self.switch, f"port{i}")
            # The machine's own may be one that probes or paces, and does not fill the link. The kernel lets
            # a namespace choose this one wherever it is.
            run(f"ip netns exec {name} sh -c 'echo reno > /proc/sys/net/ipv4/tcp_congestion_control'")
            # Without this, a program that follows one that has overrun the queues begins with a narrow window.
            run(f"ip netns exec {name} sh -c 'echo 1 > /proc/sys/net/ipv4/tcp_no_metrics_save'")
        run(f"ip -n {name} link set eth0 up")
        run(f"ip -n {self.switch} link set port{i} master bridge up")

    def _shape(self, namespace, device):
        """Shapes the traffic that the device sends."""
        rate = self.rate * COUNTED / ON_THE_WIRE
        limit = burst(self.rate) + max(LEAST_BURST, rate / 8 * QUEUE_SECONDS)
        run(f"tc -n {namespace} qdisc add dev {device} root tbf rate {rate:.0f}bit burst {burst(self.rate):.0f} "
            f"limit {limit:.0f}")

    def remove(self):
        """Removes everything, even if only a part was made, and ends every process on the hosts."""
        self._end_processes()
        for name in [*self.names, self.switch]:
            subprocess.run(["ip", "netns", "del", name], stderr=subprocess.DEVNULL, check=False)
            shutil.rmtree(pathlib.Path("/etc/netns") / name, ignore_errors=True)
        for host in self.names:
            remove_files_of_jobs(host)

    def processes(self):
        """The ids of the processes that run on the hosts."""
        paths = map(pathlib.Path("/run/netns").joinpath, self.names)
        spaces = {path.stat().st_ino for path in paths if path.exists()}
        found = []
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if (entry / "ns/net").stat().st_ino in spaces:
                    found.append(int(entry.name))
            except OSError:
                pass  # it has ended
        return found

    def _end_processes(self):
        # mpirun then ends its ranks, and removes their files.
        ask_to_end(self.processes())
        # Processes that are being ended may start others a few times.
        for _ in range(20):
            found = self.processes()
            if not found:
                return
            for process in found:
                end(process)
        raise Refused(f"processes on hosts of {self.name} do not end: {found}")

    def traffic(self):
        """The bytes and packets that each host's link has carried. A packet is what the kernel moves as one: up to 64
        KB if TCP sends much."""
        rows = []
        for name in self.names:
            stats = json.loads(run(f"ip -n {name} -j -s link show eth0"))[0]["stats64"]
            rows.append({"host": name,
                         "sent_bytes": stats["tx"]["bytes"], "sent_packets": stats["tx"]["packets"],
                         "received_bytes": stats["rx"]["bytes"], "received_packets": stats["rx"]["packets"]})
        return rows


def remove_files_of_jobs(host):
    """Removes the files that killed MPI jobs have left. No other host has this name."""
    for folder in {tempfile.gettempdir(), "/dev/shm"}:
        for pattern in LEFT_BY_JOBS:
            for path in pathlib.Path(folder).glob(pattern.format(host=host)):
                if path.is_dir():
                    shutil.rmtree(path, ignore_errors=True)
                else:
                    path.unlink(missing_ok=True)


def ask_to_end(processes):
    """Waits until all have, up to PATIENCE_SECONDS."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    with contextlib.ExitStack() as stack:
        handles = [stack.enter_context(signalled(process, signal.SIGTERM)) for process in processes]
        for handle in handles:
            await_end(handle, deadline - time.monotonic())


def end(process):
    """Kills it, and waits until it has gone."""
    with signalled(process, signal.SIGKILL) as handle:
        await_end(handle, PATIENCE_SECONDS)


@contextlib.contextmanager
def signalled(process, number):
    """Its handle, or None if it has gone."""
    try:
        handle = os.pidfd_open(process)
    except ProcessLookupError:
        yield None
        return
    try:
        with contextlib.suppress(ProcessLookupError):
            signal.pidfd_send_signal(handle, number)
        yield handle
    finally:
        os.close(handle)


def await_end(handle, seconds):
    if handle is not None:
        poll = select.poll()
        poll.register(handle, select.POLLIN)
        poll.poll(max(0, seconds * 1000))
