"""A launcher over emulated hosts, and an ssh that goes there."""
import os
import pathlib
import shlex
import shutil
import sys
import tempfile
import unittest

from launching import LAUNCH, ROOT, LaunchCase, add_ssh

sys.path.insert(0, str(ROOT / "test/lab"))
import hosts
from registry import made


class HostsCase(LaunchCase):
    """`folder` has the host file, and launchers start in it, on the first host."""

    NAMING, COUNT = hosts.Lab.naming, 2

    def setUp(self):
        super().setUp()
        self.hosts = self.enterContext(made(hosts.Lab(f"launch{os.getpid()}", (1,) * self.COUNT, naming=self.NAMING)))
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "bin").mkdir()
        add_ssh(self.folder / "bin")
        self.write_hosts(*self.hosts.names)

    def write_hosts(self, *lines):
        (self.folder / "hosts").write_text("".join(f"{line}\n" for line in lines))

    def add_program(self, name, text):
        """Adds a program on all hosts, in front of other programs of the same name."""
        (self.folder / "bin" / name).write_text(text)
        (self.folder / "bin" / name).chmod(0o755)

    def start(self, *words, **env):
        line = ["env", "-C", str(self.folder), sys.executable, str(LAUNCH), "--mode", "mpi", "-H", "hosts",
                "--env", "LAUNCH_TEST_MARK", *map(str, words)]
        return super().start(command=hosts.enter(self.hosts.names[0], shlex.join(line)),
                             **{"PATH": f"{self.folder}/bin:{os.environ['PATH']}", "DMLC_INTERFACE": "eth0", **env})


def main():
    reason = hosts.why_not() or ("" if shutil.which("rsync") else "copying files to hosts needs rsync")
    if reason:
        print(f"skipped: {reason}")
        sys.exit(hosts.SKIPPED)
    unittest.main()
