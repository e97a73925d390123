#!/usr/bin/env python3
"""Checks that files are where they belong, and that every source is built.

    layout.py [ROOT]

- The top level and test/ have only the agreed folders.
- No source of the library has an #if. If a build lacks something, meson chooses a stub file.
- Every source is listed in a meson.build, and every meson.build is reached.
- No line of Python is longer than 120 columns.
"""
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from command_line import root_given

TOP = {"meson.build", "meson_options.txt", "pyproject.toml", "LICENSE", "README.md",
       "lib", "include", "coordinator", "bindings", "benchmarks", "examples", "test", "scripts"}
LONGEST_LINE = 120
TESTS = {"unit", "mpi", "ps", "python", "fault", "lab", "fuzz", "planted"}


def files_of(root):
    """Returns the files that git tracks or would track, relative to the root."""
    listed = subprocess.run(["git", "-C", str(root), "ls-files", "-z", "--cached", "--others",
                             "--exclude-standard"], check=True, stdout=subprocess.PIPE)
    paths = (pathlib.PurePath(name) for name in listed.stdout.decode().split("\0") if name)
    return sorted(path for path in paths if (root / path).exists())


def misplaced(files):
    for top in sorted({path.parts[0] for path in files}):
        if top not in TOP and not top.startswith("."):
            yield f"{top}: does not belong at the top level; see \"Modules\" in lib/DESIGN.md"
    folders = {path.parts[1] for path in files if path.parts[0] == "test" and len(path.parts) > 2}
    for folder in sorted(folders - TESTS):
        yield f"test/{folder}: the folders of test/ are {', '.join(sorted(TESTS))}"


def conditionals(root, files):
    for path in files:
        if path.suffix == ".cc" and path.parts[0] in ("lib", "coordinator"):
            for number, line in enumerate((root / path).read_text().splitlines(), 1):
                # Highway compiles a source once for each instruction set. This is its guard.
                if re.match(r"\s*#\s*if HWY_ONCE\b", line):
                    continue
                if re.match(r"\s*#\s*(if|ifdef|ifndef|elif|else)\b", line):
                    yield f"{path}:{number}: {line.strip()}: choose the file in meson.build instead"


def recipes_above(root, path):
    """Yields (folder, text of its meson.build), from the file's own folder up to the root."""
    for folder in path.parents:
        recipe = root / folder / "meson.build"
        if recipe.exists():
            yield folder, recipe.read_text()


def is_listed(root, path):
    """Whether a meson.build names the source, or the stem that a loop there completes."""
    for folder, text in recipes_above(root, path):
        name = str(path.relative_to(folder))
        stems = {name, name[:-len(".cc")], re.sub(r"_test\.cc$", "", name)}
        if any(f"'{stem}'" in text for stem in stems):
            return True
    return False


def unbuilt(root, files):
    for path in files:
        if path.suffix == ".cc" and not is_listed(root, path):
            yield f"{path}: no meson.build lists it, so it is never built"
        if path.name == "meson.build" and len(path.parts) > 1:
            folder = path.parent
            reached = any(f"subdir('{folder.relative_to(above)}')" in text
                          for above, text in recipes_above(root, folder))
            if not reached:
                yield f"{path}: no meson.build enters this folder with subdir()"


def is_python(root, path):
    if path.suffix:
        return path.suffix == ".py"
    with open(root / path, "rb") as file:
        return re.match(rb"#!.*python", file.readline()) is not None


def too_long(root, files):
    for path in files:
        if is_python(root, path):
            for number, line in enumerate((root / path).read_text().splitlines(), 1):
                if len(line) > LONGEST_LINE:
                    yield f"{path}:{number}: {len(line)} columns, and {LONGEST_LINE} are the most"


def main():
    root = root_given(__doc__)
    files = files_of(root)
    problems = [*misplaced(files), *conditionals(root, files), *unbuilt(root, files), *too_long(root, files)]
    print("\n".join(problems) or f"{len(files)} files are where they belong")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
