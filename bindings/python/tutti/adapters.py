"""Which of the libraries that `python -m tutti` knows are installed, and what makes them use tutti."""
import importlib
import importlib.util

#: The library's package, and the module of tutti that registers it when it is imported.
ADAPTERS: dict[str, str] = {}


def register_installed() -> list[str]:
    """Imports the adapter of every library that is installed; returns those libraries' names."""
    installed = [library for library in ADAPTERS if importlib.util.find_spec(library) is not None]
    for library in installed:
        importlib.import_module(ADAPTERS[library])
    return installed
