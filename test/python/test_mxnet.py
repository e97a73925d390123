#!/usr/bin/env python3
"""tutti's stores in Apache MXNet 1.9.1, which PyPI has: what scripts may count on, the examples, and ranks that fail.

    test_mxnet.py BUILD_TYPE
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

from installed import HERE, RANKS, ROOT, Installed, said

Installed.build_type = sys.argv.pop()
#: Files whose sentences every number of ranks is told.
PARTS = ("mxnet_engine", "mxnet_module", "mxnet_parameters", "mxnet_store", "mxnet_trainer")
UNCHANGED = HERE / "mxnet_unchanged.py"
EXAMPLES = ROOT / "examples/python/mxnet"
LIBRARY = ("mxnet==1.9.1", "numpy==1.23.5")  # no other numpy works with it


class MXNet(Installed):
    @classmethod
    def install(cls):
        try:
            cls.pip("install", *LIBRARY)
        except AssertionError as error:
            raise unittest.SkipTest(f"{' '.join(LIBRARY)} cannot be had here: {error}") from error
        super().install()
        os.environ["OMP_NUM_THREADS"] = "1"  # the ranks share the cores

    def test_what_scripts_may_count_on(self):
        for count in RANKS:
            for part in PARTS:
                with self.subTest(ranks=count, part=part):
                    self.on_ranks(count, HERE / f"{part}.py", "-v", timeout=180)

    def test_what_scripts_that_do_not_name_tutti_may_count_on(self):
        for count in RANKS:
            with self.subTest(ranks=count, by="python -m tutti"):
                self.on_ranks(count, "-m", "tutti", UNCHANGED, "-v", timeout=180)
            with self.subTest(ranks=count, by="the launcher"):
                code, _, err = self.launched(count, UNCHANGED, "-v")
                self.assertEqual(code, 0, err)

    def accuracy(self, text, count):
        """The last one; all workers have the same weights."""
        accuracies = re.findall(r"Epoch \d+: Test_acc (\d\.\d{6})", text)
        weights = re.findall(rf"Worker (\d) of {count}: sha256 of the weights ([0-9a-f]{{64}})", text)
        self.assertEqual(sorted(rank for rank, _ in weights), [str(rank) for rank in range(count)], text)
        self.assertEqual(len({digest for _, digest in weights}), 1, text)
        return float(accuracies[-1])

    def test_an_unchanged_script_of_modules_learns_the_digits_alone_and_on_several_ranks(self):
        train = (EXAMPLES / "train_mnist.py", "--network", "lenet")
        self.assertNotIn("tutti", "".join(line for line in train[0].read_text().splitlines() if "import" in line))
        self.assertGreaterEqual(self.accuracy(said(self.python, *train, "--epochs", 4, timeout=180), 1), 0.95)
        text = self.on_ranks(4, "-m", "tutti", *train, "--kv-store", "dist_sync_mpi", timeout=300)
        self.assertGreaterEqual(self.accuracy(text, 4), 0.95)

    def test_a_script_of_gluon_splits_batches_over_ranks_and_devices(self):
        text = self.on_ranks(2, EXAMPLES / "cifar10_dist.py", "--kv-store", "dist_sync_mpi", "--epochs", 1,
                             "--images", 64, "--batch-size", 16, "--devices", 2, "--work-load-list", "1,3", timeout=300)
        self.accuracy(text, 2)
        for line in ("Total number of workers: 2", "This worker's rank: 0", "This worker's rank: 1"):
            self.assertIn(line, text)

    def test_the_benchmark_prints_the_speed_of_each_worker(self):
        text = self.on_ranks(2, "-m", "tutti", EXAMPLES / "train_imagenet.py", "--benchmark", 1, "--network", "vgg11",
                             "--image-shape", "3,32,32", "--batch-size", 2, "--steps", 4, "--disp-batches", 2,
                             "--kv-store", "dist_sync_mpi", timeout=300)
        for rank in (0, 1):
            self.assertRegex(text, rf"Worker {rank}: Epoch 0 Batch \d+: \d+\.\d\d samples/s")

    def launcher(self, count):
        return [sys.executable, ROOT / "scripts/launch.py", "--launcher", "local", "--mode", "mpi", "-n", count]

    def launched(self, count, *words):
        """(exit code, stdout, stderr) of a job that tutti's launcher starts."""
        command = [*self.launcher(count), self.python, *words]
        done = subprocess.run([str(word) for word in command], text=True, check=False, timeout=120, cwd=self.top,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return done.returncode, done.stdout, done.stderr

    def test_a_rank_that_fails_is_lost_to_the_others_where_they_wait(self):
        died = 128 + signal.SIGKILL, 128 + signal.SIGINT
        for way, code in (("train raises", 1), ("train exits", 3), ("train killed", died[0]),
                          ("train interrupted", died[1]), ("with_a_call_in_flight raises", 1),
                          ("with_a_call_in_flight exits", 3), ("with_a_call_in_flight raises_system_exit", 3),
                          ("with_a_call_in_flight killed", died[0])):
            with self.subTest(way):
                status, out, err = self.launched(3, HERE / "mxnet_ends.py", *way.split())
                self.assertEqual(status, code, err)
                self.assertEqual(sorted(out.splitlines()),
                                 [f"[worker {rank}] PeerLostError (1,) in time, of a weight" for rank in (0, 2)], err)

    def test_programs_end_in_order_though_they_wait_for_no_array(self):
        for way, said_by_others in (("ends_without_a_wait", ""), ("exits_before_the_others_come", " 6.0" * 5)):
            for _ in range(3):
                code, out, err = self.launched(3, HERE / "mxnet_ends.py", way)
                lines = [f"[worker {rank}] done{'' if rank == 1 else said_by_others}" for rank in range(3)]
                self.assertEqual((code, sorted(out.splitlines())), (0, lines), err)

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


if __name__ == "__main__":
    unittest.main(verbosity=2)
