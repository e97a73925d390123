#!/usr/bin/env python3
"""A container's filter refuses system calls: jobs go on without them, or the error says what to allow.

    test_refused_calls.py TRAIN LAUNCHER TUTTI_SERVER
"""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import forbidding

LIMIT = 300
TRAIN, LAUNCHER, SERVER = map(os.path.abspath, sys.argv[1:4])
# The line that a process without pidfds prints once.
WITHOUT = ("pidfd_open: Operation not permitted; perhaps a container's seccomp filter refuses it; let the filter "
           "allow pidfd_open")


def run(call, *words):
    """(exit code, output) of a program for which this call is refused."""
    done = subprocess.run(forbidding.words([call], *words), check=False, stdin=subprocess.DEVNULL, timeout=LIMIT,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env={
                              **os.environ, "PATH": f"{os.path.dirname(SERVER)}:{os.environ['PATH']}",
                              "OMP_NUM_THREADS": "1"})
    return done.returncode, done.stdout


def train(store):
    return [TRAIN, "--network", "mlp", "--kv-store", store, "--epochs", "1"]


class Calls(unittest.TestCase):
    def test_a_job_goes_on_without_pidfds_and_each_process_says_once_what_to_allow(self):
        code, said = run("pidfd_open", "mpirun", "-n", "2", "--oversubscribe", *train("dist_sync_mpi"))
        self.assertEqual(code, 0, said)
        self.assertEqual(said.count(WITHOUT), 2, said)

    def test_a_server_writes_its_state_itself_where_it_could_watch_no_process_that_does(self):
        with tempfile.TemporaryDirectory() as folder:
            code, said = run("pidfd_open", sys.executable, LAUNCHER, "-n", "1", "-s", "1", "--launcher", "local",
                             "--server-state", folder, *train("dist_sync"))
            self.assertEqual(code, 0, said)
            self.assertIn(f"[server 0] {said.partition('[server 0] ')[2].partition('pidfd')[0]}{WITHOUT}", said)
            self.assertTrue(list(pathlib.Path(folder).rglob("*")), "the state is there")

    def test_without_memory_files_the_error_names_the_call_and_the_cure(self):
        code, said = run("memfd_create", "mpirun", "-n", "2", "--oversubscribe", *train("dist_sync_mpi"))
        self.assertNotEqual(code, 0)
        self.assertRegex(said, "cannot create shared memory for .*: Operation not permitted; memfd_create is "
                               "refused, as by a container's seccomp filter: let the filter allow it")


if __name__ == "__main__":
    if forbidding.why_not():
        print(f"skipped: {forbidding.why_not()}")
        sys.exit(77)
    del sys.argv[1:4]
    unittest.main()
