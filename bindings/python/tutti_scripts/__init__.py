"""The programs of the repository's scripts/ folder, as commands. This package needs neither numpy nor MPI.

The scripts beside this file are the repository's, unchanged.
"""
import importlib.machinery
import importlib.util
import os
import pathlib
import sys

HERE = pathlib.Path(__file__).parent


def run(name, file):
    """Runs a script as `python FILE` would. In its messages the program has the name that the user typed."""
    sys.path.insert(0, str(HERE))
    loader = importlib.machinery.SourceFileLoader(name, str(HERE / file))
    script = importlib.util.module_from_spec(importlib.util.spec_from_loader(name, loader))
    sys.modules[name] = script
    loader.exec_module(script)
    return script.main()


def server():
    """Replaces this process by the program tutti-server, which is not written in Python."""
    program = HERE / "tutti-server"
    if not program.exists():
        sys.exit("tutti-server: this package was built without the parameter server (-Dps=disabled)")
    os.execv(program, ["tutti-server", *sys.argv[1:]])


def launch():
    return run("launch", "launch.py")


def timeline():
    return run("timeline", "timeline")
