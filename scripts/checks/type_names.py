#!/usr/bin/env python3
"""Checks that no two types of the library have the same name, so that a reader or a search finds the right one.

    type_names.py [ROOT]

It checks the classes, structs, enums and aliases of namespaces. Types inside a class do not count, because the class's
name stands in front of theirs. If meson takes a stub in place of another source (absent.cc, *_absent.cc), the stub has
the same types.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from command_line import root_given

FOLDERS = ("include", "lib", "coordinator")
#: {name: the reason why several types have it}.
ALLOWED = {
    "Builder": "FlatBuffers' own builder, by a shorter name in the sources that write one of the two wire formats",
    "Offset": "FlatBuffers' own offset, likewise",
}

# A type at the beginning of a line, where clang-format puts the contents of a namespace. A specialisation, which is
# followed by <, does not count. A type that is declared in a class and defined outside, which is followed by ::, does
# not count either.
TYPE = re.compile(r"^(?:template <[^{;]*>\s)?(?:class|struct|union|enum(?: class)?) "
                  r"(?:(?:alignas\([^{;]*\)|TUTTI_\w+(?:\([^{;]*\))?) )*"
                  r"(?P<type>\w+)(?: final)?(?:\s*:[^:{;][^{;]*)?\s*\{"
                  r"|^using (?P<alias>\w+) =\s*(?P<target>[^;]+);", re.MULTILINE)


def sources(root):
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cc", ".cu") and not path.stem.endswith("absent"):
                yield path


def defined(root):
    """Returns {name: the places of the types with this name}."""
    found = {}
    for path in sources(root):
        text = path.read_text()
        for match in TYPE.finditer(text):
            where = f"{path.relative_to(root)}:{text.count(chr(10), 0, match.start()) + 1}"
            name = match["type"] or match["alias"]
            if match["alias"] and re.search(rf"\b{name}$", match["target"]):
                continue  # this is the same type, without its namespace or class
            found.setdefault(name, []).append(where)
    return found


def problems_of(root, allowed):
    found = defined(root)
    for name, places in sorted(found.items()):
        if len(places) > 1 and name not in allowed:
            yield f"{name} is the name of {len(places)} types: rename all but one: {', '.join(places)}"
    for name in sorted(allowed):
        if len(found.get(name, ())) < 2:
            yield f"scripts/checks/type_names.py: take {name} out of ALLOWED: no two types have that name"


def main():
    root = root_given(__doc__)
    problems = list(problems_of(root, ALLOWED))
    print("\n".join(problems) or f"{len(defined(root))} types have names of their own")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
