#!/usr/bin/env python3
"""Writes copies of production sources with faults in them, each behind a switch of its own.

    seed_bugs.py TABLE FOLDER SOURCE...

TABLE holds the faults: a name, the scenario that must find it, and edits of sources, in whose text BUG
stands for "this fault is switched on". FOLDER receives seeded_SOURCE for every source and
seeded_bugs.inc, a list of the faults. An edit whose text is not found exactly once is an error, so that
a fault cannot get lost unnoticed when the sources change.
"""
import json
import pathlib
import sys

SWITCH = "tutti::test::is_seeded({})"


def apply_edit(texts, fault, edit, switch):
    """Replaces the edit's text in the source it names."""
    name = edit["file"]
    if name not in texts:
        sys.exit(f"{fault['name']}: {name} is not among the sources")
    found = texts[name].count(edit["was"])
    if found != 1:
        sys.exit(f"{fault['name']}: {name} holds {found} times, not once:\n{edit['was']}")
    texts[name] = texts[name].replace(edit["was"], edit["becomes"].replace("BUG", switch))


def main():
    table, folder, *sources = (pathlib.Path(word) for word in sys.argv[1:])
    texts = {source.name: source.read_text() for source in sources}
    faults = json.loads(table.read_text())
    for number, fault in enumerate(faults):
        for edit in fault["edits"]:
            apply_edit(texts, fault, edit, SWITCH.format(number))
    for name, text in texts.items():
        head = '#include "seeded_bugs.h"\n'
        (folder / f"seeded_{name}").write_text(head + text)
    lines = (f"{{{json.dumps(f['name'])}, {json.dumps(f['scenario'])}}},\n" for f in faults)
    (folder / "seeded_bugs.inc").write_text("".join(lines))


if __name__ == "__main__":
    main()
