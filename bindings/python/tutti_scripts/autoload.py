"""Registers tutti with the libraries for which it has an adapter, as soon as a script imports one of them.

It is imported when Python starts, so it needs neither numpy nor MPI.
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
    """Ends the program if the environment asks for a server. MXNet would become a server while it is imported, and then
    end the program."""
    role = os.environ.get("DMLC_ROLE", "worker")
    if role != "worker":
        print(f"DMLC_ROLE={role} asks for a {role}, but this program is a worker; start `tutti-server` with this "
              "environment instead, as tutti-launch does", file=sys.stderr)
        sys.exit(2)


class _Loader(importlib.abc.Loader):
    """Does the same as the library's own loader, and then imports the adapter. Only in a worker."""

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
        spec = importlib.util.find_spec(fullname)  # the other finders find it, because this one no longer waits for it
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader, adapter)
        return spec


def start(libraries):
    """Imports each adapter right after its library. If the library is already imported, imports the adapter at once."""
    for library in set(libraries) & set(sys.modules):
        importlib.import_module(ADAPTERS[library])
    sys.meta_path.insert(0, _Finder({library: ADAPTERS[library] for library in libraries}))


def start_from(words):
    """Reads TUTTI_AUTOLOAD: names of libraries, separated by commas. Ends the program if a name is unknown."""
    libraries = [word for word in words.split(",") if word]
    for library in libraries:
        if library not in ADAPTERS:
            near = difflib.get_close_matches(library, ADAPTERS, 1)
            meant = f"; did you mean {near[0]}?" if near else ""
            print(f"TUTTI_AUTOLOAD={words!a}: tutti has no adapter for {library!a}{meant} "
                  f"(known: {', '.join(ADAPTERS)})", file=sys.stderr, flush=True)
            os._exit(2)  # Python would report an exception here as a failure of its own
    start(libraries)
