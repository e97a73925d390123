#!/usr/bin/env python3
"""clang finds nothing in the library's sources, its analysis of threads included. It makes no code of them.

    clang_syntax.py [--build FOLDER] [--passed FOLDER]

clang reads up to 16 sources of a target as one, and so their headers once. If it finds something, it reads these
sources one by one, and only what it finds then counts: in one source a name of another one's unnamed namespace is no
error. Sources that have passed are not read again before one of them, a header of this project, the compiler's command
or an installed package changes. Needs a folder that is configured with clang, and the headers that are generated there.
"""
import argparse
import concurrent.futures
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from command_line import Parser
from together import NO_SHADOW, as_one, in_groups, reading

ROOT = pathlib.Path(__file__).resolve().parents[2]
#: It changes with each package that is installed: system headers are not read for the hash.
PACKAGES = pathlib.Path("/var/lib/dpkg/status")
#: As many as g++ compiles as one.
AT_ONCE = 16


def command_of(_, entry):
    return entry["directory"], reading(entry["command"], entry["file"])


def library(build):
    """[(folder, command without a source, sources)] of the library's targets and tutti-server. The tests' fuzzers
    compile some sources once more."""
    pairs = []
    for entry in json.loads((build / "compile_commands.json").read_text()):
        source = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if source.is_relative_to(ROOT) and source.relative_to(ROOT).parts[0] in ("lib", "coordinator", "bindings"):
            if not entry["output"].startswith("test/"):
                pairs.append((str(source), entry))
    groups = in_groups(pairs, command_of, AT_ONCE)
    return [(*command_of(*group[0]), [source for source, _ in group]) for group in groups]


def hash_of(words, files):
    """A hash of a command, the packages that are installed, and these files. None if a file is missing."""
    try:
        stamp = PACKAGES.stat().st_mtime_ns if PACKAGES.exists() else 0
        made_of = hashlib.sha256(repr((words, stamp)).encode())
        for file in files:
            made_of.update(pathlib.Path(file).read_bytes())
    except OSError:
        return None
    return made_of.hexdigest()


class Passed:
    """The sources that have passed, each with the files that it consists of and their hash."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def place(self, words):
        return self.folder / f"{hashlib.sha256(repr(words).encode()).hexdigest()[:32]}.json"

    def has(self, words):
        try:
            kept = json.loads(self.place(words).read_text())
        except (OSError, ValueError):
            return False
        return kept["hash"] == hash_of(words, kept["files"])

    def keep(self, words, files):
        self.place(words).write_text(json.dumps({"files": files, "hash": hash_of(words, files)}))


def files_in(rule, folder):
    """The files that a rule of a makefile names behind its colon."""
    names = rule.partition(":")[2].replace("\\\n", " ").split()
    return [os.path.join(folder, name) for name in names]


def read(folder, words, sources, passed):
    """What clang finds in sources that it reads as one. None if they have passed before."""
    key = [*words, *sources]
    if passed.has(key):
        return None
    alone = len(sources) == 1
    with tempfile.TemporaryDirectory() as aside:
        rule = pathlib.Path(aside, "rule")
        how = () if alone else (NO_SHADOW,)
        done = subprocess.run([*words, *how, "-MMD", "-MF", str(rule), "-x", "c++", "-"], cwd=folder, text=True,
                              check=False, input=as_one(sources),
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if done.returncode == 0:
            passed.keep(key, files_in(rule.read_text(), folder))
            return ""
    if alone:
        return done.stdout or f"{' '.join(key)} ended with {done.returncode}"
    return "".join(read(folder, words, [source], passed) or "" for source in sources)


def main():
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build-clang", metavar="FOLDER",
                        help="the configured folder; default: build-clang")
    parser.add_argument("--passed", type=pathlib.Path, default=ROOT / ".cache/clang-syntax", metavar="FOLDER",
                        help="the folder that keeps which sources have passed; default: .cache/clang-syntax")
    args = parser.parse_args()
    passed = Passed(args.passed)
    together = library(args.build)
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        said = list(pool.map(lambda one: read(*one, passed), together))
    problems = [text for text in said if text]
    count = sum(len(sources) for *_, sources in together)
    before = sum(len(sources) for (*_, sources), text in zip(together, said) if text is None)
    print("\n".join(problems) or f"clang finds nothing in {count} sources, of which {before} had passed before")
    return 1 if problems or not count else 0


if __name__ == "__main__":
    sys.exit(main())
