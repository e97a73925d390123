#!/usr/bin/env python3
"""Runs clang-tidy on the sources that have changed. With --all, also runs it on all others except those of test/.

    tidy.py [--all] [--build FOLDER]

A source has changed if more than its comments differ from the commit at which HEAD left main; on main, from the commit
ten commits before. Uncommitted work counts. A changed header is checked through a source that includes it. Without
--all, at most MOST sources are checked, those of the tests last. The script needs a build folder that was configured
with clang. The tests' sources take as long as all others, so they are checked only when they change; they also run
under the sanitizers.

clang-tidy reads several sources as one, which takes less time. If it finds something, it reads these sources one by
one, and only what it finds then counts. It would overlook a using-declaration that only another of these sources uses,
so the script itself looks for the name elsewhere in the source, in all sources. Without --all the static analyzer
follows fewer paths.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from command_line import Parser
from together import NO_SHADOW, in_groups, reading

SKIPPED = 77
# More commits than this seldom come to main together.
COMMITS = 10
# The most sources that are checked.
MOST = 24
# clang-tidy reads up to so many sources as one. With more, a processor would be idle at the end.
AT_ONCE = 8
# The static analyzer's mode for fewer paths.
SHALLOW = ("-Xclang", "-analyzer-config", "-Xclang", "mode=shallow")
# A comment, or a literal that may look like one.
COMMENT_OR_LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])+\'',
                                re.DOTALL)
# A using-declaration of a source's own namespaces. Those in classes and functions are indented.
USING = re.compile(r"^using (?:\w+::)+(\w+);", re.MULTILINE)
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
    earlier = (git("rev-parse", "--verify", f"HEAD~{back}") for back in range(COMMITS, 0, -1))
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
    """The project's own sources in the compilation database, each with its first entry there."""
    found = {}
    for entry in json.loads((build / "compile_commands.json").read_text()):
        file = pathlib.Path(entry["directory"], entry["file"]).resolve()
        if file.is_relative_to(ROOT) and not file.is_relative_to(build.resolve()):
            found.setdefault(file, entry)
    return dict(sorted(found.items()))


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


def unused_usings(source):
    """The using-declarations of a source whose names do not appear elsewhere in it."""
    code = COMMENT_OR_LITERAL.sub(" ", source.read_text())
    return [f"{source}: {found[0]} is not used" for found in USING.finditer(code)
            if len(re.findall(rf"\b{found[1]}\b", code)) == 1]


def place_of(source, entry):
    """Sources of one folder at the top are read as one, whatever their targets."""
    return entry["directory"], source.relative_to(ROOT).parts[0]


def words_for(group):
    """The words with which any of these sources is compiled. meson writes an option and its value as one word."""
    return list(dict.fromkeys(word for _, entry in group for word in reading(entry["command"], entry["file"])))


def database_of(aside, group, how):
    """Writes a compilation database into the folder `aside`, and returns the file that clang-tidy is to read: a copy
    of all sources, because the static analyzer of clang 14 passes over functions of included files."""
    folder, file, words = group[0][1]["directory"], group[0][0], [*words_for(group), *how]
    if len(group) > 1:
        file = pathlib.Path(aside, "sources.cc")
        file.write_text("\n".join(source.read_text() for source, _ in group))
        words += [NO_SHADOW, *(f"-iquote{os.path.relpath(where, folder)}"
                               for where in sorted({source.parent for source, _ in group}))]
    pathlib.Path(aside, "compile_commands.json").write_text(
        json.dumps([{"directory": folder, "command": shlex.join([*words, str(file)]), "file": str(file)}]))
    return file


def tidy(group, how=()):
    """What clang-tidy finds in sources that it reads as one, with further words for the compiler."""
    with tempfile.TemporaryDirectory(dir=group[0][1]["directory"]) as aside:
        file = database_of(aside, group, how)
        done = subprocess.run(["clang-tidy-14", "-p", aside, "--quiet", str(file)], text=True,
                              cwd=ROOT, check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if done.returncode == 0:
        return ""
    if len(group) == 1:
        return done.stdout or done.stderr
    return "".join(tidy([one], how) for one in group)


def main():
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="also every source but the tests'")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build-clang")
    args = parser.parse_args()
    sources = sources_of(args.build)
    files, why = selected(sources)
    how = () if args.all else SHALLOW
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
        groups = in_groups(((file, sources[file]) for file in files), place_of, AT_ONCE)
        reports = list(pool.map(lambda group: tidy(group, how), groups))
    problems = [line for source in sources for line in unused_usings(source)] + [report for report in reports if report]
    print("\n".join(problems) or "clang-tidy found nothing")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
