"""The learning and the output of the examples for MXNet: a part of test_mxnet.py."""
import os
import re

from installed import ROOT, said

EXAMPLES = ROOT / "examples/python/mxnet"
TRAIN = EXAMPLES / "train_mnist.py"


def page_line():
    """The line by which MXNet's page starts the training of the digits."""
    page = (ROOT / "bindings/python/MXNET.md").read_text()
    return re.search(r"^mpirun -n 4 python -m tutti .*/mxnet/.*$", page, re.MULTILINE)[0]


class Said:
    def accuracy(self, text, count):
        """The last accuracy that the workers print. Checks that all have the same weights."""
        accuracies = re.findall(r"Epoch \d+: Test_acc (\d\.\d{6})", text)
        weights = re.findall(rf"Worker (\d) of {count}: sha256 of the weights ([0-9a-f]{{64}})", text)
        self.assertEqual(sorted(rank for rank, _ in weights), [str(rank) for rank in range(count)], text)
        self.assertEqual(len({digest for _, digest in weights}), 1, text)
        return float(accuracies[-1])


class Examples(Said):
    def test_an_unchanged_script_of_modules_learns_the_digits_alone_and_on_several_ranks(self):
        self.assertNotIn("tutti", "".join(line for line in TRAIN.read_text().splitlines() if "import" in line))
        alone = said(self.python, "train_mnist.py", "--network", "lenet", timeout=180, cwd=EXAMPLES)
        self.assertGreaterEqual(self.accuracy(alone, 1), 0.95)
        path = {"PATH": f"{self.python.parent}:{os.environ['PATH']}"}
        together = said("bash", "-ec", page_line(), timeout=300, cwd=ROOT, env={**os.environ, **path})
        self.assertGreaterEqual(self.accuracy(together, 4), 0.95)
        for text in (alone, together):
            self.assertEqual(text.count("The data set is digits, of "), 1, text)


class Devices(Said):
    def test_a_script_of_gluon_splits_batches_over_ranks_and_devices(self):
        text = self.on_ranks(2, EXAMPLES / "cifar10_dist.py", "--kv-store", "dist_sync_mpi", "--epochs", 1,
                             "--images", 64, "--batch-size", 16, "--devices", 2, "--work-load-list", "1,3", timeout=300)
        self.accuracy(text, 2)
        for line in ("Total number of workers: 2", "This worker's rank: 0", "This worker's rank: 1"):
            self.assertIn(line, text)


class Benchmarks:
    def test_the_benchmark_of_every_script_prints_the_speed_of_each_worker_and_needs_no_data(self):
        for script, words in (("train_imagenet.py", ("--dataset", "imagenet", "--network", "vgg11", "--image-shape",
                                                     "3,32,32")),
                              ("train_mnist.py", ("--dataset", "mnist", "--network", "lenet")),
                              ("cifar10_dist.py", ("--network", "resnet18"))):
            with self.subTest(script):
                text = self.on_ranks(2, "-m", "tutti", EXAMPLES / script, "--benchmark", 1, *words, "--batch-size", 2,
                                     "--steps", 5, "--disp-batches", 2, "--epochs", 2, "--kv-store", "dist_sync_mpi",
                                     timeout=300)
                self.assertNotIn("Test_acc", text)
                for rank in (0, 1):
                    batches = re.findall(rf"Worker {rank}: Epoch (\d) Batch (\d+): \d+\.\d\d samples/s", text)
                    self.assertEqual(batches, [("0", "2"), ("0", "4"), ("1", "2"), ("1", "4")], text)


class Served(Said):
    def test_scripts_learn_the_digits_over_servers_unchanged(self):
        for kind in self.TYPES:
            with self.subTest(kind):
                words, least = ("--devices", 2) if "device" in kind else (), 0.93 if kind == "dist_async" else 0.95
                text = self.served(2, 2, "train_mnist.py", "--network", "lenet", "--kv-store", kind, *words,
                                   timeout=300, cwd=EXAMPLES)
                if kind == "dist_async":
                    accuracy = float(re.findall(r"Test_acc (\d\.\d{6})", text)[-1])
                else:
                    accuracy = self.accuracy(text, 2)
                self.assertGreaterEqual(accuracy, least, text)
