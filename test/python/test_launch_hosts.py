#!/usr/bin/env python3
"""scripts/launch.py --mode mpi --launcher ssh, over two emulated hosts and an ssh that goes there."""
import sys

from launching import COUNTS
from launching_hosts import HostsCase, main

RANK = "$OMPI_COMM_WORLD_RANK"
# Passes bytes on, the first of them together, though .bashrc and the helper write one after the other.
TOGETHER = r"""
import os
first = b""
while not first.endswith(b"up\n"):
    first += os.read(0, 1) or exit()
os.write(1, first)
while data := os.read(0, 4096):
    os.write(1, data)
"""


class TwoHosts(HostsCase):
    def test_workers_run_on_their_hosts_in_the_copied_folder_with_their_environment(self):
        target = self.folder / "target"
        (self.folder / "job.sh").write_text(f'echo "$(hostname) {RANK} $(pwd) $PS_VERBOSE $TUTTI_MODE"\n')
        code, out, err = self.launch("-n", 3, "--sync-dst-dir", target, "sh job.sh", PS_VERBOSE="1")
        self.assertEqual(code, 0, err)
        first, second = self.hosts.names
        for rank, host in enumerate((first, first, second)):
            self.assertIn(f"[worker {rank}] {host} {rank} {target} 1 mpi\n", out)
        for host in (first, second):
            self.assertRegex(out, rf"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d rsync {self.folder}/ -> {host}:{target}\n")

    def test_the_first_failure_is_named_with_its_host(self):
        code, out, err = self.launch("-n", 2, f"[ {RANK} = 1 ] && kill -SEGV $$; sleep 1; echo saved")
        self.assertEqual(code, 139, err)
        self.assertIn(f"worker 1 on {self.hosts.names[1]} was the first to fail", err)
        self.assertIn("SIGSEGV", err)
        self.assertIn("[worker 0] saved", out)

    def test_a_signal_that_announces_something_reaches_each_worker_once(self):
        self.assert_announced_once(2, self.start("-n", 2, sys.executable, "-c", COUNTS))

    def test_a_launcher_that_is_killed_leaves_nothing_on_any_host(self):
        process = self.start("-n", 2, "setsid sleep 600 & (trap '' TERM; echo up; sleep 600)")
        self.wait_for_lines(process, 2, "up")
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()
        self.assert_nothing_left()

    def test_what_env_sets_is_for_the_workers_and_changes_no_ssh(self):
        ssh = self.folder / "bin/ssh"
        ssh.write_text(ssh.read_text().replace("while", f'echo "seen $LD_LIBRARY_PATH" >>{self.folder}/seen\nwhile', 1))
        code, out, err = self.launch("-n", 2, "--env", "LD_LIBRARY_PATH=/only/workers", "echo got $LD_LIBRARY_PATH",
                                     LD_LIBRARY_PATH="/own")
        self.assertEqual((code, out.count("got /only/workers\n")), (0, 2), err)
        seen = (self.folder / "seen").read_text()
        self.assertIn("/own\n", seen)
        self.assertNotIn("/only/workers", seen)

    def test_a_variable_can_be_kept_from_travelling(self):
        for words in ((), ("--mode", "ps", "-s", "1")):
            (self.folder / "bin/tutti-server").write_text("#!/bin/sh\nexec sleep 600\n")
            (self.folder / "bin/tutti-server").chmod(0o755)
            command = ("-n", 2, *words, "--no-env", "PYTHONPATH", "echo PYTHONPATH=$PYTHONPATH, $DMLC_X")
            code, out, err = self.launch(*command, PYTHONPATH="/only/here", DMLC_X="x")
            self.assertEqual(code, 0, err)
            self.assertIn("[worker 1] PYTHONPATH=, x\n", out)

    def test_a_program_or_module_that_a_host_lacks_is_named_with_the_host_and_where_it_was_looked_for(self):
        for words, said in ((("no-such-program", "1"), r"start no-such-program: No such file .*; on {} PATH there"),
                            (("no-such-program 1",), r"not found\n(.*\n)*.*: on {} python3 is .*, PATH there is /"),
                            (("python3", "-m", "no_such"), r"launch.py: on {} python3 is /\S+, PATH there is /"),
                            (("python3", "-c", "import no_such"), r"on {} python3 is .*, PYTHONPATH there is not set")):
            with self.subTest(words):
                code, _, err = self.launch("-n", 2, "--no-env", "PYTHONPATH", *words)
                self.assertNotEqual(code, 0)
                self.assertRegex(err, said.format(f"(?:{'|'.join(self.hosts.names)})"))

    def test_what_a_bashrc_prints_without_an_end_of_line_keeps_no_job_from_running(self):
        ssh = self.folder / "bin/ssh"
        text = ssh.read_text().replace("cd /; ", "cd /; printf 'Welcome to h0'; ").replace("exec env", "env")
        ssh.write_text(f"{text.rstrip()} | {sys.executable} -c '{TOGETHER}'\n")
        server = self.folder / "bin/tutti-server"
        server.write_text("#!/bin/sh\nexec sleep 600\n")
        server.chmod(0o755)
        code, out, err = self.launch("-n", 2, "-s", 1, "--mode", "ps", "echo hello")
        self.assertEqual((code, out.count("hello")), (0, 2), err)

    def test_so_does_a_folder_that_is_refused_say_why(self):
        ssh = self.folder / "bin/ssh"
        ssh.write_text(ssh.read_text().replace("cd /; ", "cd /; printf 'Welcome to h0'; "))
        code, _, err = self.launch("-n", 1, "--sync-dst-dir", "/proc", "true")
        self.assertEqual(code, 2, err)
        self.assertRegex(err, "--sync-dst-dir /proc: on .*must be a folder that the launcher makes")

    def test_a_host_that_ssh_cannot_reach_is_an_error_that_shows_what_ssh_said(self):
        (self.folder / "hosts").write_text("nowhere\n")
        code, _, err = self.launch("-n", 1, "true")
        self.assertNotEqual(code, 0)
        self.assertIn("nowhere", err)
        code, _, err = self.launch("-n", 1, "--sync-dst-dir", self.folder / "target", "true")
        self.assertEqual(code, 2, err)
        self.assertIn("--sync-dst-dir", err)
        self.assertIn("ssh to nowhere failed", err)


if __name__ == "__main__":
    main()
