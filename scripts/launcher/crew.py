"""Starts the processes of a parameter-server job on this machine, each under a shim, and ends with the last of them.

Takes mpirun's place, and like the shim it imports nothing of ours. The plan, in JSON, is a list of
{"env": what this process has beside the common environment, "command": words}; its order is that of their numbers.
"""
import json
import os
import pathlib
import subprocess
import sys

SHIM = pathlib.Path(__file__).with_name("shim.py")


def start(number, one):
    words = [sys.executable, "-I", "-S", str(SHIM), json.dumps(one["command"])]
    env = {**os.environ, **one["env"], "TUTTI_LAUNCH_NUMBER": str(number)}
    return subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL)


def main():
    # A shim ends when its parent does, so SIGTERM to this process ends all.
    shims = [start(number, one) for number, one in enumerate(json.loads(sys.argv[1]))]
    for shim in shims:
        shim.wait()


if __name__ == "__main__":
    main()
