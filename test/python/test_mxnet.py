#!/usr/bin/env python3
"""tutti's stores in Apache MXNet 1.9.1, which PyPI has: what scripts may count on, the examples, and ranks that fail.

    test_mxnet.py BUILD_TYPE [smoke|slow]

smoke: only what takes seconds. slow: only what takes minutes.
"""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from installed import HERE, ROOT, Installed, said
from mxnet_examples import Benchmarks, Devices, Examples, Served as ServedExamples
from mxnet_files import Files
from mxnet_hosts import BetweenHosts
from mxnet_records import Records
from mxnet_script import Hosts, Script, Shown
from mxnet_ssh import OverSsh, OverSshAtLength

sys.path.insert(0, str(ROOT / "test/lab"))
from layouts import main

KIND = sys.argv.pop() if sys.argv[-1] in ("smoke", "slow") else ""
SMOKE = ("test_what_scripts_that_do_not_name_tutti_may_count_on",
         "test_states_of_optimizers_go_on_in_another_job_with_other_servers")
Installed.build_type = sys.argv.pop()
#: Files whose sentences every number of ranks is told.
SERVED = ("mxnet_served_values", "mxnet_served_optimizers", "mxnet_served_workers", "mxnet_served_async",
          "mxnet_served_turns")
PARTS = ("mxnet_engine", "mxnet_module", "mxnet_parameters", "mxnet_store", "mxnet_trainer")
UNCHANGED = HERE / "mxnet_unchanged.py"
#: The status of a job by how the rank ended that was the first to.
ENDED = {"raises": 1, "exits": 3, "raises_system_exit": 3, "killed": 128 + signal.SIGKILL,
         "interrupted": 128 + signal.SIGINT}


class WithMXNet(Installed):
    LIBRARY = ("mxnet==1.9.1", "numpy==1.23.5")  # no other numpy works with it

    @classmethod
    def install(cls):
        cls.wheels(*cls.LIBRARY)
        super().install()


class Promises(WithMXNet):
    """Tests with the numbers of ranks in `COUNTS`, and with the numbers of workers and servers in `JOBS`."""

    def test_what_scripts_may_count_on(self):
        # All run in one job, because MXNet needs seconds to begin.
        for count in self.COUNTS:
            with self.subTest(ranks=count):
                said("mpirun", "-n", count, self.python, "-m", "unittest", "-v", *PARTS, timeout=900, cwd=self.top,
                     env=os.environ | {"PYTHONPATH": str(HERE)})

    def test_what_scripts_that_do_not_name_tutti_may_count_on(self):
        for count in self.COUNTS:
            with self.subTest(ranks=count, by="python -m tutti"):
                self.on_ranks(count, "-m", "tutti", UNCHANGED, "-v", timeout=180)
            with self.subTest(ranks=count, by="the launcher"):
                code, _, err = self.launched(count, UNCHANGED, "-v")
                self.assertEqual(code, 0, err)

    def test_what_scripts_may_count_on_with_a_parameter_server(self):
        for count, servers in self.JOBS:
            for part in SERVED:
                with self.subTest(workers=count, part=part):
                    self.served(count, servers, HERE / f"{part}.py", "-v")

    def launcher(self, count):
        return [sys.executable, ROOT / "scripts/launch.py", "--launcher", "local", "--mode", "mpi", "-n", count]

    def launched(self, count, *words):
        """Runs a job by tutti's launcher. Returns (exit code, stdout, stderr)."""
        return self.outcome([*self.launcher(count), self.python, *words])

    def outcome(self, words, timeout=120, cwd=None):
        done = subprocess.run([str(word) for word in words], text=True, check=False, timeout=timeout,
                              cwd=cwd or self.top, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
        return done.returncode, done.stdout, done.stderr

    def served(self, count, servers, *words, timeout=180, cwd=None):
        """The output of a job with a parameter server. Checks that the job ends well."""
        code, out, err = self.outcome([sys.executable, ROOT / "scripts/launch.py", "--launcher", "local", "-n", count,
                                       "-s", servers, self.python, *words], timeout, cwd)
        self.assertEqual(code, 0, f"{out}\n{err}")
        return out


class Endings(Promises):
    """Tests of the ranks after one of them has ended, in each of WAYS, and after all have ended, REPEATS times."""

    def test_a_rank_that_fails_is_lost_to_the_others_where_they_wait(self):
        for way in self.WAYS:
            with self.subTest(way):
                status, out, err = self.launched(3, HERE / "mxnet_ends.py", *way.split())
                self.assertEqual(status, ENDED[way.split()[1]], err)
                self.assertEqual(sorted(out.splitlines()),
                                 [f"[worker {rank}] PeerLostError (1,) in time, of a weight" for rank in (0, 2)], err)
                self.assertNotIn("Exception ignored", err)

    def test_programs_end_in_order_though_they_wait_for_no_array(self):
        for way, said_by_others in (("ends_without_a_wait", ""), ("exits_before_the_others_come", " 6.0" * 5)):
            for _ in range(self.REPEATS):
                code, out, err = self.launched(3, HERE / "mxnet_ends.py", way)
                lines = [f"[worker {rank}] done{'' if rank == 1 else said_by_others}" for rank in range(3)]
                self.assertEqual((code, sorted(out.splitlines())), (0, lines), err)


class MXNet(ServedExamples, Examples, OverSsh, Script, Endings):
    COUNTS = (3,)
    JOBS = ((2, 3),)
    HOSTS = 2
    WAYS = ("train exits", "fit_a_module raises", "with_a_call_in_flight killed")
    TYPES = ("dist_sync", "dist_async")
    REPEATS = 1

    def test_states_of_optimizers_go_on_in_another_job_with_other_servers(self):
        with tempfile.TemporaryDirectory() as folder:
            for part, servers in (("Saving", 2), ("Loading", 3)):
                self.served(2, servers, HERE / "mxnet_served_states.py", folder, part, "-v")

    def test_a_dead_worker_is_counted_by_those_that_go_on(self):
        code, out, err = self.outcome([sys.executable, ROOT / "scripts/launch.py", "--launcher", "local", "-n", 3, "-s",
                                       2, self.python, HERE / "mxnet_ends.py", "counts_the_dead", "killed"])
        self.assertEqual(code, 128 + signal.SIGKILL, err)
        self.assertEqual(sorted(out.splitlines()), [f"[worker {rank}] dead: 1, value -2" for rank in (0, 2)], err)

    def test_a_process_of_another_role_is_told_what_to_start(self):
        for role in ("server", "scheduler"):
            code, _, err = self.outcome(["env", f"DMLC_ROLE={role}", self.python, "-m", "tutti", UNCHANGED])
            self.assertEqual(code, 2, err)
            self.assertIn(f"DMLC_ROLE={role} asks for a {role}, but this program is a worker; start `tutti-server`",
                          err)

    def test_an_exception_ends_a_program_though_the_engine_still_computes(self):
        code, _, err = self.launched(3, HERE / "mxnet_ends.py", "raises_while_it_computes")
        self.assertEqual(code, 1, err)
        self.assertIn("ValueError: what went wrong", err)
        self.assertIn("error: a store was still open when the process ended with status 1: it stays open", err)
        for words in ("Signal: ", "terminate called", "Exception ignored"):
            self.assertNotIn(words, err)

    def test_a_failure_that_a_program_did_not_wait_for_is_told_when_it_ends(self):
        code, _, err = self.launched(3, HERE / "mxnet_ends.py", "fails_in_its_last_call")
        self.assertEqual(code, 1, err)
        for rank in range(3):
            self.assertRegex(err, rf"(?m)^\[worker {rank}\] .*waited for none of its arrays: tutti.mismatch.*'weight'")
        code, out, err = self.launched(3, HERE / "mxnet_ends.py", "fails_in_its_last_call", "notices")
        self.assertEqual((code, sorted(out.splitlines())), (0, [f"[worker {rank}] handled" for rank in range(3)]), err)

    def test_an_engine_that_tells_no_errors_is_refused(self):
        code, _, err = self.launched(1, "-c", "import os; os.environ['MXNET_ENGINE_TYPE'] = 'NaiveEngine'; "
                                     "import mxnet, tutti.mxnet; mxnet.kv.create('dist_sync_mpi')")
        self.assertEqual(code, 1, err)
        self.assertRegex(err, "dist_sync_mpi does not work with MXNET_ENGINE_TYPE=NaiveEngine.*ThreadedEngine")

    def test_a_forked_child_ends_by_itself(self):
        code, out, err = self.launched(3, HERE / "mxnet_ends.py", "forks")
        self.assertEqual((code, sorted(out.splitlines())), (0, [f"[worker {i}] done 6.0" for i in range(3)]), err)

    def test_ctrl_c_while_all_wait_in_mxnets_engine_leaves_no_process(self):
        for starter in (["mpirun", "-n", "3"], [*self.launcher(3), "--no-prefix"]):
            with self.subTest(starter[0]):
                words = [str(word) for word in (*starter, self.python, HERE / "mxnet_ends.py", "waits_for_ever")]
                with subprocess.Popen(words, text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                      stderr=subprocess.DEVNULL, start_new_session=True, cwd=self.top) as job:
                    processes = [int(job.stdout.readline()) for _ in range(3)]
                    time.sleep(0.5)
                    os.killpg(job.pid, signal.SIGINT)
                    self.assertNotEqual(job.wait(60), 0)
                end = time.monotonic() + 5
                while left := [pid for pid in processes if pathlib.Path(f"/proc/{pid}").exists()]:
                    self.assertLess(time.monotonic(), end, left)
                    time.sleep(0.05)

    def test_a_rank_may_drop_a_store_before_the_others_have_come_to_its_last_call(self):
        code, out, err = self.launched(3, HERE / "mxnet_ends.py", "drops_a_store_on_one_rank")
        self.assertEqual((code, sorted(out.splitlines())), (0, [f"[worker {rank}] sum 3" for rank in range(3)]), err)

    def test_loss_curves_that_are_no_numbers_are_not_within_the_limit(self):
        asked = ("from mxnet_curves import within_limit\n"
                 "nan = float('nan')\n"
                 "print(*(within_limit(apart) for apart in ([1e-6, 1e-5], [1e-6, 1e-3], [1e-6, nan], [nan, 1e-6])))")
        self.assertEqual(said(self.python, "-c", asked, cwd=HERE).splitlines()[-1], "True False False False")


class AtLength(ServedExamples, Devices, Benchmarks, Files, Records, OverSshAtLength, Shown, BetweenHosts, Hosts,
               Endings):
    COUNTS = (1, 4)
    JOBS = ((1, 1), (3, 2))
    HOSTS = 8
    WAYS = ("train raises", "train killed", "train interrupted", "train_a_pair killed", "fit_a_module killed",
            "with_a_call_in_flight raises", "with_a_call_in_flight exits", "with_a_call_in_flight raises_system_exit")
    REPEATS = 2
    TYPES = ("dist", "dist_device_sync")

    def test_compressed_gradients_reach_servers(self):
        for kind in ("2bit", "1bit", "fp16", "bf16"):
            with self.subTest(kind):
                self.served(2, 2, HERE / "mxnet_served_compression.py", kind, "-v")

    def test_arrays_in_layouts_of_onednn_are_exchanged(self):
        for count in (1, 3):
            with self.subTest(ranks=count):
                self.on_ranks(count, HERE / "mxnet_layouts.py")

    def test_an_order_that_changes_is_learnt(self):
        self.on_ranks(3, HERE / "mxnet_order.py")

    def test_a_program_ends_in_order_though_custom_operators_still_compute(self):
        code, out, err = self.launched(3, HERE / "mxnet_ends.py", "ends_while_python_computes")
        self.assertEqual((code, sorted(out.splitlines())), (0, [f"[worker {rank}] done" for rank in range(3)]), err)

    def test_workers_have_the_loss_curves_of_one_process_with_their_joint_batch(self):
        # With more workers, their curves part sooner from those of one process.
        self.on_ranks(4, HERE / "mxnet_curves.py", timeout=1200)


class Smoke(MXNet):
    COUNTS = (2,)


def load_tests(loader, _tests, _pattern):
    return loader.loadTestsFromTestCase(AtLength if KIND == "slow" else MXNet)


if __name__ == "__main__":
    main([f"Smoke.{name}" for name in SMOKE] if KIND == "smoke" else sys.argv[1:])
