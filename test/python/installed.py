"""The Python package in an environment of its own, as `pip install .` leaves it."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "test/python"
#: pip brings a newer meson than that of the tests' other builds, which adds this flag.
COMPILER_CACHE = {"CCACHE_IGNOREOPTIONS": "-D_GLIBCXX_ASSERTIONS=1"}
#: What pip says when nobody here is to blame: there is no such wheel for this machine, or no way to the index.
NOT_HERE = ("No matching distribution found", "Max retries exceeded", "Read timed out")


def said(*words, timeout=60, **options):
    """What a command prints; that it fails fails the test, with all it said."""
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, timeout=timeout, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, words))}\nended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def python_with(module):
    """This Python, or the system's, or neither."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", f"import {module}"], check=False, stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return None


class Installed(unittest.TestCase):
    build_type = "debugoptimized"
    SETUP = ["-Dwerror=true", "-Ddebug=false"]
    BEFORE = []  # words before those that run a Python

    @classmethod
    def setUpClass(cls):
        os.environ.pop("LD_LIBRARY_PATH", None)  # meson's, with the build's library: the package has its own
        cls.top = pathlib.Path(tempfile.mkdtemp(prefix="tutti-package-"))
        cls.addClassCleanup(shutil.rmtree, cls.top)
        venv.create(cls.top / "venv", with_pip=True)
        cls.python = cls.top / "venv/bin/python"
        cls.install()

    @classmethod
    def pip(cls, *words):
        said(cls.python, "-m", "pip", *words, "--quiet", timeout=900, env=os.environ | COMPILER_CACHE)

    @classmethod
    def wheels(cls, *names):
        """Installs libraries that are built already; skips where these, or the index of them, cannot be had."""
        try:
            cls.pip("install", "--only-binary", ":all:", *names)
        except AssertionError as error:
            if not any(words in str(error) for words in NOT_HERE):
                raise
            why = next(line.removeprefix("ERROR: ") for line in str(error).splitlines() if line.startswith("ERROR: "))
            print(f"skipped: {why}", flush=True)
            raise unittest.SkipTest(why) from error

    @classmethod
    def setup(cls):
        """As the other builds of the tests are, for whose objects the compiler's cache is good then."""
        quickly = [] if cls.build_type == "release" else ["-Doptimization=1"]
        return [f"-Csetup-args={word}" for word in (f"-Dbuildtype={cls.build_type}", *quickly, *cls.SETUP)]

    @classmethod
    def install(cls):
        cls.pip("install", *cls.setup(), ROOT)

    def on_ranks(self, count, *words, timeout=60):
        """What the ranks of a job print. Open MPI may put lines of several ranks into one."""
        return said("mpirun", "-n", count, *self.BEFORE, self.python, *words, timeout=timeout, cwd=self.top)
