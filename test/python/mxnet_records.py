"""Files of MXNet's im2rec, and a training of train_imagenet.py with them: a part of test_mxnet.py."""
import pathlib
import random
import re
import struct
import subprocess
import tempfile
import zlib

from installed import said
from mxnet_examples import EXAMPLES

SCRIPT = EXAMPLES / "train_imagenet.py"
MAGIC = 0xced7230a
OPTIONS = ("--network", "resnet18", "--image-shape", "3,32,32", "--num-classes", 10, "--batch-size", 2)


def png(seed=None):
    """An image of 32 x 32 random pixels, or a black one, which is much smaller when it is compressed."""
    rows = (b"\0" + (random.Random(f"{seed} {y}").randbytes(96) if seed is not None else bytes(96)) for y in range(32))
    parts = ((b"IHDR", struct.pack(">IIBBBBB", 32, 32, 8, 2, 0, 0, 0)), (b"IDAT", zlib.compress(b"".join(rows))),
             (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(struct.pack(">I", len(content)) + kind + content +
                                           struct.pack(">I", zlib.crc32(kind + content)) for kind, content in parts)


def write_records(folder, name, images):
    """NAME.rec with these (label, image), and NAME.idx, which says where each begins."""
    records, index = b"", ""
    for number, (label, image) in enumerate(images):
        index += f"{number}\t{len(records)}\n"
        content = struct.pack("IfQQ", 0, label, number, 0) + image
        records += struct.pack("II", MAGIC, len(content)) + content + bytes(-len(content) % 4)
    (folder / f"{name}.rec").write_bytes(records)
    (folder / f"{name}.idx").write_text(index)


class Records:
    def with_records(self, count):
        """A folder with this many images for training, the first half of them larger, and three equal images for the
        test."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        write_records(folder, "train", [(i % 10, png(i if i < count // 2 else None)) for i in range(count)])
        write_records(folder, "val", [(label, png()) for label in range(3)])
        return folder

    def test_workers_take_as_many_batches_each_though_their_records_are_of_unequal_size(self):
        text = self.on_ranks(2, "-m", "tutti", SCRIPT, *OPTIONS, "--data-dir", self.with_records(24), "--epochs", 2,
                             "--disp-batches", 1, "--kv-store", "dist_sync_mpi", timeout=120)
        self.accuracy(text, 2)
        for rank in range(2):
            numbers = re.findall(rf"Worker {rank}: Epoch (\d) Batch (\d+): ", text)
            self.assertEqual(numbers, [(str(epoch), str(batch)) for epoch in range(2) for batch in range(1, 6)], text)

    def test_each_image_of_the_test_counts_once_an_epoch(self):
        # Three look alike, and each of the three classes has one: one is classified right.
        text = said(self.python, SCRIPT, *OPTIONS[:-4], "--num-classes", 3, "--batch-size", 2, "--data-dir",
                    self.with_records(6), "--epochs", 3, timeout=120)
        self.assertEqual(re.findall(r"Test_acc (\S+)", text), ["0.333333"] * 3, text)

    def labels(self, reader, folder):
        """The labels of two epochs of a single worker, in the order in which it reads them."""
        program = ("import argparse, pathlib, sys, train_imagenet as t\n"
                   "args = argparse.Namespace(data_dir=pathlib.Path(sys.argv[1]), image_shape=(3, 32, 32),"
                   " batch_size=2, seed=1)\n"
                   f"batches = {reader}\n"
                   "for epoch in range(2):\n"
                   "    print('labels', *(int(label) for batch in batches for label in batch.label[0].asnumpy()))\n"
                   "    batches.reset()\n")
        text = said(self.python, "-c", program, folder, cwd=EXAMPLES)
        return [[int(word) for word in line.split()[1:]] for line in text.splitlines() if line.startswith("labels")]

    def test_one_worker_too_trains_in_another_order_each_time_and_tests_in_that_of_the_file(self):
        folder = self.with_records(10)
        for index in ("with the index", "without"):
            with self.subTest(index):
                first, second = self.labels("t.training_records(args, 0, 1)", folder)
                self.assertEqual([sorted(first), sorted(second)], [list(range(10))] * 2)
                self.assertNotIn(list(range(10)), (first, second))
                self.assertNotEqual(first, second)
                (folder / "train.idx").unlink(missing_ok=True)
        self.assertEqual(self.labels("t.records(args, 'val')", folder)[0][:3], [0, 1, 2])

    def refuses(self, told, *words):
        done = subprocess.run([str(word) for word in words], text=True, check=False, timeout=60,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertNotEqual(done.returncode, 0, done.stdout)
        self.assertRegex(done.stdout, told)
        self.assertNotIn("Traceback", done.stdout)

    def test_what_several_workers_cannot_share_is_refused(self):
        folder = self.with_records(6)
        words = ("mpirun", "-n", 2, self.python, "-m", "tutti", SCRIPT, *OPTIONS, "--data-dir", folder, "--kv-store",
                 "dist_sync_mpi", "--batch-size", 4)
        self.refuses("6 images in .*train.idx are too few for batches of 4 on 2 workers", *words)
        (folder / "train.idx").unlink()
        self.refuses("there is no .*train.idx", *words)

    def test_records_that_are_missing_are_named_before_the_training(self):
        folder = self.with_records(6)
        for file, told in (("val.rec", "there is no .*val.rec"), ("train.rec", "no files of imagenet in .*train.rec")):
            (folder / file).unlink()
            self.refuses(told, self.python, SCRIPT, *OPTIONS, "--data-dir", folder)
