"""PyPI's torch without the libraries that only a GPU needs: for tests on CPUs, never for users.

The wheel links to libraries of CUDA that are four times its size. Those that a CPU never calls are replaced by
libraries of the same names, whose functions end the process. The folder that this makes is kept for the next time.
"""
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

from installed import ROOT, said

#: The newest on PyPI when this was last changed.
TORCH = "torch==2.15.0"
#: Torch imports these on any machine; its own test of torch.distributed imports the last.
PACKAGES = ("filelock", "typing-extensions", "setuptools", "sympy", "networkx", "jinja2", "fsspec", "numpy",
            "expecttest")
#: Of CUDA: torch calls them when it is imported.
CALLED = ("nvidia-cuda-runtime", "nvidia-cuda-cupti")
#: Versions of symbols that are not named after their library.
NAMED_OTHERWISE = {"NVSHMEM": "libnvshmem_host.so.3"}
OF_CUDA = re.compile(r"lib(cu|nv|nccl)")
KEPT = ROOT / ".cache/torch"


def lend(python, fetch):
    """Lets this Python import torch. `fetch` runs pip install with these words, and may skip the tests."""
    version, site = said(python, "-c", "import sys, sysconfig; print(sys.version, sysconfig.get_path('purelib'), "
                         "sep='\x1f')").strip().split("\x1f")
    recipe = pathlib.Path(__file__).read_bytes() + version.encode()
    folder = KEPT / hashlib.sha256(recipe).hexdigest()[:16]
    if not folder.exists():
        make_site(folder, fetch)
    pathlib.Path(site, "torch_for_tests.pth").write_text(f"{folder}\n")


def make_site(folder, fetch):
    """Makes the folder under another name first, so that a folder with this name is complete."""
    shutil.rmtree(KEPT, ignore_errors=True)  # what an older recipe has made
    KEPT.mkdir(parents=True)
    unfinished = pathlib.Path(tempfile.mkdtemp(dir=KEPT))
    fetch("--no-deps", "--target", unfinished, TORCH)
    cuda = re.search(r"cuda: .*= '(\d+)\.(\d+)'", (unfinished / "torch/version.py").read_text())
    fetch("--no-deps", "--target", unfinished, *(f"{name}=={cuda[1]}.{cuda[2]}.*" for name in CALLED))
    fetch("--target", unfinished, *PACKAGES)
    replace_missing(unfinished)
    os.rename(unfinished, folder)


def told(program, *words):
    return subprocess.run([program, *map(str, words)], check=True, stdout=subprocess.PIPE, text=True).stdout


def replace_missing(site):
    folder = site / "torch/lib"
    libraries = [*folder.glob("*.so"), *(site / "nvidia").rglob("*.so*")]
    there = {library.name for library in libraries}
    needed = {name for library in folder.glob("*.so") for name in re.findall(r"NEEDED.*\[(.*)\]", told("readelf", "-d",
                                                                                                       library))}
    missing = sorted(name for name in needed - there if OF_CUDA.match(name))
    by_version, plain = undefined(folder)
    versions = {name: {} for name in missing}
    for version, symbols in by_version.items():
        library = NAMED_OTHERWISE.get(version, version)
        if library in versions:
            versions[library][version] = symbols
    # Any of the libraries may have the symbols without a version: all are loaded together.
    for name, has in versions.items():
        make(folder / name, has, plain if name == missing[0] else set())


def undefined(folder):
    """({version: symbols}, symbols of CUDA without one) that torch's libraries look for in others."""
    by_version, plain = {}, set()
    for library in folder.glob("*.so"):
        for line in told("nm", "-D", "--undefined-only", "--with-symbol-versions", library).splitlines():
            kind, name = line.split()[-2:]
            symbol, _, version = name.partition("@")
            if kind == "U" and version:
                by_version.setdefault(version.lstrip("@"), set()).add(symbol)
            elif kind == "U" and re.match("cu|nv|nccl", symbol):
                plain.add(symbol)
    return by_version, plain


def make(library, versions, plain):
    symbols = set().union(plain, *versions.values())
    script = [f"{version} {{ global: {'; '.join(sorted(names))}; }};" for version, names in versions.items()]
    if plain or not versions:
        script.append(f"{'PLAIN ' if versions else ''}{{ global: *; }};")
    with tempfile.TemporaryDirectory() as folder:
        source, exports = pathlib.Path(folder, "stub.c"), pathlib.Path(folder, "exports")
        source.write_text("\n".join(f"void {name}(void) {{ __builtin_trap(); }}" for name in sorted(symbols)) + "\n")
        exports.write_text("\n".join(script))
        said("gcc", "-w", "-shared", "-fPIC", "-nostdlib", f"-Wl,-soname,{library.name}",
             f"-Wl,--version-script={exports}", "-o", library, source)
