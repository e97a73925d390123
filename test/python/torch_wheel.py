"""PyPI's torch without what only a GPU needs: for tests on CPUs, never for users.

The wheel links to libraries of CUDA that are four times its size. Those that a CPU never calls are replaced by
libraries of the same names, whose functions end the process.
"""
import pathlib
import re
import subprocess
import tempfile

from installed import said

#: Torch imports these on any machine.
PACKAGES = ("filelock", "typing-extensions", "setuptools", "sympy", "networkx", "jinja2", "fsspec", "numpy")
#: Of CUDA: torch calls them when it is imported.
CALLED = ("nvidia-cuda-runtime", "nvidia-cuda-cupti")
#: Versions of symbols that are not named after their library.
NAMED_OTHERWISE = {"NVSHMEM": "libnvshmem_host.so.3"}
OF_CUDA = re.compile(r"lib(cu|nv|nccl)")


def install(python, pip):
    """Into the environment of this Python; `pip` runs pip there."""
    pip("install", "--no-deps", "torch")
    site = pathlib.Path(said(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip())
    wanted = (site / "torch/version.py").read_text()
    cuda = re.search(r"cuda: .*= '(\d+)\.(\d+)'", wanted)
    pip("install", *PACKAGES)
    pip("install", "--no-deps", *(f"{name}=={cuda[1]}.{cuda[2]}.*" for name in CALLED))
    replace_missing(site)


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
