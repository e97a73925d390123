"""Tests jobs under Slurm: jobs that the launcher starts, and jobs that srun starts without it.

    test_slurm_jobs.py TUTTI_SERVER TRAIN
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/python"))
import slurm
from launching import ANNOUNCING, COUNTS, LaunchCase, variables_of

SKIPPED = 77
SERVER, TRAIN = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])  # for programs in other folders
SHORT = (TRAIN, "--network", "mlp", "--kv-store", "dist_sync", "--epochs", 1)
# A task's role by its index, as a user would write it who has no launcher.
BY_HAND = """
export DMLC_PS_ROOT_URI=127.0.0.1 DMLC_PS_ROOT_PORT=29413 DMLC_NUM_WORKER=2 DMLC_NUM_SERVER=1
case $SLURM_PROCID in
  0) DMLC_ROLE=scheduler exec {server};;
  1) DMLC_ROLE=server exec {server};;
  *) DMLC_ROLE=worker exec {train} --network mlp --kv-store dist_sync --epochs 1;;
esac
"""


class Slurm(LaunchCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.top = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.configuration = cls.enterClassContext(slurm.running(cls.top))

    def environment(self, **more):
        path = f"{pathlib.Path(SERVER).absolute().parent}:{os.environ['PATH']}"
        return super().environment(**{"PATH": path, "SLURM_CONF": str(self.configuration),
                                      "TUTTI_CREATE_SECONDS": "30", **more})

    def run_words(self, *words, **env):
        done = subprocess.run([str(word) for word in words], env=self.environment(**env), text=True, check=False,
                              timeout=60, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual(done.returncode, 0, done.stdout)
        return done.stdout

    def jobs(self):
        return self.run_words("squeue", "--noheader")

    def weights(self, out, count=2):
        found = re.findall(r"rank \d weights sha256 (\w+)", out)
        self.assertEqual((len(found), len(set(found))), (count, 1), out)

    def test_each_task_takes_its_role_from_its_index_and_they_train(self):
        code, out, err = self.launch("--launcher", "slurm", "-n", 2, *SHORT)
        self.assertEqual(code, 0, err)
        self.weights(out)
        # Slurm cleans up after srun has ended.
        self.wait_until(lambda: self.jobs() == "", "the job has gone")

    def test_in_mode_mpi_the_job_runs_mpirun(self):
        code, out, err = self.launch("--launcher", "slurm", "--mode", "mpi", "-n", 2, *SHORT)
        self.assertEqual(code, 0, err)
        self.weights(out)
        self.assertIn("store dist_sync_mpi: workers 2", out)

    def test_an_allocation_that_there_is_already_is_used(self):
        out = self.run_words("salloc", "-n", 5, sys.executable, ROOT / "scripts/launch.py", "--launcher", "slurm",
                             "-n", 2, *SHORT)
        self.weights(out)
        out = self.run_words("salloc", "-n", 5, sys.executable, ROOT / "scripts/launch.py", "--launcher", "mpi",
                             "-n", 2, *SHORT)
        self.weights(out)

    def test_the_first_failure_is_the_launchers_exit_code(self):
        code, _, err = self.launch("--launcher", "slurm", "-n", 2, '[ "$DMLC_RANK" = 1 ] && exit 7; sleep 1')
        self.assertEqual(code, 7, err)
        self.assertIn("worker 1 on", err[err.index("was the first to fail") - 60:])

    def counting(self):
        return self.start("--launcher", "slurm", "-n", 2, "-s", 1, sys.executable, "-c", COUNTS)

    def test_a_signal_that_announces_something_reaches_each_worker_once(self):
        self.assert_announced_once(2, self.counting())

    def test_so_does_one_that_slurm_sends_to_all_processes_of_the_job(self):
        def to_all(number):
            job = self.run_words("squeue", "--noheader", "--format=%A").strip()
            self.run_words("scancel", f"--signal={number}", job)
        self.assert_announced_once(2, self.counting(), to_all)

    def test_the_programs_of_slurm_have_no_secret_of_the_job_in_their_environment(self):
        process = self.start("--launcher", "slurm", "-n", 1, "-s", 1, "echo up; sleep 600")
        self.wait_for_lines(process, 1, "up")
        seen = 0
        for pid in self.marked():
            program = pathlib.Path(f"/proc/{pid}/comm").read_text().strip()
            variables = variables_of(pid)
            if program == "srun":
                seen += 1
                self.assertLessEqual(variables.keys() & {"TUTTI_JOB_KEY", "TUTTI_LAUNCH_CONTACT"}, set())
                self.assertIn("PATH", variables)
        self.assertGreater(seen, 0)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)

    def test_ctrl_c_and_the_launchers_death_leave_no_process_and_no_job(self):
        for number in (signal.SIGINT, signal.SIGKILL):
            process = self.start("--launcher", "slurm", "-n", 2, "setsid sleep 600 & echo up; sleep 600")
            self.wait_for_lines(process, 2, "up")
            process.send_signal(number)
            process.communicate(timeout=60)
            self.assert_nothing_left()
            self.wait_until(lambda: self.jobs() == "", "the job has ended")

    def test_a_job_that_waits_in_the_queue_is_taken_back(self):
        process = self.start("--launcher", "slurm", "-n", 2, "true", SLURM_HOLD="1")
        self.wait_until(lambda: self.jobs() != "", "the job is queued")
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.wait_until(lambda: self.jobs() == "", "the job has gone")

    def test_srun_starts_programs_without_the_launcher(self):
        script = self.top / "by_hand.sh"
        script.write_text(BY_HAND.format(server=SERVER, train=TRAIN))
        self.weights(self.run_words("srun", "-n", 4, "sh", script, TUTTI_JOB_KEY="5e" * 31 + "5f"))

    def test_srun_starts_mpi_programs_without_the_launcher_where_it_speaks_to_mpi(self):
        kinds = re.findall(r"\b(pmix|pmi2)\b", self.run_words("srun", "--mpi=list"))
        if not kinds:
            self.skipTest("this Slurm has neither pmix nor pmi2")
        self.weights(self.run_words("srun", f"--mpi={kinds[0]}", "-n", 2, TRAIN, "--network", "mlp", "--kv-store",
                                    "dist_sync_mpi", "--epochs", 1))


if __name__ == "__main__":
    reason = slurm.why_not()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
