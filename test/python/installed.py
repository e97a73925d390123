"""The Python package in an environment of its own, by a wheel that is made once for a tree."""
import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
HERE = ROOT / "test/python"
#: pip brings a newer meson than that of the tests' other builds, which adds this flag.
COMPILER_CACHE = {"CCACHE_IGNOREOPTIONS": "-D_GLIBCXX_ASSERTIONS=1"}
#: The wheels of this tree. Each is in a folder whose name is made of its inputs.
WHEELS = ROOT / ".cache/wheels"
KEPT_WHEELS = 6
#: pip as an environment gets it, in a folder for each Python.
PIPS = ROOT / ".cache/pips"
#: Debian 12's own pip knows no -C, and keeps only the last of several options of that kind.
PIP = "pip >= 23.1"
#: A wheel is made of these.
SOURCES = ("bindings", "coordinator", "include", "lib", "scripts", "examples/command_line", "meson.build",
           "meson_options.txt", "pyproject.toml", "README.md", "LICENSE")
#: The texts of pip if nobody here is to blame: there is no such wheel for this machine, or no way to the index.
NOT_HERE = ("No matching distribution found", "Max retries exceeded", "Read timed out")


def said(*words, timeout=60, **options):
    """Runs a command, and returns what it prints. If the command fails, the test fails and shows the output."""
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, timeout=timeout, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, words))}\nended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def python_with(module):
    """A Python that has this module: the one that runs, or the system's, or None."""
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", f"import {module}"], check=False, stderr=subprocess.DEVNULL).returncode == 0:
            return python
    return None


def hash_of(*words):
    """A hash of these words, the wheel's sources, this Python and the compiler."""
    listed = said("git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", *SOURCES, cwd=ROOT)
    made_of = hashlib.sha256(repr((words, sys.version, said("c++", "--version"))).encode())
    for name in sorted(set(listed.split("\0")[:-1])):
        path = ROOT / name
        if path.is_file():
            made_of.update(f"{name}\0{path.stat().st_mode}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return made_of.hexdigest()[:32]


@contextlib.contextmanager
def alone_in(place):
    """Makes this folder, and lets one process at a time work there."""
    place.mkdir(parents=True, exist_ok=True)
    with open(place / "lock", "w", encoding="utf-8") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def packages_of(environment):
    place, = environment.glob("lib/python*/site-packages")
    return place


def make_environment(place, *options, python=sys.executable):
    """An environment with pip. pip is unpacked once for a tree and a Python, which takes seconds; then it is copied."""
    kept = PIPS / hashlib.sha256(f"{python} {said(python, '-VV')} {PIP}".encode()).hexdigest()[:16]
    with alone_in(kept):
        if not (kept / "packages").exists():
            with tempfile.TemporaryDirectory(dir=kept) as draft:
                said(python, "-m", "venv", draft, timeout=300)
                said(pathlib.Path(draft, "bin/python"), "-m", "pip", "install", "--quiet", PIP, timeout=300)
                packages_of(pathlib.Path(draft)).rename(kept / "packages")
    said(python, "-m", "venv", "--without-pip", *options, place)
    shutil.copytree(kept / "packages", packages_of(place), dirs_exist_ok=True)


def with_the_same_meson(folder):
    """Variables by which pip builds with the meson of the tests' other builds. Another one writes other unity sources,
    and passes other flags, so that the compiler's cache would have no object of the library."""
    constraints = pathlib.Path(folder, "constraints.txt")
    constraints.write_text(f"meson=={said('meson', '--version')}")
    return {"PIP_CONSTRAINT": str(constraints), "PIP_BUILD_CONSTRAINT": str(constraints)}


def wheel_of(python, *setup):
    """The tree's wheel. The first test that asks makes it; the others, and later runs on the same tree, find it."""
    place = WHEELS / hash_of(*setup)
    with alone_in(place):
        if not list(place.glob("*.whl")):
            for older in sorted(WHEELS.iterdir(), key=lambda folder: folder.stat().st_mtime)[:-KEPT_WHEELS]:
                shutil.rmtree(older, ignore_errors=True)
            with tempfile.TemporaryDirectory(dir=place) as draft:
                said(python, "-m", "pip", "wheel", *setup, "--no-deps", "--wheel-dir", draft, ROOT, "--quiet",
                     timeout=1500, env=os.environ | with_the_same_meson(draft))
                wheel, = pathlib.Path(draft).glob("*.whl")
                wheel.rename(place / wheel.name)
    wheel, = place.glob("*.whl")
    return wheel


class Installed(unittest.TestCase):
    build_type = "debugoptimized"
    SETUP = ["-Dwerror=true", "-Ddebug=false"]
    BEFORE = []  # the words before those that run a Python

    @classmethod
    def setUpClass(cls):
        os.environ.pop("LD_LIBRARY_PATH", None)  # meson's, with the build's library: the package has its own
        os.environ["OMP_NUM_THREADS"] = "1"  # the ranks share the cores
        cls.top = pathlib.Path(tempfile.mkdtemp(prefix="tutti-package-"))
        cls.addClassCleanup(shutil.rmtree, cls.top)
        make_environment(cls.top / "venv")
        cls.python = cls.top / "venv/bin/python"
        cls.install()

    @classmethod
    def pip(cls, *words):
        said(cls.python, "-m", "pip", *words, "--quiet", timeout=900, env=os.environ | COMPILER_CACHE)

    @classmethod
    def wheels(cls, *names):
        """Installs wheels. Skips the test if the wheels or their index cannot be downloaded."""
        try:
            cls.pip("install", "--only-binary", ":all:", *names, "--no-compile")
        except AssertionError as error:
            if not any(words in str(error) for words in NOT_HERE):
                raise
            why = next(line.removeprefix("ERROR: ") for line in str(error).splitlines() if line.startswith("ERROR: "))
            print(f"skipped: {why}", flush=True)
            raise unittest.SkipTest(why) from error

    @classmethod
    def setup(cls):
        """The options of the tests' other builds, so that the compiler's cache has the objects."""
        quickly = [] if cls.build_type == "release" else ["-Doptimization=1", "-Dunity=on", "-Dunity_size=16"]
        return [f"-Csetup-args={word}" for word in (f"-Dbuildtype={cls.build_type}", *quickly, *cls.SETUP)]

    @classmethod
    def install(cls):
        cls.pip("install", wheel_of(cls.python, *cls.setup()))

    def on_ranks(self, count, *words, timeout=60):
        """The lines that the ranks of a job print. Open MPI may join lines of several ranks."""
        return said("mpirun", "-n", count, *self.BEFORE, self.python, *words, timeout=timeout, cwd=self.top)
