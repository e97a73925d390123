#!/usr/bin/env python3
"""tutti's process groups in PyTorch: the promises to scripts, the example, and ranks that fail.

    test_torch.py BUILD_TYPE [smoke|newest]

Runs in an environment of its own, on the torch that a Python of this machine has; Debian's is 1.13. smoke: only what
takes seconds. newest: on PyPI's newest, without the libraries that only a GPU needs.
"""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

import torch_wheel
from installed import HERE, ROOT, Installed, make_environment, python_with, said, wheel_of
from launching import LaunchCase

sys.path.insert(0, str(ROOT / "test/lab"))
from layouts import main

KIND = sys.argv.pop() if sys.argv[-1] in ("smoke", "newest") else ""
NEWEST = KIND == "newest"
SMOKE = ("test_every_collective", "test_what_the_page_shows")
Installed.build_type = sys.argv.pop()
#: The status of a job by how the rank ended that was the first to.
ENDED = {"raises": 1, "exits": 3, "killed": 128 + signal.SIGKILL, "interrupted": 128 + signal.SIGINT}
LAUNCH = (sys.executable, ROOT / "scripts/launch.py", "--launcher", "local", "--mode", "mpi", "-n")
EXAMPLE = ROOT / "examples/python/torch/train.py"
PAGE = ROOT / "bindings/python/PYTORCH.md"


def memory_of_torch():
    return {path.name for path in pathlib.Path("/dev/shm").glob("torch_*")}


def memory_of_mpi(job):
    """The files that the processes of one job of mpirun share."""
    return {path.name for path in pathlib.Path("/dev/shm").glob(f"*.{job:08x}.*")}


class Promises:
    """Tests with every version of torch."""

    LIMIT = 300
    #: The ways in which rank 1 fails within a training step, and in which a DataLoader has started its workers.
    FAULTS = (("backward", "killed", "fork"), ("checkpoint", "interrupted", "spawn"))

    def on_all(self, count, part, timeout=240):
        """Runs these tests on every rank."""
        return said("mpirun", "-n", count, self.python, "-W", "ignore", HERE / f"{part}.py", timeout=timeout,
                    cwd=self.top)

    def test_every_collective(self):
        for count in (1, 3):
            with self.subTest(ranks=count):
                self.on_all(count, "torch_collectives")

    def test_groups_over_some_ranks(self):
        self.on_all(4, "torch_groups")

    def test_calls_between_two_ranks(self):
        for count in (2, 3):
            with self.subTest(ranks=count):
                self.on_all(count, "torch_pairs")

    def test_parts_without_a_job(self):
        said(self.python, HERE / "torch_parts.py", timeout=60, cwd=self.top)

    def test_it_trains_what_gloo_trains(self):
        self.on_all(2, "torch_training")

    def outcome(self, *words):
        """Runs a job. Returns (exit code, lines of stdout in any order, stderr)."""
        done = subprocess.run([str(word) for word in words], text=True, check=False, timeout=self.LIMIT, cwd=self.top,
                              env=self.environment(), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)
        return done.returncode, sorted(done.stdout.splitlines()), done.stderr

    def joined(self, count, *words, variables=()):
        return self.outcome("mpirun", "-n", count, "env", *variables, self.python, "-W", "ignore",
                            HERE / "torch_joining.py", *words)

    def test_ranks_find_each_other(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        ways = [("by_mpi",), ("again",), ("by_environment", port), ("of_gloo",), ("of_gloo_by_environment", port)]
        if not self.is_old():
            ways += [("by_devices",), ("without_an_import", port)]
        for words in ways:
            with self.subTest(words[0]):
                code, out, err = self.joined(3, *words)
                self.assertEqual(code, 0, err)
                for rank in range(3):
                    self.assertEqual("\n".join(out).count(f"{rank} of 3: [0, 1, 2]"), 1 + (words[0] == "again"), out)

    def test_what_the_page_shows(self):
        blocks = dict(re.findall(r"^```(\w*)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL))
        text = self.on_ranks(3, "-c", blocks["python"])
        for rank in range(3):
            self.assertIn(f"rank {rank} of 3: 6", text)
        pip, *lines = blocks[""].splitlines()
        self.assertEqual(pip, "pip install '.[torch]'")  # for 2.8 GB: here both are installed already
        path = f"{self.python.parent}:{os.environ['PATH']}"
        text = said("bash", "-ec", "\n".join(lines), timeout=self.LIMIT, cwd=ROOT, env=os.environ | {"PATH": path})
        self.assertGreaterEqual(self.accuracy(text, 4), 0.95)

    def is_old(self):
        return said(self.python, "-c", "import torch; print(torch.__version__)").startswith("1.")

    def test_a_job_of_torchruns_is_told_what_to_type(self):
        program = ("import torch.distributed as dist, tutti.torch\n"
                   "dist.init_process_group('tutti', store=dist.HashStore(), rank=0, world_size=2)")
        code, _, err = self.outcome("env", "RANK=0", "WORLD_SIZE=2", self.python, "-c", program)
        self.assertEqual(code, 1)
        self.assertIn("MPI sees 1 process, but the launcher started 2", err)
        self.assertIn("type instead: mpirun -n 2", err)

    def test_a_group_over_some_of_mpiruns_processes_is_refused_with_what_to_type(self):
        program = ("import torch.distributed as dist, tutti.torch\n"
                   "dist.init_process_group('tutti', store=dist.HashStore(), rank=0, world_size=1)")
        code, _, err = self.outcome("mpirun", "-n", 2, self.python, "-c", program)
        self.assertNotEqual(code, 0)
        self.assertIn("WORLD_SIZE is 1, and mpirun has started 2 processes, which all belong to torch's default group; "
                      "type mpirun -n 1", err)

    def test_a_call_that_nobody_waited_for_is_told_once_at_the_end(self):
        code, _, err = self.joined(2, "unwaited")
        self.assertEqual(code, 0, err)
        self.assertEqual(len(err.splitlines()), 1, err)
        self.assertIn("gives up these calls of torch.distributed, which are not done: 'allreduce float32 [3] #0'", err)

    def test_a_rank_that_fails_is_lost_to_the_others_where_they_wait(self):
        for where, how in (("backward", "killed"), ("hook", "raises"), ("forward", "interrupted"), ("future", "exits"),
                           ("collective", "killed")):
            with self.subTest(where=where, how=how):
                code, out, err = self.outcome(*LAUNCH, 3, self.python, "-W", "ignore", HERE / "torch_ends.py", where,
                                              how)
                self.assertEqual(code, ENDED[how], err)
                self.assertEqual(len(out), 2, f"{out}\n{err}")
                for line, rank in zip(out, (0, 2)):
                    self.assertRegex(line, rf"^\[worker {rank}\] it gets .*rank 1 is lost")

    def fails_within(self, part, how, start):
        """Rank 1 of four fails: all others get an error that names it, and the job leaves no process behind."""
        before = memory_of_torch()
        code, out, err = self.outcome(*LAUNCH, 4, self.python, "-W", "ignore", HERE / "torch_faults.py", part, how,
                                      start, tempfile.mkdtemp(dir=self.top))
        # Torch 2 tells all ranks itself of one that raises within a checkpoint.
        is_told = part == "checkpoint" and how != "killed" and not self.is_old()
        self.assertEqual(code, 1 if is_told else ENDED[how], err)
        named = r"CheckpointException ranks:dict_keys\(\[1\]\)" if is_told else "rank 1 is lost"
        self.assertEqual(len(out), 4, f"{out}\n{err}")
        for line, rank in zip([line for line in out if "it gets" in line], (0, 2, 3)):
            self.assertRegex(line, rf"^\[worker {rank}\] it gets .*{named}")
        job, = (re.findall(r"job (\d+)", line)[0] for line in out if "it gets" not in line)
        self.assert_nothing_left(self.LIMIT)
        self.wait_until(lambda: not memory_of_torch() - before and not memory_of_mpi(int(job)),
                        "its shared memory is gone", self.LIMIT)

    def test_a_rank_that_fails_within_a_training_step_is_lost_to_the_others_and_nothing_is_left(self):
        for part, how, start in self.FAULTS:
            with self.subTest(part=part, how=how, start=start):
                self.fails_within(part, how, start)

    def learnt(self, count, *words):
        return self.accuracy(self.on_ranks(count, EXAMPLE, *words, timeout=self.LIMIT), count)

    def accuracy(self, text, count):
        """The accuracy after the last epoch of the example. Checks that all ranks have the same bits of the weights."""
        hashes = re.findall(rf"Worker (\d) of {count}: sha256 of the weights ([0-9a-f]{{64}})", text)
        self.assertEqual(sorted(rank for rank, _ in hashes), [str(rank) for rank in range(count)], text)
        self.assertEqual(len({weights for _, weights in hashes}), 1, text)
        return float(re.findall(r"Test_acc (0\.\d{6})", text)[-1])

    def test_the_example_learns_the_digits_in_bfloat16(self):
        self.assertGreaterEqual(self.learnt(4, "--bf16"), 0.95)

    def test_the_example_learns_on_gloo_too(self):
        self.assertGreaterEqual(self.learnt(2, "--backend", "gloo"), 0.95)


@unittest.skipIf(NEWEST, "another torch is asked for")
class PyTorch(Promises, Installed, LaunchCase):
    @classmethod
    def setUpClass(cls):
        cls.with_torch = python_with("torch")
        if cls.with_torch is None:
            print("skipped: no Python here has torch; scripts/setup --tests installs Debian's", flush=True)
            raise unittest.SkipTest("no Python here has torch")
        super().setUpClass()

    @classmethod
    def install(cls):
        """Installs the package as a wheel, because the pip of the Python that has torch may be too old to build one."""
        wheel = wheel_of(cls.python, *cls.setup())
        make_environment(cls.top / "torch", "--system-site-packages", python=cls.with_torch)
        cls.python = cls.top / "torch/bin/python"
        cls.pip("install", wheel)


@unittest.skipUnless(NEWEST, "takes long")
class Newest(Promises, Installed, LaunchCase):
    FAULTS = [(part, how, "spawn" if (i + j) % 2 else "fork")
              for i, part in enumerate(("forward", "backward", "step", "checkpoint"))
              for j, how in enumerate(("killed", "raises", "interrupted"))]

    @classmethod
    def install(cls):
        torch_wheel.lend(cls.python, cls.wheels)
        super().install()

    def test_fsdp2_learns_the_digits_and_all_ranks_end_with_the_same_weights(self):
        for words in ((), ("--bf16",)):
            with self.subTest(words):
                self.assertGreaterEqual(self.learnt(4, "--fsdp", *words), 0.95)

    def test_torchs_own_test_of_torch_distributed(self):
        folder = pathlib.Path(tempfile.mkdtemp(dir=self.top))
        said("mpirun", "-n", 4, self.python, "-W", "ignore", HERE / "torch_suite.py", folder, timeout=1200,
             cwd=self.top)
        for rank in range(4):
            outcomes = json.loads((folder / f"{rank}.json").read_text())
            self.assertGreater(len(outcomes), 100)
            for name, ended in outcomes.items():
                with self.subTest(name, rank=rank):
                    self.assertEqual(ended, {}, "\n".join(ended.values()))

    def test_groups_of_a_mesh(self):
        self.on_all(4, "torch_training")

    def test_torchs_debugging_of_calls(self):
        code, _, err = self.joined(3, "by_mpi", variables=["TORCH_DISTRIBUTED_DEBUG=DETAIL"])
        self.assertEqual(code, 0, err)


if __name__ == "__main__":
    main([f"PyTorch.{name}" for name in SMOKE] if KIND == "smoke" else [])
