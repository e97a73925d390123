"""Which peers are installed beside Open MPI, and how each is started."""
import functools
import os
import pathlib
import subprocess

from compare.contest import BenchError, Contest, Launcher, open_mpi

ROOT = pathlib.Path(__file__).resolve().parents[2]
PEERS = ROOT / "benchmarks/peers"
MPI_SOURCES = ["benchmarks/peers/mpi_allreduce.cc", "lib/base/nouns.cc",
               *(f"benchmarks/allreduce/{name}.cc" for name in
                 ("measure", "times", "mpi_contestant", "pattern", "program", "report", "settings", "world"))]
BROUGHT_BY = {
    "Intel MPI": "pip install impi-rt impi-devel, and --peers-python",
    "Gloo": "pip install torch, and --peers-python",
    "Horovod": "PyPI's horovod, which is built from source; no peer program of it is here",
    "MXNet's parameter server": "pip install numpy==1.23.5 mxnet==1.9.1 on Python 3.10 or 3.11, and --mxnet-python",
}


ELSEWHERE = {"Intel MPI": "suite node measures it", "Horovod": BROUGHT_BY["Horovod"]}


@functools.lru_cache
def has_module(python, name):
    try:
        return subprocess.run([python, "-c", f"import {name}"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              timeout=120, check=False).returncode == 0
    except OSError:
        raise BenchError(f"{python}: there is no such program") from None


def prefix_of(python):
    """The folder of the environment that a Python is of."""
    said = subprocess.run([python, "-c", "import sys; print(sys.prefix)"], text=True, stdout=subprocess.PIPE, check=True)
    return pathlib.Path(said.stdout.strip())


def newest(files):
    return max(file.stat().st_mtime for file in files)


def compile_for(prefix, build):
    """mpi_allreduce for the MPI under that prefix; compiled again when a source has changed."""
    program = build / "compare/impi_allreduce"
    sources = [ROOT / source for source in MPI_SOURCES]
    headers = [*(ROOT / "benchmarks/allreduce").glob("*.h"), *(ROOT / "include/tutti").glob("*.h")]
    if program.exists() and program.stat().st_mtime > newest([*sources, *headers, prefix / "include/mpi.h"]):
        return program
    program.parent.mkdir(parents=True, exist_ok=True)
    line = ["g++", "-std=c++20", "-O2", "-DNDEBUG", "-DMPICH_SKIP_MPICXX", '-DTUTTI_VERSION="peer"', f"-I{ROOT}",
            f"-I{ROOT}/include", f"-I{ROOT}/lib", "-isystem", f"{prefix}/include", *map(str, sources), "-o", str(program),
            f"-L{prefix}/lib", f"-Wl,-rpath,{prefix}/lib", "-lmpi", "-lfmt"]
    said = subprocess.run(line, text=True, stderr=subprocess.PIPE, check=False)
    if said.returncode != 0:
        raise BenchError(f"cannot compile against Intel MPI: {said.stderr.strip().splitlines()[0]}")
    return program


def intel_mpi(request):
    """Contests of Intel MPI, by its own mpirun: as it comes, and yielding."""
    prefix = prefix_of(request.peers_python)
    if not (prefix / "include/mpi.h").exists() or not (prefix / "bin/mpiexec.hydra").exists():
        return []
    program = compile_for(prefix, request.build)
    path = f"{prefix}/bin:{os.environ['PATH']}"
    launcher = Launcher((f"{prefix}/bin/mpirun",), {"I_MPI_ROOT": str(prefix), "I_MPI_FABRICS": "shm", "PATH": path})
    return [Contest(name, setting, (program,), launcher, {"mpi": "Intel MPI"}, env)
            for name, setting, env in (("Intel MPI", "default, over shared memory", {}),
                                       ("Intel MPI, yielding", "I_MPI_THREAD_YIELD=2", {"I_MPI_THREAD_YIELD": "2"}))]


def gloo(request, launcher=None, where="on the loopback", words=()):
    """On ranks of this machine, or where the launcher starts them, with the words that the program needs there."""
    if not has_module(request.peers_python, "torch.distributed"):
        return []
    program = (request.peers_python, PEERS / "gloo_allreduce.py", *words)
    # A thread a rank: torch's own would only take the cores from each other.
    return [Contest("Gloo", f"torch.distributed over TCP {where}", program, launcher or open_mpi(), {"gloo": "Gloo"},
                    {"OMP_NUM_THREADS": "1"})]


def mxnet(request, launcher, servers, words):
    """Its parameter server with so many servers on the workers' hosts."""
    if not has_module(request.mxnet_python, "mxnet"):
        return []
    program = (request.mxnet_python, PEERS / "mxnet_pushpull.py", "--servers", servers, *words)
    count = f"{servers} server" + "s" * (servers > 1)
    return [Contest(f"MXNet, {count}", "dist_sync, sums on the servers", program, launcher,
                    {"mxnet": f"MXNet, {count}", "mxnet keys": f"MXNet, {count}, ResNet-50's keys"},
                    {"OMP_NUM_THREADS": "1"})]


def installed(request):
    """(contests, {who was skipped: why})."""
    contests, skipped = [], {}
    for name, find in (("Intel MPI", intel_mpi), ("Gloo", gloo)):
        try:
            found = find(request)
        except BenchError as error:
            skipped[name] = str(error)
            continue
        contests += found
        if not found:
            skipped[name] = "not installed; " + BROUGHT_BY[name]
    skipped["Horovod"] = BROUGHT_BY["Horovod"]
    skipped["MXNet's parameter server"] = "suite lab measures it"
    return contests, skipped
