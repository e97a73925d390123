#!/usr/bin/env python3
"""A job by hand whose root is a host's name, which leads elsewhere on each host.

    test_names.py TUTTI_SERVER STEPS
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from processes import Job

SKIPPED = 77
SERVER, STEPS = sys.argv[1:3]
OWN_HOSTS = ["unshare", "--mount", "sh", "-c", 'mount --bind "$0" /etc/hosts && exec "$@"']


def may_have_own_hosts():
    return os.geteuid() == 0 and subprocess.run([*OWN_HOSTS, "/etc/hosts", "true"], stderr=subprocess.DEVNULL,
                                                check=False).returncode == 0


class NamedJob(Job):
    """Scheduler and servers are on the host whose own name is the root's, and workers on another."""

    def __init__(self, folder, **env):
        self.folder = pathlib.Path(folder)
        # The file is like Debian's, and the name also leads to the network.
        (self.folder / "here").write_text("127.0.0.1 localhost\n127.0.1.1 first-of-two\n")
        (self.folder / "elsewhere").write_text("127.0.0.1 localhost\n127.0.0.9 first-of-two\n")
        super().__init__(SERVER, STEPS, workers=1, DMLC_PS_ROOT_URI="first-of-two", **env)

    def start(self, role, words, rank=None, **env):
        hosts = self.folder / ("elsewhere" if role == "worker" else "here")
        return super().start(role, [*OWN_HOSTS, hosts, *words], rank, **env)


class Names(unittest.TestCase):
    def test_a_name_that_leads_to_its_hosts_loopback_interface_there_serves_other_hosts_too(self):
        with tempfile.TemporaryDirectory() as folder:
            job = NamedJob(folder, PS_RESEND="1", PS_VERBOSE="1", TUTTI_LOG="info", TUTTI_CREATE_SECONDS="10")
            self.addCleanup(job.close)
            server = job.start_server(0)
            workers = job.start_workers("dist_sync", "mixed", 20, 5000)
            for one in [*workers, server, job.scheduler]:
                self.assertEqual(one.end(), 0, str(job))
            self.assertIn("here first-of-two leads to 127.0.1.1 alone", job.scheduler.text)
            address = re.search(r"worker 0 is connected to server 0 at ([\d.]+):", workers[0].text)
            self.assertTrue(address, str(job))
            others = subprocess.run(["hostname", "-I"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
            if others:
                self.assertIn(address[1], others)


if __name__ == "__main__":
    if not may_have_own_hosts():
        print("skipped: it needs the right to mount a hosts file")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
