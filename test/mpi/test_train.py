#!/usr/bin/env python3
"""The training program, started as users start it.

    test_train.py TRAIN HELLO DIGITS quick|all [unittest options]

quick: with some numbers of workers; all: with each from 1 to 8.
"""
import json
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

TRAIN, HELLO, DIGITS, TIER = sys.argv[1:5]
WITH_MPI = [TRAIN, "--kv-store", "dist_sync_mpi"]
#: Others are as good with the larger network alone.
NUMBERS = {"mlp": (2, 3), "lenet": (2, 3, 8) if TIER == "quick" else range(1, 9)}


def mpirun(ranks, *command):
    return ["mpirun", "-n", str(ranks), *map(str, command)]


def hashes(output):
    """Every rank's, as printed."""
    return re.findall("rank [0-9]+ weights sha256 ([0-9a-f]{64})", output)


class Training(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_it(self, command, status=0):
        """Its standard output and error."""
        done = subprocess.run(command, text=True, timeout=100, check=False, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if status is not None:
            self.assertEqual(done.returncode, status, f"{shlex.join(command)}\n{done.stdout}")
        else:
            self.assertNotEqual(done.returncode, 0, f"{shlex.join(command)}\n{done.stdout}")
        return done.stdout

    def numbers(self, ranks, command):
        """The numbers of a run that ends with the same weights on all of its ranks."""
        file = self.folder / "numbers.json"
        output = self.run_it([*command, "--json", str(file)])
        found = hashes(output)
        self.assertEqual((len(found), len(set(found))), (ranks, 1), output)
        numbers = json.loads(file.read_text())
        self.assertEqual(numbers["weights_sha256"], found[0])
        self.assertEqual(numbers["gradient_bytes_reduced"], 4 * numbers["parameters"] * numbers["steps"])
        return numbers

    def assert_learn_alike(self, one, other):
        """Compares the means of epochs and single steps."""
        self.assertEqual(len(one["epochs"]), len(other["epochs"]))
        for x, y in zip(one["epochs"], other["epochs"]):
            self.assertAlmostEqual(x["train_loss"], y["train_loss"], delta=1e-4)
            self.assertEqual(len(x["step_loss"]), len(y["step_loss"]))
            for of_one, of_other in zip(x["step_loss"], y["step_loss"]):
                self.assertAlmostEqual(of_one, of_other, delta=1e-4)

    def test_four_workers_reach_95_percent_on_the_digits_and_say_so(self):
        output = self.run_it(mpirun(4, *WITH_MPI, "--network", "lenet", "--dataset", "digits"))
        self.assertGreaterEqual(float(re.search(r"Epoch 19: Test_acc (0\.[0-9]{6})", output)[1]), 0.95)
        self.assertEqual((len(hashes(output)), len(set(hashes(output)))), (4, 1), output)
        self.assertIn("bytes reduced 241187200 = 4 bytes x 131080 parameters x 460 steps", output)

    def test_n_workers_train_like_one_process_with_n_times_the_batch(self):
        for network, counts in NUMBERS.items():
            options = ["--epochs", "4", "--network", network, "--batch-size"]
            for n in counts:
                with self.subTest(workers=n, network=network):
                    many = self.numbers(n, mpirun(n, *WITH_MPI, *options, 12))
                    one = self.numbers(1, [TRAIN, *options, str(12 * n)])
                    self.assertEqual(many["workers"], n)
                    self.assert_learn_alike(many, one)

    def test_two_devices_in_each_of_two_workers_train_like_four_workers(self):
        for network in NUMBERS:
            with self.subTest(network=network):
                options = [*WITH_MPI, "--epochs", "4", "--network", network]
                two = self.numbers(2, mpirun(2, *options, "--devices", 2, "--batch-size", 24))
                four = self.numbers(4, mpirun(4, *options, "--batch-size", 12))
                self.assert_learn_alike(two, four)

    def test_one_altered_sample_of_one_worker_changes_the_weights_of_all(self):
        altered = self.folder / "digits"
        shutil.copytree(DIGITS, altered)
        options = [*WITH_MPI, "--epochs", "1", "--network", "mlp"]
        before = hashes(self.run_it(mpirun(3, *options)))
        # The middle of the first image, which is one for training and read by one worker in an epoch.
        with open(altered / "digits-images-idx3-ubyte", "r+b") as images:
            images.seek(16 + 4 * 8 + 4)
            images.write(bytes([16]))
        after = set()
        for changed in range(3):
            command = ["mpirun"]
            for rank in range(3):
                command += [":"] * (rank > 0) + ["-n", "1", *options]
                command += ["--data-dir", str(altered)] * (rank == changed)
            found = hashes(self.run_it(command))
            self.assertEqual((len(found), len(set(found))), (3, 1))
            after.add(found[0])
        # One of the three workers has that sample in its shard. The other two never read it.
        self.assertEqual(len(after), 2)
        self.assertIn(before[0], after)

    def test_workers_that_were_started_differently_are_all_told_so(self):
        command = [*mpirun(1, *WITH_MPI), ":", "-n", "2", *WITH_MPI, "--batch-size", "8"]
        self.assertIn("workers must agree on the --batch-size: rank 0 has 16, rank 1 has 8",
                      self.run_it(command, status=None))

    def test_processes_of_an_mpirun_that_train_alone_are_warned(self):
        self.assertIn("each process works alone; 'dist_sync_mpi' sums over all of them",
                      self.run_it(mpirun(2, TRAIN, "--network", "mlp", "--epochs", 1)))

    def test_standard_output_that_cannot_be_written_to_is_an_error(self):
        program = f"{shlex.quote(TRAIN)} --benchmark 1 --epochs 1 --dataset mnist > /dev/full"
        self.assertIn("No space left on device", self.run_it(["sh", "-c", program], status=1))

    def test_a_benchmark_needs_no_data_and_tells_each_workers_speed(self):
        output = self.run_it(mpirun(2, *WITH_MPI, "--benchmark", 1, "--epochs", 1, "--dataset", "mnist", "--batch-size",
                                    4))
        self.assertRegex(output, "Epoch 0: [0-9]+ samples/s together, by worker: [0-9]+ [0-9]+")
        self.assertNotIn("Test_acc", output)

    def test_the_smallest_program_sums_over_its_processes(self):
        output = self.run_it(mpirun(3, HELLO))
        for rank in range(3):
            self.assertIn(f"rank {rank} of 3: weight 0.5, gradient 3", output)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[5:]], verbosity=2)
