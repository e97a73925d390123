"""This module finds the peers that are installed beside Open MPI, and says how each is started."""
import functools
import os
import pathlib
import subprocess

from compare.contest import BenchError, Contest, Launcher, last_words, open_mpi
from compare.served import mxnets, served

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEERS = ROOT / "benchmarks/peers"
MPI_SOURCES = ["benchmarks/peers/mpi_allreduce.cc", "examples/command_line/command_line.cc",
               *(f"lib/base/{name}.cc" for name in ("failure", "fd", "first_to_say", "host", "names", "nouns",
                                            "printable")),
               *(f"benchmarks/allreduce/{name}.cc" for name in
                 ("bound", "measure", "times", "mpi_contestant", "pattern", "program", "report", "settings", "world"))]
BROUGHT_BY = {
    "Intel MPI": "pip install impi-rt impi-devel, and --peers-python",
    "Gloo": "pip install torch, and --peers-python",
    "Horovod": "pip install horovod beside torch, which builds it for the MPI whose mpicxx comes first, and "
               "--peers-python",
    "PyTorch's DDP": "pip install torch, and --peers-python",
    "MXNet's parameter server": "pip install numpy==1.23.5 mxnet==1.9.1 on Python 3.10 or 3.11, and --mxnet-python",
}
ELSEWHERE = {
    "Intel MPI": "suite node and the links of suite lab measure it",
    "Gloo": "suite node and the links of suite lab measure it",
    "Horovod": "suites node and negotiation measure it",
    "PyTorch's DDP": "suite negotiation measures it",
    "MXNet's parameter server": "suite ps measures it",
}
# One thread for each rank: torch's own threads would only take cores from each other.
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
# From 64 MiB on Intel MPI's own choice is within 5 % of the quickest of its algorithms 1 to 12, each tried by hand. The
# exception is 4 ranks, where the algorithms in shared memory take a fifth less.
INTEL_LARGE = frozenset([16 << 20, 64 << 20, 128 << 20])
INTEL_SETTINGS = {"Intel MPI": ({}, None), "Intel MPI, yielding": ({"I_MPI_THREAD_YIELD": "2"}, None),
                  "Intel MPI, SHM-based Knary": ({"I_MPI_ADJUST_ALLREDUCE": "12"}, INTEL_LARGE)}
HOROVOD = "Horovod"
ASKED_FOR = 120  # seconds: a Python may load much
# Sizes for Gloo and Horovod on one machine: small ones, for which P2 asks, and two large ones. Their allreduces take
# long, also small ones, and would fill half of the suite's time.
SLOW_PEERS_SIZES = frozenset([4, 16 << 10, 64 << 10, 1 << 20, 64 << 20])
# Horovod's time depends on how often its background thread polls, by default once a millisecond. By default its cache
# of agreements is on, and its fusion buffer holds all small tensors.
HOROVOD_SETTINGS = {HOROVOD: {}, "Horovod, 0.1 ms": {"HOROVOD_CYCLE_TIME": "0.1"},
                    "Horovod, 0 ms": {"HOROVOD_CYCLE_TIME": "0"}}
# A thread that polls that often takes a core, beside the thread that waits. Open MPI yields by itself only if there are
# more ranks than cores.
YIELDING = {"OMPI_MCA_mpi_yield_when_idle": "1"}
HOROVOD_YIELDING = {f"{name}, yielding": {**HOROVOD_SETTINGS[name], **YIELDING}
                    for name in ("Horovod, 0.1 ms", "Horovod, 0 ms")}


def not_installed(name):
    """The reason why a peer is skipped."""
    return "not installed; " + BROUGHT_BY[name]


def run_line(python, line):
    """Runs one line in that Python and returns the ended process."""
    try:
        return subprocess.run([python, "-c", line], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=ASKED_FOR,
                              errors="replace", check=False)
    except FileNotFoundError:
        raise BenchError(f"{python}: there is no such program") from None
    except OSError as error:
        raise BenchError(f"cannot start {python}: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        raise BenchError(f"{python}: \"{line}\" still runs after {ASKED_FOR} s") from None


def failed(python, line, done):
    return BenchError(f"{python}: \"{line}\" ended with {done.returncode}: {last_words(done.stderr or done.stdout)}")


@functools.lru_cache
def has_module(python, name):
    """Whether the module is installed. Raises BenchError if it is but cannot be imported, or if that Python is
    broken."""
    line = f"import {name}"
    done = run_line(python, line)
    absent = f"ModuleNotFoundError: No module named '{name.partition('.')[0]}'"
    if done.returncode != 0 and absent not in done.stderr:
        raise failed(python, line, done)
    return done.returncode == 0


def prefix_of(python):
    """The folder of that Python's environment."""
    line = "import sys; print(sys.prefix)"
    done = run_line(python, line)
    if done.returncode != 0 or not done.stdout.strip():
        raise failed(python, line, done)
    return pathlib.Path(done.stdout.strip())


def intel_prefix(python):
    """The folder of Intel MPI; None if it is not installed."""
    prefix = prefix_of(python)
    return prefix if (prefix / "include/mpi.h").exists() and (prefix / "bin/mpiexec.hydra").exists() else None


def newest(files):
    return max(file.stat().st_mtime for file in files)


def compile_for(prefix, build):
    """mpi_allreduce, compiled for the MPI under that prefix; compiled again if a source has changed."""
    program = build / "compare/impi_allreduce"
    sources = [ROOT / source for source in MPI_SOURCES]
    headers = [*(ROOT / "benchmarks/allreduce").glob("*.h"), *(ROOT / "include/tutti").glob("*.h")]
    if program.exists() and program.stat().st_mtime > newest([*sources, *headers, prefix / "include/mpi.h"]):
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    line = ["g++", "-std=c++20", "-O2", "-DNDEBUG", "-DMPICH_SKIP_MPICXX", '-DTUTTI_VERSION="peer"',
            '-DTUTTI_BUILD_TYPE="release"', f"-I{ROOT}",
            f"-I{ROOT}/include", f"-I{ROOT}/lib", "-isystem", f"{prefix}/include", *map(str, sources), "-o",
            str(program),
            f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib", "-lmpi", "-lfmt"]
    said = subprocess.run(line, text=True, stderr=subprocess.PIPE, check=False)
    if said.returncode != 0:
        raise BenchError(f"cannot compile against Intel MPI: {said.stderr.strip().splitlines()[0]}")
    return program


def intel_mpi(request):
    """Contests of Intel MPI, started by its own mpirun."""
    prefix = intel_prefix(request.peers_python)
    if prefix is None:
        return []
    program = compile_for(prefix, request.build)
    path = f"{prefix}/bin:{os.environ['PATH']}"
    launcher = Launcher((f"{prefix}/bin/mpirun",), {"I_MPI_ROOT": str(prefix), "I_MPI_FABRICS": "shm", "PATH": path})
    return [Contest(name, ", ".join(f"{key}={value}" for key, value in env.items()) or "default, over shared memory",
                    (program,),
                    launcher, {"mpi": "Intel MPI"}, env, covers)
            for name, (env, covers) in INTEL_SETTINGS.items()]


def gloo(request, launcher=None, where="on the loopback", words=(), covers=None):
    """A contest of Gloo, on ranks of this machine or where `launcher` starts them, with the words that the program
    needs there."""
    if not has_module(request.peers_python, "torch.distributed"):
        return []
    program = (request.peers_python, PEERS / "gloo_allreduce.py", *words)
    return [Contest("Gloo", f"torch.distributed over TCP {where}", program, launcher or open_mpi(), {"gloo": "Gloo"},
                    ONE_THREAD, covers)]


def gloo_here(request):
    return gloo(request, covers=SLOW_PEERS_SIZES)


def horovod(request, program, impls, settings, covers=None):
    """Contests with one of Horovod's programs, one for each setting. `impls`: {impl: what is added to the name}."""
    if not has_module(request.peers_python, "horovod.torch"):
        return []
    return [Contest(name, ", ".join(f"{key}={value}" for key, value in env.items()) or "default",
                    (request.peers_python, PEERS / program), open_mpi(),
                    {impl: name + which for impl, which in impls.items()}, {**ONE_THREAD, **env}, covers,
                    most_ranks=len(os.sched_getaffinity(0)) if name in HOROVOD_YIELDING else None)
            for name, env in {**HOROVOD_SETTINGS, **HOROVOD_YIELDING}.items() if name in settings]


def horovod_allreduce(request):
    """Horovod's allreduce with its defaults, and without a cycle time, where a single tensor waits for nothing
    else."""
    return horovod(request, "horovod_allreduce.py", {"horovod": ""},
                   (HOROVOD, "Horovod, 0 ms", "Horovod, 0 ms, yielding"),
                   SLOW_PEERS_SIZES)


def horovod_steps(request):
    """Horovod's steps: with one call for each tensor, and with one call for all."""
    return horovod(request, "horovod_steps.py", {"horovod": "", "horovod grouped": ", grouped"},
                   {**HOROVOD_SETTINGS, **HOROVOD_YIELDING})


def ddp_steps(request):
    if not has_module(request.peers_python, "torch.distributed"):
        return []
    return [
        Contest("DDP, Gloo", "forward and backward with it", (request.peers_python, PEERS / "ddp_steps.py"), open_mpi(),
                {"ddp": "DDP, Gloo"}, ONE_THREAD)]


def with_servers(who, servers):
    return f"{who}, {servers} server" + "s" * (servers > 1)


def mxnet(request, launcher, servers, where=(), words=()):
    """Contests of MXNet's parameter server; its program takes these words."""
    if not has_module(request.mxnet_python, "mxnet"):
        return []
    name = with_servers("MXNet", servers)
    return [Contest(name, "dist_sync, sums on the servers",
                    (request.mxnet_python, PEERS / "mxnet_pushpull.py", *words),
                    served(launcher, servers, mxnets(request), where),
                    {"mxnet": name, "mxnet keys": f"{name}, ResNet-50's keys"}, ONE_THREAD)]


def found(request, finders):
    """(contests, {who was skipped: why}). `finders`: {who: function that gives its contests}."""
    contests, skipped = [], {}
    for name, find in finders.items():
        try:
            mine = find(request)
        except BenchError as error:
            skipped[name] = str(error)
            continue
        contests += mine
        if not mine:
            skipped[name] = not_installed(name)
    return contests, skipped


def fitting(contests, ranks):
    """The contests that are run with this many ranks."""
    return [one for one in contests if one.most_ranks is None or ranks <= one.most_ranks]


def elsewhere(*here):
    """{peer: which suites measure it}, without the peers that are measured here."""
    return {name: where for name, where in ELSEWHERE.items() if name not in here}


def installed(request):
    """Contests of allreduce, and who was skipped."""
    finders = {"Intel MPI": intel_mpi, "Gloo": gloo_here, HOROVOD: horovod_allreduce}
    contests, skipped = found(request, finders)
    return contests, {**skipped, **elsewhere(*finders)}


def installed_for_steps(request):
    """Contests of many small tensors, and who was skipped."""
    finders = {HOROVOD: horovod_steps, "PyTorch's DDP": ddp_steps}
    contests, skipped = found(request, finders)
    return contests, {**skipped, **elsewhere(*finders)}
