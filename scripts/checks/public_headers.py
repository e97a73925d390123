#!/usr/bin/env python3
"""Each public header compiles alone, with include/ as the only search path, by both compilers.

    public_headers.py [ROOT]
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from command_line import root_given

COMPILERS = ("g++", "clang++-14")
FLAGS = ("-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-x", "c++", "-")


def compile_alone(task):
    """What the compiler says against a program that includes this header twice and nothing else."""
    compiler, header, include = task
    name = header.relative_to(include)
    program = f'#include "{name}"\n#include "{name}"\nint main() {{}}\n'
    done = subprocess.run([compiler, f"-I{include}", *FLAGS], input=program, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return f"{name} does not compile alone with {compiler}:\n{done.stdout}" if done.returncode else ""


def main():
    root = root_given(__doc__)
    include = root / "include"
    headers = sorted((include / "tutti").rglob("*.h"))
    tasks = [(compiler, header, include) for header in headers for compiler in COMPILERS]
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        problems = [text for text in pool.map(compile_alone, tasks) if text]
    print("\n".join(problems) or f"{len(headers)} public headers compile alone")
    return 1 if problems or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
