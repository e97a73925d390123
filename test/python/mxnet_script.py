"""The ways in which users start a script for MXNet, and its output: a part of test_mxnet.py."""
import os
import pathlib
import shlex
import shutil
import subprocess
import sys
import tempfile

from installed import HERE, ROOT, said
from launching import add_ssh, on_terminal
from mxnet_examples import EXAMPLES, TRAIN

sys.path.insert(0, str(ROOT / "test/lab"))
import hosts
from registry import made

SHORT = ("--epochs", 1, "--batch-size", 100)


def with_import(folder):
    """A copy of train_mnist.py that has one line more."""
    place = pathlib.Path(folder) / "examples/python/mxnet"
    place.mkdir(parents=True)
    (place.parents[1] / "data").symlink_to(ROOT / "examples/data")
    shutil.copy(EXAMPLES / "common.py", place)
    script = place / "train_mnist.py"
    script.write_text(TRAIN.read_text().replace("import mxnet as mx\n", "import mxnet as mx\nimport tutti.mxnet\n", 1))
    return script


class Hosts:
    def test_mpirun_starts_one_worker_on_each_host(self):
        reason = hosts.why_not()
        if reason:
            self.skipTest(reason)
        count = self.HOSTS
        with tempfile.TemporaryDirectory() as folder, made(hosts.Lab(f"mxnet{os.getpid()}", (1,) * count)) as lab:
            folder = pathlib.Path(folder)
            path = f"{self.python.parent}:/usr/local/bin:/usr/bin:/bin"
            add_ssh(folder, path)
            (folder / "hosts").write_text("".join(f"{name}\n" for name in lab.names))
            line = (f"mpirun -n {count} --map-by ppr:1:node --hostfile {folder}/hosts "
                    "python -m tutti train_imagenet.py "
                    "--benchmark 1 --network resnet18 --image-shape 3,32,32 --batch-size 2 --steps 4 --disp-batches 2 "
                    "--kv-store dist_sync_mpi")
            # mpirun takes none of the tests' own options to other hosts.
            env = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")}
            text = said(*hosts.enter(lab.names[0], f"env -C {EXAMPLES} {line}"), timeout=300,
                        env={**env, "PATH": f"{folder}:{path}"})
        for rank in range(count):
            self.assertRegex(text, rf"Worker {rank}: Epoch 0 Batch \d+: \d+\.\d\d samples/s")


class Script(Hosts):
    def test_what_the_pages_show_of_it_runs(self):
        text = self.on_ranks(3, HERE / "package_pages.py", ROOT, "MXNet")
        for rank in range(3):
            for line in (f"worker {rank}: well", f"rank {rank} of 3: 3"):
                self.assertIn(line, text)

    def test_one_added_import_is_enough(self):
        with tempfile.TemporaryDirectory() as folder:
            text = self.on_ranks(2, with_import(folder), "--kv-store", "dist_sync_mpi", *SHORT)
        self.accuracy(text, 2)


class Shown:
    def on_terminal(self, *words):
        """The output of a short training in one process on a terminal."""
        code, shown = on_terminal((self.python, TRAIN, *SHORT, *words))
        self.assertEqual(code, 0, shown)
        return shown

    def test_a_terminal_shows_a_progress_bar_and_a_file_gets_none(self):
        self.assertIn(b"\rtraining [" + b"=" * 30 + b"] 14/14", self.on_terminal())
        text = said(self.python, TRAIN, *SHORT)
        self.assertIn("Epoch 0: Test_acc 0.", text)
        self.assertNotIn("\r", text)

    def test_a_plot_is_drawn_to_a_file(self):
        self.wheels("matplotlib==3.8.4", *self.LIBRARY)  # whose numpy stays as it is
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "accuracy.png"
            self.on_ranks(2, "-m", "tutti", TRAIN, *SHORT, "--kv-store", "dist_sync_mpi", "--plot", file)
            self.assertEqual(file.read_bytes()[:8], b"\x89PNG\r\n\x1a\n")

    def test_gpus_are_exactly_those_of_the_list(self):
        with_four = ("import argparse, mxnet as mx, common\n"
                     "mx.context.num_gpus = lambda: 4\n"
                     "parser = common.options('', kv_store='local', network='mlp', dataset='digits')\n"
                     "print(common.contexts(common.parse(parser, ['mlp'], ['digits'])))")
        for words, devices in ((("--gpus", "0,2"), "[gpu(0), gpu(2)]"), (("--devices", "2"), "[cpu(0), cpu(1)]"),
                               ((), "[cpu(0)]")):
            self.assertEqual(said(self.python, "-c", with_four, *words, cwd=EXAMPLES).splitlines()[-1], devices)

    def test_every_script_refuses_gpus_that_are_not_there_and_names_devices(self):
        missing = "no GPU 0, 2: MXNet finds 0 here; --devices N takes N CPU devices"
        for script, words, told in (("train_mnist.py", "0,2", missing), ("cifar10_dist.py", "0,2", missing),
                                    ("train_imagenet.py", "0,2", missing),
                                    ("train_mnist.py", "0,", "'0,' is no list of different GPUs"),
                                    ("train_mnist.py", "1,1", "'1,1' is no list of different GPUs")):
            with self.subTest(script, gpus=words):
                done = subprocess.run([str(self.python), script, "--gpus", words], text=True, check=False,
                                      cwd=EXAMPLES, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertIn(told, done.stderr)

    def test_bad_words_end_a_script_before_it_starts_anything(self):
        for words, said_of_them in ((("--network", "lennet"), "no network 'lennet'; there are mlp, lenet"),
                                    (("--dataset", "mnist"), "no files of mnist in "),
                                    (("--dataset", "cifar10"), "no data set 'cifar10'; there are mnist, digits"),
                                    (("--batch-size", 0), "'0' is not 1 or more"),
                                    (("--benchmark", 1, "--plot", "x.png"), "--benchmark 1 tests nothing")):
            with self.subTest(said_of_them):
                done = subprocess.run([str(word) for word in (self.python, TRAIN, *words)], text=True, check=False,
                                      stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(said_of_them, done.stderr)
