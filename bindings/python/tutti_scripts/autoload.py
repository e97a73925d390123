"""Registers tutti with the libraries that it has an adapter for, as soon as a script imports one of them.

Imported when Python starts, so it needs neither numpy nor MPI.
"""
import difflib
import importlib
import importlib.abc
import importlib.util
import os
import sys

#: The library's package, and the module of tutti that registers it when it is imported.
ADAPTERS = {"mxnet": "tutti.mxnet"}


def _check_role():
    """MXNet would serve in its import, with a server of its own, and then end the program."""
    role = os.environ.get("DMLC_ROLE", "worker")
    if role != "worker":
        print(f"DMLC_ROLE={role} asks for a {role}, but this program is a worker; start `tutti-server` with this "
              "environment instead, as tutti-launch does", file=sys.stderr)
        sys.exit(2)


class _Loader(importlib.abc.Loader):
    """As the library's own loader, and then the adapter is imported. In a worker alone."""

    def __init__(self, own, adapter):
        self._own = own
        self._adapter = adapter

    def create_module(self, spec):
        return self._own.create_module(spec)

    def exec_module(self, module):
        _check_role()
        self._own.exec_module(module)
        importlib.import_module(self._adapter)

    def __getattr__(self, name):
        return getattr(self._own, name)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, waiting):
        self._waiting = waiting

    def find_spec(self, fullname, path=None, target=None):
        adapter = self._waiting.pop(fullname, None)
        if adapter is None:
            return None
        spec = importlib.util.find_spec(fullname)  # by the other finders: this one no longer waits for it
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, adapter)
        return spec


def start(libraries):
    """Each adapter is imported right after its library; at once where that is imported already."""
    for library in set(libraries) & set(sys.modules):
        importlib.import_module(ADAPTERS[library])
    sys.meta_path.insert(0, _Finder({library: ADAPTERS[library] for library in libraries}))


def start_from(words):
    """For TUTTI_AUTOLOAD: names of libraries with commas between. Ends the program at a name that is none."""
    libraries = [word for word in words.split(",") if word]
    for library in libraries:
        if library not in ADAPTERS:
            near = difflib.get_close_matches(library, ADAPTERS, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            print(f"TUTTI_AUTOLOAD={words!a}: tutti has no adapter for {library!a}{meant} "
                  f"(known: {', '.join(ADAPTERS)})", file=sys.stderr, flush=True)
            os._exit(2)  # what is raised here, Python tells as a failure of its own
    start(libraries)
