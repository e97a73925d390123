#!/usr/bin/env python3
"""Things that the machine refuses the launcher: the result is an error of one line, or a job that goes on without the
thing.
"""
import errno
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

import forbidding
from launching import LAUNCH, LOCAL, ROOT, LaunchCase

sys.path.insert(0, str(ROOT / "scripts"))

from launcher import beginning, helper, memory_file, shim

SERVER = "#!/bin/sh\nexec sleep 600\n"


class Refused(LaunchCase):
    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.path = f"{self.folder}:{os.environ['PATH']}"
        self.add("tutti-server", SERVER)

    def add(self, name, text):
        (self.folder / name).write_text(text)
        (self.folder / name).chmod(0o755)

    def local(self, *words, **how):
        return self.launch("-n", 1, "-s", 1, *LOCAL, *words, **{"PATH": self.path, **how})

    def assert_one_line(self, err, text):
        self.assertRegex(err, rf"\Alaunch.py: .*{text}.*\n\Z")

    def test_a_current_folder_that_was_removed(self):
        gone = f'mkdir {self.folder}/gone && cd {self.folder}/gone && rmdir {self.folder}/gone && exec "$@"'
        for words in ((), ("--mode", "mpi")):
            code, _, err = self.launch("-n", 1, *LOCAL, *words, "true",
                                       command=("sh", "-c", gone, "sh", sys.executable, str(LAUNCH)))
            self.assertEqual(code, 2, err)
            self.assert_one_line(err, "the current folder, in which workers start: No such file or directory; it was")

    def test_ctrl_c_before_the_job_starts(self):
        (self.folder / "hosts").write_text("nowhere\n")
        self.add("ssh", "#!/bin/sh\necho up >&2\nexec sleep 600\n")
        self.add("rsync", "#!/bin/sh\nexit 1\n")
        process = self.start("-n", 1, "-H", self.folder / "hosts", "--sync-dst-dir", "/tmp/x", "true", PATH=self.path)
        self.wait_until(lambda: len(self.marked()) > 1, "ssh runs")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130, err)
        self.assert_one_line(err, "ended by SIGINT")
        self.wait_until(lambda: not self.marked(), "ssh has ended, too")

    def test_a_command_that_is_too_long_for_the_kernel(self):
        code, _, err = self.launch("-n", 1, *LOCAL, "--mode", "mpi", "true", '"' * 70_000)  # twice as many in JSON
        self.assertEqual(code, 1, err)
        self.assertRegex(err, "launch.py: .*Argument list too long")
        self.assertNotIn("Traceback", err)

    def test_a_port_that_another_job_has_is_in_the_last_line(self):
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            code, _, err = self.local("sleep 600", DMLC_PS_ROOT_PORT=port)
        self.assertEqual(code, 2, err)
        self.assertRegex(err.splitlines()[-1], f"DMLC_PS_ROOT_PORT={port}: Address already in use; choose another port")

    @unittest.skipIf(forbidding.why_not(), forbidding.why_not())
    def test_memfd_create_is_done_without(self):
        code, out, err = self.local("echo well", command=forbidding.words(["memfd_create"], sys.executable, LAUNCH))
        self.assertEqual((code, out), (0, "[worker 0] well\n"), err)


class Parts(unittest.TestCase):
    def test_a_file_in_memory_that_cannot_be_made_in_either_way_names_both_and_the_cure(self):
        refusal = OSError(errno.EPERM, "Operation not permitted")
        with mock.patch.object(memory_file.os, "memfd_create", side_effect=refusal), \
                mock.patch.object(memory_file, "SHARED_MEMORY", "/no/such/folder"):
            with self.assertRaisesRegex(OSError, "memfd_create: Operation not permitted, which a container's .*; "
                                                 "/no/such/folder: No such file .* mount a tmpfs"):
                memory_file.file_of(b"secret")

    def test_a_command_without_a_terminal_gets_a_pipe_and_that_is_said(self):
        one = shim.Shim.__new__(shim.Shim)
        one.send_line = mock.Mock()
        with mock.patch.object(shim.os, "openpty", side_effect=OSError(errno.ENOENT, "No such file or directory")):
            ours, theirs = one.open_output()
        os.write(theirs, b"x")
        self.assertEqual(os.read(ours, 2), b"x")
        os.close(ours)
        os.close(theirs)
        self.assertRegex(one.send_line.call_args.args[0],
                         r"no terminal can be opened on \S+ \(No such file or directory\).*mount devpts at /dev/pts")

    def test_a_folder_that_a_host_does_not_open_is_no_crash_of_its_helper(self):
        told = {"groups": [{"count": 1, "command": ["true"]}], "folder": "/x", "folder_owner": 0}
        for error, text in ((OSError(errno.ESTALE, "Stale file handle", "/x"), "/x: Stale file handle"),
                            (PermissionError("not yours"), "not yours"),
                            (beginning.CannotBegin("no"), "no")):
            with mock.patch.object(shim, "Shim") as made, mock.patch.object(shim, "enter_folder", side_effect=error):
                shim.enter(None, told, 0, os.getppid())
            made.return_value.give_up.assert_called_once_with(text)

    def test_an_old_python_on_a_host_is_named_with_the_host(self):
        program = helper.source("trust", "destination")
        with mock.patch.object(sys, "version_info", (3, 8, 1)), self.assertRaises(SystemExit) as ended:
            exec(compile(program, "helper", "exec"), {})
        self.assertRegex(ended.exception.code, r"impossible: \S+ has Python 3\.8, and the launcher needs 3\.9 or newer")

    def run_alone(self, module, told, **env):
        done = subprocess.run([sys.executable, "-I", "-S", str(ROOT / "scripts/launcher" / module)], check=False,
                              input=json.dumps(told), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              env={**os.environ, **env})
        self.assertNotIn("Traceback", done.stdout)
        return done.returncode, done.stdout

    def test_a_home_without_room_for_a_batch_systems_file(self):
        code, said = self.run_alone("submit.py", {"words": ["true"], "file": "", "script": ""}, HOME="/proc/none")
        self.assertEqual(code, 1)
        self.assertRegex(said, "launch.py, impossible: no job can be submitted: /proc/none/.*: No such file")

    def test_a_program_that_cannot_be_started(self):
        one = {"title": "worker 0", "host": "h0", "words": ["/no/such/program"], "told": ""}
        code, said = self.run_alone("crew.py", [one])
        self.assertEqual(code, 1)
        self.assertRegex(said, "launch.py, impossible: .*/no/such/program: No such file or directory")


if __name__ == "__main__":
    unittest.main()
