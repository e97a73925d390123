"""Jobs of the launcher under Grid Engine, over the hosts of a lab.

    test_gridengine_jobs.py TUTTI_SERVER TRAIN
"""
import os
import pathlib
import re
import shlex
import signal
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test/python"))
import gridengine
import hosts
from launching import COUNTS, LAUNCH, LaunchCase
from registry import made

SERVER, TRAIN = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])  # for programs in other folders
SHORT = (TRAIN, "--network", "mlp", "--kv-store", "dist_sync", "--epochs", 1)
# A worker that knows nothing of the signals that Grid Engine sends.
HANDLES_NO_USR = """
import signal, sys, time
def goes_on(*_):
    print("goes on", flush=True)
    sys.exit()
signal.signal(signal.SIGALRM, goes_on)
print("up", flush=True)
while True:
    time.sleep(0.1)
"""


class GridEngine(LaunchCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.top = pathlib.Path(cls.enterClassContext(tempfile.TemporaryDirectory()))
        cls.lab = cls.enterClassContext(made(hosts.Lab(f"sge{os.getpid()}", (1, 1))))
        cls.engine = cls.enterClassContext(gridengine.running(cls.lab, cls.top))
        cls.idle = set(cls.lab.processes())

    def start(self, *words, **env):
        line = ["env", "-C", str(self.top), sys.executable, str(LAUNCH), "--launcher", "sge", "--env",
                "LAUNCH_TEST_MARK", *map(str, words)]
        path = f"{pathlib.Path(SERVER).absolute().parent}:/usr/local/bin:/usr/bin:/bin"
        return super().start(command=hosts.enter(self.lab.names[0], shlex.join(line)), **{
            "PATH": path, "HOME": str(self.top), "TUTTI_CREATE_SECONDS": "30", **self.engine.env, **env})

    def assert_hosts_are_idle(self):
        self.wait_until(lambda: set(self.lab.processes()) <= self.idle, "nothing of the job runs on a host")
        self.wait_until(lambda: self.engine.jobs() == "", "Grid Engine has no job")
        self.assertEqual(list(self.top.glob(".tutti-launch-*")), [])

    def assert_equal_weights(self, out):
        found = re.findall(r"rank \d weights sha256 (\w+)", out)
        self.assertEqual((len(found), len(set(found))), (2, 1), out)

    def test_each_task_takes_its_role_from_its_index_and_they_train(self):
        code, out, err = self.launch("-n", 2, *SHORT)
        self.assertEqual(code, 0, err)
        self.assert_equal_weights(out)
        self.assert_hosts_are_idle()

    def test_tasks_run_on_all_hosts(self):
        code, out, err = self.launch("-n", 4, "hostname; sleep 2")
        self.assertEqual(code, 0, err)
        self.assertEqual(set(re.findall(r"\] (\S+-h\d)\n", out)), set(self.lab.names), out)

    def test_in_mode_mpi_the_job_runs_mpirun(self):
        code, out, err = self.launch("--mode", "mpi", "-n", 2, *SHORT)
        self.assertEqual(code, 0, err)
        self.assert_equal_weights(out)
        self.assertIn("store dist_sync_mpi: workers 2", out)
        self.assert_hosts_are_idle()

    def test_the_first_failure_is_the_launchers_exit_code(self):
        code, _, err = self.launch("-n", 2, '[ "$DMLC_RANK" = 1 ] && exit 7; sleep 1')
        self.assertEqual(code, 7, err)
        self.assertIn("worker 1 on", err[err.index("was the first to fail") - 60:])
        self.assert_hosts_are_idle()

    def test_a_signal_that_announces_something_reaches_each_worker_once(self):
        self.assert_announced_once(2, self.start("-n", 2, sys.executable, "-c", COUNTS))
        self.assert_hosts_are_idle()

    def test_a_worker_that_does_not_handle_grid_engines_own_signals_goes_on(self):
        process = self.start("-n", 2, sys.executable, "-c", HANDLES_NO_USR)
        self.wait_for_lines(process, 2, "up")
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM):
            process.send_signal(number)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out.count("goes on")), (0, 2), err)
        self.assert_hosts_are_idle()

    def test_ctrl_c_and_the_launchers_death_leave_no_process_and_no_job(self):
        for number in (signal.SIGINT, signal.SIGKILL):
            process = self.start("-n", 2, "setsid sleep 600 & echo up; sleep 600")
            self.wait_for_lines(process, 2, "up")
            process.send_signal(number)
            process.communicate(timeout=60)
            self.assert_hosts_are_idle()


if __name__ == "__main__":
    reason = hosts.why_not() or gridengine.why_not()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(hosts.SKIPPED)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
