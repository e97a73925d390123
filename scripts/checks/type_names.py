#!/usr/bin/env python3
"""No two types of the library have one name: a reader, and a search, find the one that is meant.

    type_names.py [ROOT]

Looked at are the classes, structs, enums and aliases of namespaces. Those within a class have its name in front. A stub
that meson takes in place of another source (absent.cc, *_absent.cc) has that source's types.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from command_line import root_given

FOLDERS = ("include", "lib", "coordinator")
#: {name: why several types have it}.
ALLOWED = {
    "Builder": "FlatBuffers' own builder, by a shorter name in the sources that write one of the two wire formats",
    "Offset": "FlatBuffers' own offset, likewise",
}

# At the beginning of a line, where clang-format puts what stands in a namespace. Neither a specialisation, which is
# followed by <, nor what is declared within a class and defined outside of it, which is followed by ::.
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
    """{name: where types have it}."""
    found = {}
    for path in sources(root):
        text = path.read_text()
        for match in TYPE.finditer(text):
            where = f"{path.relative_to(root)}:{text.count(chr(10), 0, match.start()) + 1}"
            name = match["type"] or match["alias"]
            if match["alias"] and re.search(rf"\b{name}$", match["target"]):
                continue  # the same type, without its namespace or class
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
