"""Runs a script with tutti's adapters registered, without a change to the script.

    mpirun -n 4 python -m tutti SCRIPT [argument ...]

A library that tutti has an adapter for (MXNet) then finds tutti's stores under its own names.

python -m tutti --version prints the version. Commands, each with --help:
    tutti-launch    starts a job on one machine, over ssh, or in a batch system
    tutti-info      what tutti is built of, its options, and whether a store comes up
    tutti-bench     times pushpull of numpy arrays
    tutti-timeline  draws a timeline that TUTTI_TIMELINE has written
    tutti-server    a parameter server, which tutti-launch starts
"""
import io
import os
import sys
import types

from tutti_scripts import autoload
from tutti_scripts.command_line import file_problem, meant, printable


def read(script):
    """The script's code, and the path by which it is known."""
    path = os.path.abspath(script)
    with io.open_code(path) as file:
        return compile(file.read(), path, "exec"), path


def run(code, path, words):
    """Runs the script as `python SCRIPT` would: the script sees itself as the program."""
    program = types.ModuleType("__main__")
    program.__dict__.update(__file__=path, __builtins__=__builtins__)
    sys.modules["__main__"] = program
    sys.argv[:] = words
    if not sys.flags.safe_path:
        sys.path[0] = os.path.dirname(path)
    exec(code, program.__dict__)  # pylint: disable=exec-used


def main(words):
    if words[:1] in ([], ["-h"], ["--help"]):
        print(__doc__.strip(), file=sys.stdout if words else sys.stderr)
        return 0 if words else 2
    if words[0] == "--version":
        import tutti  # pylint: disable=import-outside-toplevel  # a script that does not import it starts without
        print(f"tutti {tutti.__version__}")
        return 0
    if words[0].startswith("-"):
        near = meant(words[0], ("--help", "--version"))
        print(f"python -m tutti: unknown option {printable(words[0])}{near or '; the script comes first'}",
              file=sys.stderr)
        return 2
    try:
        code, path = read(words[0])
    except OSError as error:
        print(f"python -m tutti: {printable(file_problem(error))}", file=sys.stderr)
        return 2
    autoload.start(autoload.ADAPTERS)
    run(code, path, words)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
