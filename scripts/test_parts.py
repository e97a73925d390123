"""The builds of the test suite, and the named parts of its full tier."""
import dataclasses
import hashlib
import json
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
CLANG = {"CXX": "ccache clang++-14"}
# The sanitizers see the tests under many times their usual run time.
SLOWER = "5"
# Of the parts that have passed, on which inputs.
PASSED = ROOT / ".cache/passed"


@dataclasses.dataclass(frozen=True)
class Build:
    """A build folder, how it is configured, and the environment of the tests that run in it."""
    folder: str
    what: str
    options: tuple
    compiler: dict
    test_env: dict = dataclasses.field(default_factory=dict)


# The tests run in folders of their own: build/ is the user's, and what is measured is a release build. What a debugger
# needs takes a third of the compilers' time, and only the sanitizers' reports use it.
UNDEBUGGED = ("-Dbuildtype=debugoptimized", "-Ddebug=false")
# -O2 takes a fifth, and most tests take longer to compile than to run. The builds without some part have its warnings.
# With the CUDA toolkit, where there is one: tests play a GPU. The other builds have the stub.
# Several sources are compiled as one, which reads the headers once for all of them. Kernels are compiled for few GPUs.
TOGETHER = ("-Dunity=on", "-Dunity_size=16", "-Dgpu_targets=compute_75,sm_90")
GCC = Build("build-test", "g++ builds it without warnings",
            (*UNDEBUGGED, *TOGETHER, "-Doptimization=1", "-Dtests=true", "-Dbenchmarks=true", "-Dexamples=true",
             "-Dcuda=auto"), {})
CLANG_DEBUG = Build("build-clang", "clang builds it without warnings, thread safety included",
                    ("-Dbuildtype=debug", "-Ddebug=false"), CLANG)
WITHOUT_MPI = Build("build-without-mpi", "it builds without MPI, for stores of one process",
                    (*UNDEBUGGED, "-Dmpi=disabled"), {})
WITHOUT_SERVERS = Build("build-without-ps", "it builds without the parameter server",
                        (*UNDEBUGGED, "-Dps=disabled"), {})
RELEASE = Build("build-release", "g++ builds without warnings what users get who say nothing", (), {})
# Under the sanitizers too, asking for more memory than there is ends in an error of ours. The vptr check probes memory
# through a pipe; where a test has used up all descriptors it finds every vptr invalid.
ASAN = Build("build-asan", "it builds for the address and undefined-behaviour sanitizers",
             (*TOGETHER, "-Dbuildtype=debugoptimized", "-Db_sanitize=address,undefined", "-Db_lundef=false",
              "-Doptimization=1", "-Dcuda=auto",
              "-Dcpp_args=-fno-sanitize-recover=undefined -fno-sanitize=vptr"), CLANG,
             {"ASAN_OPTIONS": "allocator_may_return_null=1",
              "LSAN_OPTIONS": f"suppressions={ROOT}/test/lsan.supp:print_suppressions=0",
              "UBSAN_OPTIONS": "print_stacktrace=1"})
# What Open MPI never frees is told by who asked for it, on stacks that take long to follow.
ASAN_WITH_MPI = dataclasses.replace(ASAN, test_env={
    **ASAN.test_env, "ASAN_OPTIONS": f"fast_unwind_on_malloc=0:{ASAN.test_env['ASAN_OPTIONS']}"})
TSAN = Build("build-tsan", "it builds for the thread sanitizer",
             (*TOGETHER, "-Dbuildtype=debugoptimized", "-Db_sanitize=thread", "-Db_lundef=false", "-Doptimization=1",
              "-Dcuda=auto"), CLANG,
             {"TSAN_OPTIONS": f"suppressions={ROOT}/test/tsan.supp:history_size=4:"
                              "print_suppressions=0:allocator_may_return_null=1"})

# A sanitizer takes long with many ranks on few cores. Of 9 are the leaders that do not hear of each other in one round.
CROWDED = [word for ranks in range(6, 9) for word in ("--no-suite", f"ranks-{ranks}")]
# Where few jobs with servers are tried: they take long, and use MPI in no build.
FEW_SERVERS = [word for one in ("unit", "threads", "mpi", "batch", "excerpt", "python") for word in ("--suite", one)]


@dataclasses.dataclass(frozen=True)
class Selection:
    """Tests of a build that run one after another or beside each other, as words of `meson test`."""
    build: Build
    words: tuple


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of the full tier: what is built for it, as (build, targets), and the tests that run then."""
    name: str
    what: str
    builds: tuple
    selections: tuple

    def stamp(self):
        return PASSED / f"{self.name}.json"

    def passed_before(self, inputs):
        """How many tests passed when this part last ran, if that was on these inputs and none failed; else None."""
        try:
            kept = json.loads(self.stamp().read_text())
        except (OSError, ValueError):
            return None
        return kept["passed"] if kept["inputs"] == inputs else None

    def keep(self, inputs, passed):
        PASSED.mkdir(parents=True, exist_ok=True)
        self.stamp().write_text(json.dumps({"inputs": inputs, "passed": passed, "at": time.ctime()}))


def inputs():
    """A hash of all that a part's outcome may depend on: the tree, uncommitted work included, and the tools."""
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            check=True, stdout=subprocess.PIPE).stdout
    tools = [subprocess.run([tool, "--version"], check=True, stdout=subprocess.PIPE).stdout
             for tool in ("c++", "clang++-14", "meson", "mpirun")]
    found = hashlib.sha256(repr((tools, sys.version)).encode())
    for name in sorted(set(listed.decode().split("\0")) - {""}):
        path = ROOT / name
        if path.is_file():
            found.update(f"{name}\0{path.stat().st_mode}\0{path.stat().st_size}\0".encode() + path.read_bytes())
    return found.hexdigest()


def without(*suites):
    return tuple(word for suite in suites for word in ("--no-suite", suite))


def suites(*names):
    return tuple(word for suite in names for word in ("--suite", suite))


def of_gcc(name, what, *words):
    """A part that tests the build of g++, the slow tests included; an excerpt of these is left out."""
    return Part(name, what, ((GCC, ()),), (Selection(GCC, (*words, *without("excerpt"))),))


QUICK_WITH_SANITIZER = (*without("slow", "python"), *CROWDED, "-t", SLOWER)
PARTS = (
    Part("sources", "the rules of the house, and clang-tidy on all sources but the tests'", (), ()),
    of_gcc("unit", "modules alone", *suites("unit")),
    of_gcc("mpi", "jobs under mpirun", *suites("mpi"), *without("mpi-slow")),
    of_gcc("mpi-slow", "long jobs under mpirun", *suites("mpi-slow")),
    of_gcc("lab", "jobs on emulated hosts", *suites("lab"), *without("python")),
    of_gcc("fault", "processes that end or stop", *suites("fault")),
    of_gcc("ps", "the parameter server", *suites("ps")),
    of_gcc("python", "the package, the scripts and the launcher", *suites("python"),
           *without("mxnet", "torch", "compare")),
    of_gcc("mxnet", "MXNet's scripts", *suites("mxnet")),
    of_gcc("torch", "PyTorch's scripts", *suites("torch")),
    of_gcc("compare", "compare.py", *suites("compare")),
    Part("planted", "bugs that are planted in a copy of the tree", (), ()),
    Part("fuzz", "decoders of what comes from outside", ((CLANG_DEBUG, ("what-no-sanitizer-sees",)),),
         (Selection(CLANG_DEBUG, suites("fuzz")),)),
    # Nobody tries MXNet with -O3: its tests take long, and little of that is spent in the library.
    Part("release", "what users get", ((RELEASE, ()),),
         (Selection(RELEASE, (*FEW_SERVERS, *without("slow", "fault", "mxnet", "compare", "scripts"))),
          Selection(RELEASE, ("package", "PyTorch")))),
    Part("without", "builds that lack MPI or the servers", ((WITHOUT_MPI, ()), (WITHOUT_SERVERS, ())),
         (Selection(WITHOUT_MPI, (*FEW_SERVERS, *without("slow", "scripts"))),
          Selection(WITHOUT_SERVERS, (*suites("unit", "ranks-1", "ranks-3", "python"),
                                      *without("slow", "compare", "scripts"))))),
    Part("address", "under the address and undefined-behaviour sanitizers", ((ASAN, ()),),
         # Jobs compute more there than they wait: one at a time.
         (Selection(ASAN, (*QUICK_WITH_SANITIZER, *suites("unit"))),
          Selection(ASAN_WITH_MPI, (*QUICK_WITH_SANITIZER, *without("unit"), "--num-processes", "1")))),
    # clang 14's thread sanitizer does not find its way about a randomised address space.
    Part("threads", "under the thread sanitizer", ((TSAN, ("threaded",)),),
         (Selection(TSAN, (*suites("threads"), "-t", SLOWER, "--wrapper", "setarch -R")),)),
)
