"""The files of MNIST and CIFAR-10 that the examples for MXNet read: a part of test_mxnet.py."""
import gzip
import os
import pathlib
import random
import shutil
import struct
import subprocess
import tempfile

from installed import ROOT
from mxnet_examples import EXAMPLES, TRAIN

MNIST = {"train": 200, "t10k": 50}
SHORT = ("--epochs", 1, "--batch-size", 20)


def idx(*shape, most=256):
    """A file of MNIST's format."""
    count = 1
    for length in shape:
        count *= length
    values = random.Random(count).choices(range(most), k=count)
    return bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}i", *shape) + bytes(values)


def write_mnist(folder, pack=bytes, end=""):
    for part, count in MNIST.items():
        (folder / f"{part}-images-idx3-ubyte{end}").write_bytes(pack(idx(count, 28, 28)))
        (folder / f"{part}-labels-idx1-ubyte{end}").write_bytes(pack(idx(count, most=10)))


def write_cifar10(folder, count=20):
    folder.mkdir(exist_ok=True)
    numbers = random.Random(1)
    for name in [*(f"data_batch_{i}.bin" for i in range(1, 6)), "test_batch.bin"]:
        records = (bytes([numbers.randrange(10)]) + numbers.randbytes(3 * 32 * 32) for _ in range(count))
        (folder / name).write_bytes(b"".join(records))


class Files:
    def with_files(self, script, dataset, *words):
        """Runs a short training with the files in self.folder. Returns (exit code, what it printed)."""
        return self.of_script(script, "--dataset", dataset, "--data-dir", self.folder, *SHORT, *words)

    def of_script(self, *words):
        done = subprocess.run([str(word) for word in (self.python, *words)], text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
        return done.returncode, done.stdout

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def learns(self, script, dataset, *words):
        code, text = self.with_files(script, dataset, *words)
        self.assertEqual(code, 0, text)
        self.accuracy(text, 1)

    def refused(self, script, dataset, words, status=1):
        code, text = self.with_files(script, dataset)
        self.assertEqual(code, status, text)
        self.assertIn(words, text)
        self.assertNotIn("Traceback", text)

    def test_mnist_is_read_from_its_files_compressed_or_not(self):
        write_mnist(self.folder)
        self.learns(TRAIN, "mnist")
        for file in self.folder.iterdir():
            file.unlink()
        write_mnist(self.folder, gzip.compress, ".gz")
        self.learns(TRAIN, "mnist")

    def test_cifar_10_is_read_from_its_binary_files_in_their_folder_or_beside(self):
        for folder in (self.folder, self.folder / "cifar-10-batches-bin"):
            write_cifar10(folder)
            self.learns(EXAMPLES / "cifar10_dist.py", "cifar10", "--kv-store", "local", "--images", 40)
            for file in folder.glob("*.bin"):
                file.unlink()

    def test_files_that_are_missing_or_cut_are_named(self):
        self.refused(TRAIN, "mnist", f"no files of mnist in {self.folder} (such as train-images-idx3-ubyte)", 2)
        write_mnist(self.folder)
        (self.folder / "t10k-images-idx3-ubyte").rename(self.folder / "away")
        self.refused(TRAIN, "mnist", f"there is no {self.folder}/t10k-images-idx3-ubyte")
        (self.folder / "away").rename(self.folder / "t10k-images-idx3-ubyte")
        labels = self.folder / "t10k-labels-idx1-ubyte"
        labels.write_bytes(labels.read_bytes()[:-1])
        self.refused(TRAIN, "mnist", "t10k-labels-idx1-ubyte has 57 bytes, not those of 50 values")
        labels.write_bytes(b"<html>")
        self.refused(TRAIN, "mnist", "t10k-labels-idx1-ubyte is no IDX file")
        write_cifar10(self.folder)
        (self.folder / "test_batch.bin").write_bytes(b"12")
        self.refused(EXAMPLES / "cifar10_dist.py", "cifar10", "has 2 bytes, not records of 3073")

    def copied_away(self):
        """The scripts in a folder by themselves, as the launcher copies them. Root puts it directly below /."""
        above = "/" if os.access("/", os.W_OK) else None
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="tutti-", dir=above)))
        for script in EXAMPLES.glob("*.py"):
            shutil.copy(script, folder)
        return folder

    def test_scripts_that_were_copied_away_take_the_data_set_beside_them_that_they_are_made_for(self):
        folder = self.copied_away()
        mnist = folder / "train_mnist.py"
        code, text = self.of_script(mnist)
        self.assertEqual(code, 2, text)
        self.assertIn(f"no files of mnist or digits in {folder} or {folder}/data", text)
        self.assertIn("--data-dir DIR says where they are", text)
        shutil.copytree(ROOT / "examples/data", folder / "data")
        self.takes(mnist, "digits", folder / "data")
        write_mnist(folder)
        self.takes(mnist, "mnist", folder)
        write_cifar10(folder / "cifar-10-batches-bin")
        self.takes(folder / "cifar10_dist.py", "cifar10", folder)

    def takes(self, script, dataset, folder):
        code, text = self.of_script(script, *SHORT, "--kv-store", "local")
        self.assertEqual(code, 0, text)
        self.assertIn(f"The data set is {dataset}, of {folder}\n", text)
        self.accuracy(text, 1)
