#!/usr/bin/env python3
"""Runs clang-tidy on the sources that have changed. With --all, also runs it on all others except those of test/.

    tidy.py [--all] [--build FOLDER]

A source has changed if more than its comments differ from the commit at which HEAD left main; on main, from the commit
ten commits before. Uncommitted work counts. A changed header is checked through a source that includes it. Without
--all, at most MOST sources are checked, those of the tests last. The script needs a build folder that was configured
with clang. The tests' sources take as long as all others, so they are checked only when they change; they also run
under the sanitizers.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from command_line import Parser

SKIPPED = 77
# More commits than this seldom come to main at the same time.
AT_ONCE = 10
# The most sources that are checked. One takes about 20 s.
MOST = 24
# A comment, or a literal that may look like one.
COMMENT_OR_LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'',
                                re.DOTALL)
ROOT = pathlib.Path(__file__).resolve().parents[2]


def git(*words):
    done = subprocess.run(["git", "-C", str(ROOT), *words], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return done.stdout.strip() if done.returncode == 0 else None


def starting_point():
    """The commit with which to compare, or None if there is none."""
    head = git("rev-parse", "HEAD")
    for branch in ("origin/main", "main"):
        base = git("merge-base", "HEAD", branch)
        if base and base != head:
            return base
    earlier = (git("rev-parse", "--verify", f"HEAD~{back}") for back in range(AT_ONCE, 0, -1))
    return next((commit for commit in earlier if commit), None)


def code_of(text):
    """The words of a source without its comments."""
    return COMMENT_OR_LITERAL.sub(lambda found: " " if found[0].startswith("/") else found[0], text).split()


def code_has_changed(name, base):
    before = git("show", f"{base}:{name}")
    return before is None or code_of(before) != code_of((ROOT / name).read_text())


def changed_files(base):
    names = (git("diff", "--name-only", "--diff-filter=d", base) or "").splitlines()
    names += (git("ls-files", "--others", "--exclude-standard") or "").splitlines()
    return {ROOT / name for name in names if name.endswith((".h", ".cc")) and code_has_changed(name, base)}


def sources_of(build):
    """The project's own sources in the compilation database."""
    entries = json.loads((build / "compile_commands.json").read_text())
    files = {pathlib.Path(entry["directory"], entry["file"]).resolve() for entry in entries}
    return sorted(file for file in files if file.is_relative_to(ROOT) and
                  not file.is_relative_to(build.resolve()))


def through(header, sources):
    """A source through which the compiler sees this header: its own source, or otherwise any that includes it."""
    own = header.with_suffix(".cc")
    if own in sources:
        return own
    line = f'{header.parent.name}/{header.name}"'
    return next((source for source in sources if line in source.read_text()), None)


def selected(sources):
    """The sources to check, as (files, words for the report). None if they cannot be found out."""
    base = starting_point()
    if base is None:
        return None, "this clone has no other commit to compare with; --all checks all but the tests'"
    changed = changed_files(base)
    shown = {through(file, sources) for file in changed if file.suffix == ".h"} - {None}
    return [s for s in sources if s in changed or s in shown], f"changed since {base[:12]}"


def tidy(build, source):
    done = subprocess.run(["clang-tidy-14", "-p", str(build), "--quiet", str(source)], text=True,
                          cwd=ROOT, check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    return "" if done.returncode == 0 else done.stdout or done.stderr


def main():
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="also every source but the tests'")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build-clang")
    args = parser.parse_args()
    sources = sources_of(args.build)
    files, why = selected(sources)
    if args.all:
        files = [source for source in sources if source in (files or []) or not source.is_relative_to(ROOT / "test")]
        why = f"all but the tests', and those {why}"
    if files is None:
        print(f"skipped: {why}")
        return SKIPPED
    if not args.all and len(files) > MOST:
        why += f"; {len(files) - MOST} more are left to --all"
        files = sorted(files, key=lambda file: file.is_relative_to(ROOT / "test"))[:MOST]
    print(f"clang-tidy on {len(files)} of {len(sources)} sources ({why})", flush=True)
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        reports = list(pool.map(lambda file: tidy(args.build, file), files))
    problems = [report for report in reports if report]
    print("\n".join(problems) or "clang-tidy found nothing")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
