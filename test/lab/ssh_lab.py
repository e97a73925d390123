"""Code that the tests of jobs over ssh share: hosts with a real sshd, and launchers on the first of them."""
import os
import pathlib
import shlex
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "test/python"), str(ROOT / "test/lab")]
import hosts
import sshd
from launching import CARRIED, LAUNCH, LaunchCase
from registry import made

#: A second network of the hosts, beside that of their names.
SECOND = "eth1"


def why_not():
    return hosts.why_not() or sshd.why_not()


def add_second_network(lab):
    hosts.run(f"ip -n {lab.switch} link add second type bridge")
    hosts.run(f"ip -n {lab.switch} link set second up")
    for i, name in enumerate(lab.names):
        hosts.run(f"ip -n {name} link add {SECOND} type veth peer name more{i} netns {lab.switch}")
        hosts.run(f"ip -n {name} addr add 10.98.0.{i + 1}/24 dev {SECOND}")
        hosts.run(f"ip -n {name} link set {SECOND} up")
        hosts.run(f"ip -n {lab.switch} link set more{i} master second up")


class SshCase(LaunchCase):
    """COUNT hosts for all tests of a class; `folder` has the host file, and launchers start in it."""

    COUNT = 2
    PATH = "/usr/local/bin:/usr/bin:/bin"
    NAMED = None  # the name that all hosts have by themselves, whatever the table of hosts calls them

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.top = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.lab = cls.enterClassContext(made(hosts.Lab(f"ssh{os.getpid()}", (1,) * cls.COUNT)))
        cls.names = cls.lab.names
        add_second_network(cls.lab)
        cls.bin = cls.enterClassContext(sshd.served(cls.lab, cls.top, cls.NAMED))
        cls.idle = set(cls.lab.processes())

    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.write_hosts(self.names)

    def write_hosts(self, names):
        (self.folder / "hosts").write_text("".join(f"{name}\n" for name in names))

    def start(self, *words, **env):
        line = ["env", "-C", str(self.folder), sys.executable, str(LAUNCH), "--env", "LAUNCH_TEST_MARK",
                *CARRIED, *map(str, words)]
        return super().start(command=hosts.enter(self.names[0], shlex.join(line), self.NAMED), **{
            "PATH": f"{self.bin}:{self.PATH}", "TUTTI_CREATE_SECONDS": "30", **env})

    def over_hosts(self, *words, **env):
        return self.launch("-H", "hosts", *words, **env)

    def assert_hosts_are_idle(self, seconds=20):
        """Nothing of a job runs on any host, its helpers included."""
        self.wait_until(lambda: set(self.lab.processes()) <= self.idle, "nothing of the job runs on a host", seconds)

    def traffic(self, interface):
        """Bytes that each host has sent there."""
        count = "cat /sys/class/net/{}/statistics/tx_bytes"
        return [int(hosts.run(f"ip netns exec {name} {count.format(interface)}")) for name in self.names]
