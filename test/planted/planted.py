#!/usr/bin/env python3
"""Plants bugs in a copy of the tree, builds it once for all of them, and says which suite finds each bug first.

    planted.py [--only WORD] [--folder FOLDER]

bugs.json holds the bugs. Each has a name, the suite that is to find it first, and edits of sources, in whose text BUG
stands for "this bug is switched on". The variable PLANTED_BUG switches one on, by its number in bugs.json. For each bug
the quick tier's suites for its module run in turn until a test finds it, and the module's own test runs before all
others. Such a test fails twice with the bug, and passes without it. Fails if no suite finds a bug, or if another suite
than the named one does first.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path += [str(ROOT / "scripts"), str(ROOT / "test/unit")]
from command_line import Parser
from run_tests import CORES, read_results
from seed_bugs import apply_edit
from test_parts import GCC, suites, without

BUGS = ROOT / "test/planted/bugs.json"
HEADER = "test/planted/planted.h"
#: The suites that try the sources of a folder, the cheapest first.
SUITES_OF = {"lib/ps": ("unit", "ps"), "lib/net": ("unit", "mpi"), "lib/runtime": ("unit", "mpi"),
             "lib/kvstore": ("unit", "mpi"), "bindings/c": ("unit", "mpi"), "bindings/python": ("python",)}
#: The test of the suite unit that tries a folder alone.
OWN_TESTS = {"lib/ps": "ps", "lib/net": "net", "lib/runtime": "runtime", "lib/kvstore": "kvstore",
             "bindings/c": "C API, translation"}
#: The tests of a suite, as words of `meson test`. Of jobs under mpirun those of three ranks.
TESTS = {"unit": suites("unit"), "ps": suites("ps"), "mpi": suites("ranks-3"),
         "python": ("package, smoke",)}
FOUND = {"FAIL", "ERROR", "TIMEOUT"}
#: How often a suite begins anew after a test that failed for another reason than the bug.
TRIES = 3


def selections_for(bug):
    """The tests to run for a bug, as (suite, words of `meson test`), in their order. The module's own test ends at its
    first failure."""
    name = bug["edits"][0]["file"]
    folder = next(folder for folder in SUITES_OF if name.startswith(f"{folder}/"))
    own = [("unit", (OWN_TESTS[folder], "--test-args=--abort"))] if folder in OWN_TESTS else []
    return own + [(suite, (*TESTS[suite], *without("slow", "rare"))) for suite in SUITES_OF[folder]]


def switch(name, number):
    """The text for BUG in a source."""
    if name.endswith(".py"):
        return f'(__import__("os").environ.get("PLANTED_BUG") == "{number}")'
    return f'tutti::test::is_planted("{number}")'


def planted(bugs, tree):
    """{name: text} of the sources with all bugs in them."""
    names = {edit["file"] for bug in bugs for edit in bug["edits"]}
    texts = {name: (ROOT / name).read_text() for name in names}
    for number, bug in enumerate(bugs):
        for edit in bug["edits"]:
            apply_edit(texts, bug, edit, switch(edit["file"], number))
    head = f'#include "{tree / HEADER}"\n'
    return {name: text if name.endswith(".py") else head + text for name, text in texts.items()}


def write(path, data):
    """Leaves a file alone that has this content, so that what depends on it is not built again."""
    if not path.exists() or path.read_bytes() != data:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def copy(bugs, tree):
    """Makes the copy of the tree, uncommitted work included. It is a repository of its own: the package's build asks
    git for the sources."""
    tree.mkdir(parents=True, exist_ok=True)
    subprocess.run(["git", "init", "--quiet", tree], check=True)
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                            check=True, stdout=subprocess.PIPE).stdout.decode()
    edited = planted(bugs, tree)
    for name in sorted(set(listed.split("\0")) - {""}):
        if (ROOT / name).is_file():
            write(tree / name, edited[name].encode() if name in edited else (ROOT / name).read_bytes())
            (tree / name).chmod((ROOT / name).stat().st_mode)


class Planted:
    """The build of a copy of the tree that has all bugs."""

    def __init__(self, tree):
        self.tree = tree
        self.sound = set()  # the tests that have passed without a bug
        self.env = os.environ | {"CCACHE_BASEDIR": str(tree), "CCACHE_NOHASHDIR": "1"}

    def build(self):
        # With the options of the tests' own build: the compiler's cache knows the objects of all other sources then.
        options = [*GCC.options, "-Dwerror=true", "-Dbenchmarks=false"]
        configured = (self.tree / GCC.folder / "build.ninja").exists()
        for words in (["meson", "setup", *(["--reconfigure"] if configured else []), GCC.folder, *options],
                      ["ninja", "-C", GCC.folder, "-j", str(CORES)]):
            done = subprocess.run(words, cwd=self.tree, env=self.env, text=True, check=False,
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            if done.returncode != 0:
                sys.exit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stdout[-8000:]}")

    def failing(self, words, number=None, most=0):
        """The tests that fail while the bug of this number is switched on. Stops at so many of them; 0: at none."""
        logs = self.tree / GCC.folder / "meson-logs"
        for log in logs.glob("testlog*.json"):
            log.unlink()
        chosen = {} if number is None else {"PLANTED_BUG": str(number)}
        subprocess.run(["meson", "test", "-C", GCC.folder, "--no-rebuild", "--maxfail", str(most), "--num-processes",
                        str(2 * CORES), "-t", "2", *words], cwd=self.tree, env=self.env | chosen, check=False,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        results = read_results(logs.glob("testlog*.json"))
        if not results:
            sys.exit(f"meson test {' '.join(words)} ended without a result")
        return [name for name, result, _ in results if result in FOUND]

    def blamed(self, tests, number):
        """Those of the tests that fail again with the bug, and pass without it. Others have failed for other reasons,
        such as a machine that was busy."""
        again = set(self.failing([name_of(test) for test in tests], number))
        if not again <= self.sound:
            self.sound |= again - set(self.failing([name_of(test) for test in again]))
        return sorted(again & self.sound)

    def find(self, bug, number):
        """(the first suite that finds a bug, the tests that find it), or None."""
        for suite, words in selections_for(bug):
            for _ in range(TRIES):
                failed = self.failing(words, number, most=1)
                found = self.blamed(failed, number) if failed else []
                if found:
                    return suite, found
                if not failed:
                    break
        return None


def name_of(test):
    """A test's name without its suites: words of `meson test` name it so."""
    return test.partition(" / ")[2] or test


def main():
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", metavar="WORD", default="", help="try only the bugs with this in their names")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / ".cache/planted", metavar="FOLDER",
                        help="where the copy of the tree is made; default: .cache/planted")
    args = parser.parse_args()
    bugs = json.loads(BUGS.read_text())
    chosen = [number for number, bug in enumerate(bugs) if args.only in bug["name"]]
    if not chosen:
        parser.error(f"no bug has {args.only!r} in its name")
    tree = args.folder.resolve()
    copy(bugs, tree)
    build = Planted(tree)
    build.build()
    problems = []
    for number in chosen:
        bug, start = bugs[number], time.monotonic()
        found = build.find(bug, number)
        suite, tests = found or ("no suite", [])
        print(f"{bug['name']}\n  found by {suite}: {', '.join(map(name_of, tests))} "
              f"({time.monotonic() - start:.0f} s)", flush=True)
        if suite != bug["suite"]:
            problems.append(f"{bug['name']}: {bug['suite']} is to find it first, and {suite} does")
    print("\n".join(problems) or f"{len(chosen)} planted bugs are found")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
