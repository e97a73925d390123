#!/usr/bin/env python3
"""Hosts whose names mpirun does not distinguish, hosts with users, and hosts by address, over emulated hosts."""
import re
import shutil
import sys

from launching import add_ssh
from launching_hosts import HostsCase, main

RANK = "$OMPI_COMM_WORLD_RANK"
SERVER = "#!/bin/sh\nexec sleep 600\n"
# An mpirun that takes hosts for one whose first labels are equal.
WITHOUT_WHOLE_NAMES = f"""
import os, sys
words = sys.argv[1:]
if "orte_keep_fqdn_hostnames" in words:
    at = words.index("orte_keep_fqdn_hostnames")
    del words[at - 1:at + 2]
os.execv("{shutil.which('mpirun')}", ["mpirun", *words])
"""
# A host from which the launcher cannot be reached.
CUT_OFF = """#!/bin/sh
[ "$(hostname)" = {} ] && export TUTTI_LAUNCH_CONTACT="${{TUTTI_LAUNCH_CONTACT%@*}}@127.0.0.1:1"
exec {} "$@"
"""


class Names(HostsCase):
    NAMING, COUNT = "{}.{}.job", 3  # as of the pods of a job: the first labels are equal

    def where(self, *words, **env):
        """{rank: host} of a job of two workers."""
        code, out, err = self.launch("-n", 2, *words, f"echo at $(hostname), ${{DMLC_RANK:-{RANK}}}", **env)
        self.assertEqual(code, 0, err)
        return {int(rank): host for host, rank in re.findall(r"\] at (\S+), (\d)", out)}

    def test_hosts_whose_first_labels_are_equal_get_a_worker_each(self):
        _, first, second = self.hosts.names
        self.add_program("tutti-server", SERVER)
        self.write_hosts(first, second)
        for words in ((), ("--mode", "ps"), ("--mode", "ps", "--launcher", "mpi")):
            self.assertEqual(self.where(*words), {0: first, 1: second}, words)

    def test_one_host_that_is_named_like_the_launchers_own_gets_its_workers(self):
        self.write_hosts(self.hosts.names[1])
        self.assertEqual(set(self.where().values()), {self.hosts.names[1]})

    def test_hosts_with_users_and_counts_run_in_every_mode(self):
        _, first, second = self.hosts.names
        self.add_program("tutti-server", SERVER)
        self.write_hosts(f"root@{first}:1", f"root@{second} slots=1")
        for words in ((), ("--mode", "ps"), ("--mode", "ps", "--launcher", "mpi")):
            self.assertEqual(self.where(*words), {0: first, 1: second}, words)
        self.assertEqual(self.where("--sync-dst-dir", self.folder / "target"), {0: first, 1: second})

    def test_hosts_may_be_named_by_address(self):
        _, first, second = self.hosts.names
        self.write_hosts(self.hosts.addresses[1], f"root@{self.hosts.addresses[2]}")
        self.assertEqual(self.where(), {0: first, 1: second})

    def test_a_name_with_which_mpirun_would_hang_is_refused_before_it_starts(self):
        for name in ("under_score", "root@2001:db8::1", "größe"):
            self.write_hosts(name)
            code, _, err = self.launch("-n", 1, "true")
            self.assertEqual(code, 2, err)
            self.assertRegex(err, f"{name}: mpirun does not accept this name of a host; .*letters, .*IPv4")

    def test_a_job_that_mpirun_puts_on_fewer_hosts_than_it_was_meant_for_is_ended(self):
        _, first, second = self.hosts.names
        self.write_hosts(first, second)
        self.add_program("mpirun", f"#!{sys.executable}\n{WITHOUT_WHOLE_NAMES}")
        code, _, err = self.launch("-n", 2, "sleep 600")
        self.assertEqual(code, 1, err)
        self.assertRegex(err, f"meant for 2 hosts, {first}, {second}, and runs on 1: worker 0, worker 1 are on ")
        self.assert_nothing_left()


class Impossible(HostsCase):
    def setUp(self):
        super().setUp()
        # One that is called by its path has its own folder searched before all others.
        self.add_program("mpirun", f"#!{sys.executable}\n{WITHOUT_WHOLE_NAMES}")
        add_ssh(self.folder / "bin", f"{self.folder}/bin:/usr/local/bin:/usr/bin:/bin")

    def test_a_helper_that_cannot_reach_the_launcher_ends_the_job_at_once_and_says_why_last(self):
        second = self.hosts.names[1]
        self.add_program("python3", CUT_OFF.format(second, sys.executable))
        code, _, err = self.launch("-n", 2, "sleep 600")
        self.assertEqual(code, 1, err)
        self.assertRegex(err.splitlines()[-1], f"launch.py: {second} cannot reach the launcher at 127.0.0.1:1:.*DMLC_")
        self.assert_nothing_left()

    def test_so_does_a_command_that_one_host_lacks(self):
        second, folder = self.hosts.names[1], self.folder / "only"
        folder.mkdir()
        (folder / "sleeps").symlink_to("/bin/sleep")
        self.add_program("python3", f"#!/bin/sh\n[ $(hostname) = {second} ] && mount -t tmpfs none {folder}\n"
                                    f'exec {sys.executable} "$@"\n')
        code, _, err = self.launch("-n", 2, "--grace", 600, folder / "sleeps", 600)
        self.assertEqual(code, 127, err)
        self.assertIn(f"worker 1 on {second} was the first to fail", err)
        self.assert_nothing_left()


if __name__ == "__main__":
    main()
