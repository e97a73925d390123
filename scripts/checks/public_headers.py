#!/usr/bin/env python3
"""Checks that each public header compiles alone, with include/ as the only search path, by both compilers. The headers
for C must also compile as C99.

    public_headers.py [ROOT]
"""
import concurrent.futures
import os
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from command_line import root_given

CPP = [(compiler, "-std=c++20", "-x", "c++") for compiler in ("g++", "clang++-14")]
C = [(compiler, "-std=c99", "-pedantic", "-Wstrict-prototypes", "-x", "c") for compiler in ("gcc", "clang-14")]
FLAGS = ("-Wall", "-Wextra", "-Werror", "-fsyntax-only", "-")
FOR_C = {"tutti/c.h", "tutti/export.h"}


def compile_alone(task):
    """The compiler's errors for a program that includes this header twice and nothing else."""
    compiler, name, include = task
    program = f'#include "{name}"\n#include "{name}"\nint main(void) {{ return 0; }}\n'
    done = subprocess.run([*compiler, f"-I{include}", *FLAGS], input=program, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    return f"{name} does not compile alone with {' '.join(compiler)}:\n{done.stdout}" if done.returncode else ""


def main():
    root = root_given(__doc__)
    include = root / "include"
    headers = sorted(str(header.relative_to(include)) for header in (include / "tutti").rglob("*.h"))
    tasks = [(compiler, name, include) for name in headers for compiler in CPP + (C if name in FOR_C else [])]
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        problems = [text for text in pool.map(compile_alone, tasks) if text]
    print("\n".join(problems) or f"{len(headers)} public headers compile alone")
    return 1 if problems or not headers else 0


if __name__ == "__main__":
    sys.exit(main())
