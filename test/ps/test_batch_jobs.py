#!/usr/bin/env python3
"""Jobs of scripts/launch.py in batch systems, against submitters that run the job script they are given, and of mpirun.

    test_batch_jobs.py TUTTI_SERVER TRAIN [mpi]

With mpi, TRAIN knows stores of MPI.
"""
import json
import os
import pathlib
import re
import signal
import stat
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from launching import CARRIED, LaunchCase

SERVER, TRAIN = sys.argv[1], sys.argv[2]
HAS_MPI = sys.argv[3:] == ["mpi"]
# The submitter leaves its arguments in its folder. Every task has a bare environment and another folder than the job's.
SUBMITTER = """#!{python}
import json, os, pathlib, subprocess, sys
here = pathlib.Path(__file__).parent
words = sys.argv[1:]
{parse}
(here / "submitted").write_text(json.dumps({{"words": words, "script": script, "variables": dict(os.environ)}}))
said = open(words[words.index("-o") + 1], "a") if "-o" in words else None
bare = {{"PATH": "/usr/local/bin:/usr/bin:/bin", "LAUNCH_TEST_MARK": os.environ["LAUNCH_TEST_MARK"]}}
tasks = [subprocess.Popen(["/bin/sh", "-c", script], cwd="/", env={{**bare, "{index}": str(i)}},
                          stdin=subprocess.DEVNULL, stdout=said, stderr=said)
         for i in range(1, count + 1)]
sys.exit(max(task.wait() for task in tasks))
"""
QSUB = """
script = sys.stdin.read()
count = int(words[words.index("-t") + 1].removeprefix("1-")) if "-t" in words else 1
"""
YARN = """
script = pathlib.Path(words[words.index("-shell_script") + 1]).read_text()
count = int(words[words.index("-num_containers") + 1])
"""
QCONF = "#!/bin/sh\necho make\necho orte\n"


def weights(text):
    return re.findall(r"rank \d weights sha256 (\w+)", text)


@unittest.skipUnless(HAS_MPI, "a build without MPI")
class Mpirun(LaunchCase):
    """It starts workers, servers and scheduler, outside any batch system."""

    def environment(self, **more):
        path = f"{pathlib.Path(SERVER).absolute().parent}:{os.environ['PATH']}"
        return super().environment(**{"PATH": path, "TUTTI_CREATE_SECONDS": "30", **more})

    def job(self, *words):
        return self.start("--launcher", "mpi", "-n", 2, "-s", 2, "--env", "LAUNCH_TEST_MARK", *CARRIED, "--grace", 10,
                          *words)

    def test_workers_train_over_servers_that_mpirun_has_started(self):
        process = self.job(TRAIN, "--network", "mlp", "--kv-store", "dist_sync", "--epochs", 1)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn("store dist_sync: workers 2", out)
        self.assertEqual((len(weights(out)), len(set(weights(out)))), (2, 1), out)
        self.assert_nothing_left()

    def test_a_worker_and_a_server_that_are_killed_are_named(self):
        for role in ("worker", "server"):
            with self.subTest(role):
                process = self.job(TRAIN, "--network", "mlp", "--kv-store", "dist_sync", "--epochs", 100000)
                self.wait_for_lines(process, 1, "Epoch 0: Train_loss")
                self.kill(role, 1)
                _, err = process.communicate(timeout=60)
                self.assertEqual(process.returncode, 128 + signal.SIGKILL, err)
                self.assertRegex(err, rf"{role} 1 on .* was the first to fail: it was ended by signal 9")
                self.assert_nothing_left()


class Submitted(LaunchCase):
    def setUp(self):
        super().setUp()
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        for name, text in (("qsub", SUBMITTER.format(python=sys.executable, parse=QSUB, index="SGE_TASK_ID")),
                           ("yarn", SUBMITTER.format(python=sys.executable, parse=YARN, index="YARN_SHELL_ID")),
                           ("qconf", QCONF)):
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)
        jars = self.folder / "share/hadoop/yarn"
        jars.mkdir(parents=True)
        (jars / "hadoop-yarn-applications-distributedshell-3.3.6.jar").touch()

    def environment(self, **more):
        path = f"{self.folder}:{pathlib.Path(SERVER).absolute().parent}:{os.environ['PATH']}"
        return super().environment(**{"PATH": path, "HADOOP_HOME": str(self.folder), "HOME": str(self.folder),
                                      "TUTTI_CREATE_SECONDS": "30", **more})

    def submitted(self):
        return json.loads((self.folder / "submitted").read_text())

    def job(self, system, *words, **env):
        return self.launch("--launcher", system, "--env", "LAUNCH_TEST_MARK", *CARRIED, *words, **env)

    def test_each_task_takes_its_role_from_its_index_and_they_train(self):
        for system, tasks in (("sge", "-t 1-5"), ("yarn", "-num_containers 5")):
            with self.subTest(system):
                code, out, err = self.job(system, "-n", 2, TRAIN, "--network", "mlp", "--kv-store", "dist_sync",
                                          "--epochs", 1)
                self.assertEqual(code, 0, err)
                self.assertEqual(len(weights(out)), 2, out)
                self.assertEqual(len(set(weights(out))), 1, out)
                self.assertIn(tasks, " ".join(self.submitted()["words"]))
                self.assert_nothing_left()

    @unittest.skipUnless(HAS_MPI, "a build without MPI")
    def test_in_mode_mpi_the_job_runs_mpirun(self):
        for system in ("sge", "yarn"):
            with self.subTest(system):
                code, out, err = self.job(system, "-n", 2, "--mode", "mpi", TRAIN, "--network", "mlp", "--kv-store",
                                          "dist_sync", "--epochs", 1)
                self.assertEqual(code, 0, err)
                self.assertEqual(len(set(weights(out))), 1, out)
                self.assertIn("store dist_sync_mpi: workers 2", out)
        code, _, err = self.job("sge", "-n", 2, "--mode", "mpi", "true")
        self.assertEqual(code, 0, err)
        self.assertIn("-pe orte 2", " ".join(self.submitted()["words"]))

    def test_why_mpirun_is_not_started_in_a_job_is_said_by_the_launcher(self):
        for system in ("sge", "yarn"):
            with self.subTest(system):
                code, _, err = self.job(system, "-n", 2, "--mode", "mpi", "--env", "PATH=/nowhere", "true")
                self.assertNotEqual(code, 0, err)
                self.assertIn("mpirun is not in PATH", err)
                self.assertEqual(list(self.folder.glob(".tutti-launch-*")), [])

    def test_the_command_starts_where_the_launcher_was_started_with_its_variables(self):
        code, out, err = self.job("sge", "-n", 1, "-s", 1, 'echo "$(pwd) $PS_X $DMLC_ROLE"', PS_X="a b")
        self.assertEqual((code, out), (0, f"[worker 0] {os.getcwd()} a b worker\n"), err)

    def test_what_grid_engine_shows_everyone_has_no_secret_and_the_file_that_has_them_goes(self):
        process = self.start("--launcher", "sge", "--env", "LAUNCH_TEST_MARK", "-n", 1, "-s", 1, "echo up; sleep 600")
        self.wait_for_lines(process, 1, "up")
        file, = self.folder.glob(".tutti-launch-*")
        self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o600)
        # With -V, which sites may put into every job, it shows all variables of the submitter.
        shown = json.dumps(self.submitted())
        for secret in ("TUTTI_JOB_KEY", "TUTTI_LAUNCH_CONTACT"):
            self.assertNotIn(re.search(rf'"{secret}": "(\w{{32,64}})', file.read_text())[1], shown)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130)
        self.assert_nothing_left()
        self.assertEqual(list(self.folder.glob(".tutti-launch-*")), [])

    def test_the_first_failure_is_the_launchers_exit_code(self):
        code, _, err = self.job("yarn", "-n", 2, '[ "$DMLC_RANK" = 1 ] && exit 7; sleep 1')
        self.assertEqual(code, 7, err)
        self.assertIn("worker 1 on", err[err.index("was the first to fail") - 60:])

    def test_without_its_submitter_a_system_is_refused_by_name(self):
        for system, words in (("sge", "needs qsub"), ("yarn", "needs Hadoop's distributed shell.*HADOOP_HOME"),
                              ("slurm", "needs srun")):
            code, _, err = self.launch("--launcher", system, "-n", 1, "true", HADOOP_HOME="",
                                       PATH=str(pathlib.Path(SERVER).absolute().parent))
            self.assertEqual(code, 2, err)
            self.assertRegex(err, words)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0]])
