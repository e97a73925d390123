"""The programs of the repository's scripts/ folder, as commands; it needs neither numpy nor MPI.

The scripts beside this file are the repository's, unchanged.
"""
import importlib.machinery
import importlib.util
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).parent


def run(name, file):
    """As `python FILE` would, but for the program's name in its messages: it is the one that the user typed."""
    sys.path.insert(0, str(HERE))
    loader = importlib.machinery.SourceFileLoader(name, str(HERE / file))
    script = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    sys.modules[name] = script
    loader.exec_module(script)
    return script.main()


def server():
    """Becomes the program, which has no Python in it."""
    program = HERE / "tutti-server"
    if not program.exists():
        sys.exit("tutti-server: this package was built without the parameter server (-Dps=disabled)")
    os.execv(program, ["tutti-server", *sys.argv[1:]])


def launch():
    return run("launch", "launch.py")


def timeline():
    return run("timeline", "timeline")
