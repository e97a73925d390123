#!/usr/bin/env python3
"""The Python package as its users get it: by pip into a fresh environment, then examples and promises.

    test_package.py BUILD_TYPE TUTTI_SERVER RECORDING_LIBRARY [smoke|slow|sanitized]

smoke: only what takes seconds. slow: only what takes long or much memory. sanitized: the package and the library within
it are built for the address sanitizer, and whatever can run so is tried again; the rest is named, with why.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest
import venv

import promised
from installed import COMPILER_CACHE, HERE, ROOT, Installed, python_with, said, wheel_of
from promised import Learning, MorePromises, Promises

KIND = sys.argv.pop() if sys.argv[-1] in ("smoke", "slow", "sanitized") else ""
SMOKE = ("test_what_it_promises_to_a_process_alone", "test_what_it_passes_on_and_what_it_returns",
         "test_what_it_promises_first_to_the_ranks_of_a_job", "test_the_commands_that_it_brings")
# Tests run in other folders.
RECORDING = pathlib.Path(sys.argv.pop()).resolve()
MorePromises.server = pathlib.Path(sys.argv.pop()).resolve()
Installed.build_type = sys.argv.pop()


def page_shell_lines():
    """The lines that a user of the page on Python types, from the environment on."""
    page = (ROOT / "bindings/python/README.md").read_text()
    return re.search(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[1].splitlines()


@unittest.skipIf(KIND not in ("", "smoke"), "another kind is asked for")
class Package(MorePromises, Learning):
    COUNTS = (3,)

    def example(self, *words):
        """The result of the example in a process of its own."""
        program = [str(self.python), str(ROOT / "examples/python/train_digits.py"), *words]
        return subprocess.run(program, text=True, check=False, timeout=60, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE)

    def test_its_example_refuses_what_there_is_not_and_says_what_to_do(self):
        for words, told in ((("--gpus", "0,2"), "'0,2' is not the number of a GPU; a worker has one GPU, such as 0"),
                            (("--gpus", "0", "--devices", "2"), "--gpus is for one device in each worker"),
                            (("--network", "vgg16"), "(choose from 'lenet')"),
                            (("--dataset", "mnist"), "(choose from 'digits')"),
                            (("--devices", "0"), "--devices: '0' is not a whole number of 1 or more"),
                            (("--data-dir", "/nowhere"), "/nowhere/digits-images-idx3-ubyte")):
            with self.subTest(words):
                done = self.example(*words)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertIn(told, done.stderr)

    def test_its_example_takes_the_options_of_every_example_and_learns_the_same_on_more_devices(self):
        words = ("--model", "lenet", "--dataset", "digits", "--data-dir", str(ROOT / "examples/data"), "--kvstore",
                 "device", "--num-epochs", "2", "--batch-size", "32", "--lr", "0.1", "--seed", "3")
        learnt = []
        for devices in ("1", "3"):
            done = self.example(*words, "--devices", devices)
            self.assertEqual(done.returncode, 0, done.stderr)
            learnt.append([float(accuracy) for accuracy in re.findall(r"Test_acc (0\.\d+)", done.stdout)])
        self.assertEqual(len(learnt[0]), 2)
        self.assertGreater(learnt[0][1], 0.8)
        for one, several in zip(*learnt):
            self.assertAlmostEqual(one, several, delta=0.01)

    def test_its_example_measures_its_speed_without_data(self):
        done = self.example("--benchmark", "1", "--epochs", "2", "--data-dir", "/nowhere")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"Worker 0: Epoch 1: \d+\.\d\d samples/s")
        self.assertNotIn("Test_acc", done.stdout)

    def test_what_it_says_where_mpi_is_missing_or_another(self):
        said(self.python, HERE / "package_mpi.py", cwd=self.top, timeout=180)

    def test_what_it_passes_on_and_what_it_returns(self):
        said(self.python, HERE / "package_translation.py", RECORDING, cwd=self.top)

    def test_the_commands_that_it_brings(self):
        env = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")}
        said(self.python, HERE / "package_commands.py", cwd=self.top, timeout=300, env=env)

    def test_what_its_types_and_signatures_tell(self):
        self.pip("install", "mypy")
        said(self.python, HERE / "package_types.py", cwd=self.top, timeout=300)

    def test_the_example_learns_the_digits_and_all_ranks_end_with_the_same_weights(self):
        for count in self.COUNTS:
            with self.subTest(ranks=count):
                self.learns_on(count)

    def test_workers_learn_what_one_learns_whose_batch_is_all_of_theirs(self):
        for count in self.COUNTS:
            with self.subTest(ranks=count):
                self.learns_what_one_learns(count)

    def test_one_process_learns_the_same_with_every_type_of_store(self):
        types = ("dist_sync_mpi", "local", "device")
        self.assertEqual(len({self.train(1, "--kv-store", kind) for kind in types}), 1)


@unittest.skipIf(KIND, "another kind is asked for")
class WithoutMpi(unittest.TestCase):
    """A machine that has all but an MPI."""

    def configured(self, *words):
        """Runs meson with the words that pip passes to it, and with these."""
        with open(ROOT / "pyproject.toml", "rb") as file:
            project = tomllib.load(file)
        with tempfile.TemporaryDirectory() as folder:
            programs = dict.fromkeys(("mpic++", "mpicxx", "mpiCC", "mpicc"), "exit 1") | {
                "pkg-config": "for word; do case $word in ompi*|mpi*) exit 1; esac; done\n"
                              f'exec {shutil.which("pkg-config")} "$@"'}
            for name, does in programs.items():
                pathlib.Path(folder, name).write_text(f"#!/bin/sh\n{does}\n")
                pathlib.Path(folder, name).chmod(0o755)
            asked = project["tool"]["meson-python"]["args"]["setup"]
            done = subprocess.run(["meson", "setup", f"{folder}/build", ROOT, *asked, "-Dpython=disabled", *words],
                                  text=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=300,
                                  env=os.environ | COMPILER_CACHE | {"PATH": f"{folder}:{os.environ['PATH']}"})
            return done.returncode, done.stdout

    def test_pip_ends_with_what_to_install_and_builds_without_where_that_is_asked_for(self):
        status, text = self.configured()
        self.assertEqual(status, 1, text)
        self.assertRegex(text, r"ERROR: .*no MPI was found.*apt-get install libopenmpi-dev openmpi-bin.*"
                               r"--config-settings=setup-args=-Dmpi=disabled")
        status, text = self.configured("-Dmpi=disabled")
        self.assertEqual(status, 0, text)


@unittest.skipUnless(KIND == "slow", "takes long")
class Slow(Promises, Learning):
    COUNTS = (1, 4)

    @classmethod
    def install(cls):
        cls.wheel = wheel_of(cls.python, *cls.setup())
        cls.pip("install", cls.wheel)

    def test_the_pages_lines_work_when_pasted_into_a_shell_of_a_fresh_clone(self):
        clone = self.top / "clone"
        clone.mkdir()
        files = said("git", "ls-files", "-z", cwd=ROOT).split("\0")[:-1]
        said("cp", "--parents", "-t", clone, *files, cwd=ROOT)
        lines = page_shell_lines()
        self.assertIn("pip install .", lines)
        env = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "TUTTI_"))}
        text = said("bash", "-ec", "\n".join(lines), timeout=900, cwd=clone, env=env | COMPILER_CACHE)
        self.assertRegex(text, r"Epoch 19: Test_acc 0\.9[5-9]")

    def with_extra(self, extra):
        """The Python of a fresh environment with the package and this extra."""
        venv.create(self.top / extra, with_pip=True)
        python = self.top / extra / "bin/python"
        said(python, "-m", "pip", "install", "--quiet", f"{self.wheel}[{extra}]", timeout=900)
        return python

    def test_the_extra_plot_brings_what_draws(self):
        picture = self.top / "curve.png"
        said(self.with_extra("plot"), ROOT / "examples/python/train_digits.py", "--epochs", 1, "--plot", picture)
        self.assertEqual(picture.read_bytes()[:4], b"\x89PNG")

    def test_the_extra_mxnet_brings_an_mxnet_that_works(self):
        said(self.with_extra("mxnet"), "-c", "import mxnet as mx, tutti.mxnet\n"
             "kv, ones = mx.kv.create('dist_sync_mpi'), mx.nd.ones(4)\n"
             "kv.pushpull('g', ones)\nassert type(kv).__module__.startswith('tutti') and ones[0].asscalar() == 1")

    def test_its_benchmarks_leave_rows_with_what_compare_py_needs(self):
        self.pip("install", "mpi4py")
        for program, words, impls in (
                ("numpy_allreduce.py", ["--bytes", "4,16384", "--seconds", "0.01"], {"python", "mpi4py"}),
                ("numpy_steps.py", ["--tensors", "160", "--steps", "100", "--idle", "0.1"], {"python"}),
                ("numpy_steps.py", ["--tensors", "1", "--steps", "100", "--idle", "0.1"], {"python"}),
                ("numpy_idle.py", ["--stores", "2", "--products", "2"],
                 {"import", "first create", "later creates", "alone", "idle store"})):
            with self.subTest(program, words=words):
                file = self.top / "rows.json"
                self.on_ranks(2, ROOT / "benchmarks/peers" / program, *words, "--json", file)
                rows = json.loads(file.read_text())
                self.assertEqual({row["impl"] for row in rows}, impls)
                for row in rows:
                    self.assertEqual((row["ranks"], row["wrong"]), (2, 0))
                    self.assertTrue(0 < row["time_us"]["min"] <= row["time_us"]["p50"])
                    self.assertGreater(row["bytes"], 0)

    def test_it_works_beside_mpi4py_in_any_order(self):
        self.pip("install", "mpi4py")
        for first in ("mpi4py", "tutti", "create"):
            for count in (1, 2):
                with self.subTest(first=first, ranks=count):
                    text = self.on_ranks(count, HERE / "package_mpi4py.py", first)
                    self.assertEqual(text.count(": well"), count, text)

    def test_what_it_promises_of_jaxs_arrays(self):
        self.pip("install", "jax")
        for count in (1, 3):
            with self.subTest(ranks=count):
                self.on_ranks(count, HERE / "package_jax.py", timeout=180)

    def test_what_it_promises_of_torchs_tensors(self):
        python = python_with("torch")
        self.assertTrue(python, "no Python here has torch; scripts/setup --tests installs Debian's")
        said(python, "-m", "venv", "--system-site-packages", self.top / "torch")
        python = self.top / "torch/bin/python"
        said(python, "-m", "pip", "install", "--quiet", self.wheel, timeout=300)
        for count in (1, 3):
            with self.subTest(ranks=count):
                said("mpirun", "-n", count, python, HERE / "package_torch.py", timeout=180, cwd=self.top)

    def test_what_it_says_under_a_real_launcher_of_another_mpi(self):
        venv.create(self.top / "mpich", with_pip=True)
        said(self.top / "mpich/bin/python", "-m", "pip", "install", "--quiet", "mpich", timeout=300)
        said(self.python, HERE / "package_mpi.py", self.top / "mpich/bin/mpirun", cwd=self.top, timeout=180)

    def test_the_example_learns_the_digits_on_more_ranks(self):
        for count in (2, 5, 8):
            with self.subTest(ranks=count):
                self.learns_on(count)

    def test_more_workers_learn_what_one_learns(self):
        for count in (2, 8):
            with self.subTest(ranks=count):
                self.learns_what_one_learns(count)

    def test_objects_above_2_gib(self):
        # There are two ranks with 4 GiB each, for the object and its pickle.
        text = self.on_ranks(2, HERE / "package_large.py", timeout=300)
        self.assertEqual(text.count(": well"), 2, text)

    def test_a_thousand_creates_and_a_million_calls_leave_no_memory_behind(self):
        print(self.on_ranks(2, HERE / "package_flat.py", 1000, 1_000_000, timeout=600))


def preload():
    """A sanitizer's runtime cannot be loaded late, into a Python without it; it needs the C++ library to be there."""
    libraries = (said("c++", f"-print-file-name={name}").strip() for name in ("libasan.so", "libstdc++.so.6"))
    return f"LD_PRELOAD={' '.join(libraries)}"


@unittest.skipUnless(KIND == "sanitized", "a build of its own")
class Sanitized(MorePromises, Learning):
    # Compilers warn of more in such a build, and not all warnings are right. Python frees little of the memory that it
    # takes.
    SETUP = ["-Db_sanitize=address", "-Db_lundef=false"]
    COUNTS = FAIL_AMONG = (3,)
    SLOWER = 5
    # Its allocator does not see a fork: of a lock that a thread of the parent held at that moment, the child waits for
    # the end for ever.
    FORKED = "forked:at rest"
    LEFT_OUT = {
        "commands": "runs the commands, and Pythons that it starts itself, without the sanitizer's runtime",
        "mpi": "takes MPI's library away from Pythons that it starts itself",
        "mpi4py": "tries in which order MPI is started, no memory",
        "jax": "jax's own library is not built for the sanitizer, and large",
        "torch": "torch's own library is not built for the sanitizer, and large",
        "types": "asks a type checker, which runs nothing",
        "translation": "its store that writes down its calls is not built for the sanitizer",
        "large": "takes 16 GiB, of which the sanitizer would keep what is freed",
    }
    OPTIONS = "ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1"

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.BEFORE = ["env", preload(), cls.OPTIONS]

    def test_the_sanitizer_is_there(self):
        program = "import tutti\nwith tutti.create('local'): print(open('/proc/self/maps').read())"
        text = said(*self.BEFORE, self.python, "-c", program, cwd=self.top)
        self.assertIn("libasan", text)
        core = next(line.split()[-1] for line in text.splitlines() if "/_core." in line)
        self.assertIn("__asan_", said("nm", "-D", core))

    def test_the_example_learns_the_digits(self):
        self.learns_on(2)

    def test_workers_learn_what_one_learns_whose_batch_is_all_of_theirs(self):
        self.learns_what_one_learns(2)

    def test_every_program_of_the_packages_tests_is_run_or_said_to_be_left_out(self):
        run = re.findall(r"package_(\w+)\.py", pathlib.Path(promised.__file__).read_text())
        programs = {path.stem.removeprefix("package_") for path in HERE.glob("package_*.py")} - {"fixture"}
        self.assertEqual(programs, {*run, *promised.PROGRAMS, *self.LEFT_OUT})
        for program, reason in self.LEFT_OUT.items():
            print(f"left out: package_{program}.py: {reason}")


if __name__ == "__main__":
    chosen = [f"Package.{name}" for name in SMOKE] if KIND == "smoke" else []
    unittest.main(argv=[sys.argv[0], *chosen], verbosity=2)
