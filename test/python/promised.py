"""Tests of the package that every build must pass: a part of test_package.py."""
import os
import re
import signal
import subprocess
import sys

from installed import HERE, ROOT, Installed, said
from launching import LAUNCH, LOCAL, MPI, LaunchCase

#: package_*.py that every rank of a job runs: those that the quick tier runs, too, and the others.
FIRST = ("ranks", "bound", "deleters")
PROGRAMS = ("arrays", "errors", "waits", "stalls", "objects", "values", "misuse", "logs")


class Promises:
    """Tests with the numbers of ranks in `COUNTS`."""
    SLOWER = 1

    def on_ranks(self, count, *words, timeout=60):
        return super().on_ranks(count, *words, timeout=timeout * self.SLOWER)

    def test_what_it_promises_first_to_the_ranks_of_a_job(self):
        for count in self.COUNTS:
            for program in FIRST:
                with self.subTest(program, ranks=count):
                    self.on_ranks(count, HERE / f"package_{program}.py", timeout=120)

    def test_what_else_it_promises_to_the_ranks_of_a_job(self):
        self.pip("install", "ml_dtypes")
        for count in self.COUNTS:
            for program in PROGRAMS:
                with self.subTest(program, ranks=count):
                    self.on_ranks(count, HERE / f"package_{program}.py", timeout=120)

    def test_it_leaves_nothing_behind(self):
        for count in self.COUNTS:
            with self.subTest(ranks=count):
                self.on_ranks(count, HERE / "package_flat.py", 20, 10_000, timeout=120)


class MorePromises(Promises):
    """Tests that also run with other numbers of ranks. `FAIL_AMONG` has the sizes of the jobs in which a rank fails;
    `server` is the path of tutti-server.
    """
    FAIL_AMONG = (2, 3)
    FORKED = "forked"

    def test_what_it_promises_to_a_process_alone(self):
        said(*self.BEFORE, self.python, HERE / "package_alone.py", cwd=self.top, timeout=60 * self.SLOWER)

    def test_what_it_promises_to_the_workers_of_a_parameter_server(self):
        for workers, servers in ((1, 2), (3, 1)):
            with self.subTest(workers=workers, servers=servers):
                said(sys.executable, LAUNCH, *LOCAL, "-n", workers, "-s", servers, *self.BEFORE, self.python,
                     HERE / "package_servers.py", self.top / f"states of {workers}", cwd=self.top,
                     timeout=60 * self.SLOWER, env=os.environ | {"PATH": f"{self.server.parent}:{os.environ['PATH']}",
                                                                 "MXNET_KVSTORE_BIGARRAY_BOUND": "5"})

    def test_its_example_learns_asynchronously_with_its_own_settings_and_ends_with_equal_weights(self):
        for workers, words in ((2, ("--devices", 2)), (4, ())):
            with self.subTest(workers=workers):
                text = said(sys.executable, LAUNCH, *LOCAL, "-n", workers, "-s", 2, *self.BEFORE, self.python,
                            ROOT / "examples/python/train_digits.py", "--kv-store", "dist_async", *words,
                            cwd=self.top, timeout=120 * self.SLOWER,
                            env=os.environ | {"PATH": f"{self.server.parent}:{os.environ['PATH']}"})
                self.assertGreaterEqual(float(re.findall(r"Test_acc (0\.\d{6})", text)[-1]), 0.93, text)
                hashes = re.findall(r"sha256 of the weights ([0-9a-f]{64})", text)
                self.assertEqual((len(hashes), len(set(hashes))), (workers, 1), text)

    def test_what_the_pages_show_of_it_works_when_pasted_line_by_line(self):
        text = self.on_ranks(3, HERE / "package_pages.py", ROOT)
        self.assertEqual(text.count(": well"), 3, text)

    def end(self, count, way):
        """Runs a job that ends in this way, and checks that it leaves no process behind. Returns the launcher's (exit
        code, stdout, stderr).
        """
        words = [sys.executable, LAUNCH, *MPI, "-n", count, *self.BEFORE, self.python, HERE / "package_ends.py", way]
        done = subprocess.run([str(word) for word in words], text=True, check=False, timeout=60 * self.SLOWER,
                              cwd=self.top, env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
        self.assert_nothing_left()
        return done.returncode, done.stdout, done.stderr

    def test_a_rank_that_fails_is_lost_to_the_others_and_its_exit_code_is_the_jobs(self):
        codes = {"raises": 1, "exits": 3, "interrupted": 128 + signal.SIGINT}
        for count in self.FAIL_AMONG:
            for way in ("in_block:raises", "in_block:exits", "in_block:interrupted", "in_function:raises",
                        "in_wait:interrupted", "in_callback:interrupted", "with_global:raises", "with_global:exits"):
                with self.subTest(way, ranks=count):
                    code, out, err = self.end(count, way)
                    lost = [f"[worker {rank}] PeerLostError (1,) in time" for rank in range(count) if rank != 1]
                    self.assertEqual(sorted(out.splitlines()), lost, err)
                    self.assertEqual(code, codes[way.partition(":")[2]], err)
                    if way.endswith("raises"):
                        self.assertIn("  [worker 1] ValueError: what went wrong", err)

    def test_ctrl_c_to_a_job_whose_ranks_all_wait_leaves_no_process_behind(self):
        for place in ("wait", "callback"):
            with self.subTest(place):
                process = self.start(*MPI, "-n", 2, *self.BEFORE, self.python, HERE / "package_ends.py",
                                     f"all_in:{place}")
                self.wait_for_lines(process, 2, "waits")
                self.assertGreaterEqual(len(self.marked()), 3, "the launcher and the ranks are seen")
                process.send_signal(signal.SIGINT)
                _, err = process.communicate(timeout=30 * self.SLOWER)
                self.assertEqual(process.returncode, 128 + signal.SIGINT, err)
                self.assert_nothing_left()

    def test_a_loss_that_no_other_call_has_told_of_is_told_by_close(self):
        for way in ("in_close:raises", "before_close:raises"):
            with self.subTest(way):
                code, out, err = self.end(2, way)
                self.assertEqual((code, out), (1, "[worker 0] PeerLostError (1,)\n"), err)

    def test_a_child_that_creates_before_its_rank_is_the_rank_and_the_parent_is_told(self):
        code, out, err = self.end(2, "child_first")
        told = [f"[worker {rank}] {what}" for rank in (0, 1) for what in ("child of 2 [0, 1]", "parent refused True 0")]
        self.assertEqual((code, sorted(out.splitlines())), (0, sorted(told)), err)

    def test_a_rank_that_handles_what_left_its_block_has_left_the_store(self):
        code, out, err = self.end(2, "handled")
        self.assertEqual((code, out), (0, "[worker 0] AbortedError (1,) in time\n"), err)

    def test_programs_end_in_order_whatever_they_leave_behind(self):
        for way in ("waited_for_by_nobody", "left_by_threads", self.FORKED):
            with self.subTest(way):
                code, out, err = self.end(2, way)
                self.assertEqual(code, 0, err)
                self.assertEqual(err, "")
                called = {f"[worker {rank}] called back with None" for rank in (0, 1)}
                self.assertLessEqual(set(out.splitlines()), called)


class Learning(LaunchCase, Installed):
    """The checks of the example that all kinds of tests share."""

    def train(self, count, *options):
        """Returns the accuracy after the last epoch, and the hash of the weights, which all ranks share."""
        text = self.on_ranks(count, ROOT / "examples/python/train_digits.py", *options)
        epochs = re.findall(r"Epoch \d+: Test_acc (0\.\d{6})", text)
        hashes = re.findall(rf"Worker (\d) of {count}: sha256 of the weights ([0-9a-f]{{64}})", text)
        self.assertEqual(len(epochs), 20, text)
        self.assertEqual(sorted(rank for rank, _ in hashes), [str(rank) for rank in range(count)], text)
        self.assertEqual(len({weights for _, weights in hashes}), 1, text)
        return float(epochs[-1]), hashes[0][1]

    def learns_on(self, count):
        accuracy, _ = self.train(count, "--kv-store", "dist_sync_mpi")
        self.assertGreaterEqual(accuracy, 0.95)

    def learns_what_one_learns(self, count):
        """Checks that several workers learn what one worker with the same total batch learns."""
        text = self.on_ranks(count, HERE / "package_training.py", timeout=120)
        self.assertEqual(text.count(": well"), count, text)
