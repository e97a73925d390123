#!/usr/bin/env python3
"""The check of lib/DESIGN.md's table of modules against the includes."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/checks"))

import modules

TABLE = """\
| module | job | may use |
|---|---|---|
| `base` | basics | – |
| `shm` | memory | – |
| `engine` | moves | {engine} |
| `plan` | empty so far | shm |
"""


class Table(unittest.TestCase):
    def problems(self, engine, includes):
        """What is said when the table lets `engine` use this and it includes that."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for module in ("base", "shm", "engine", "plan"):
                (root / "lib" / module).mkdir(parents=True)
            (root / "lib/DESIGN.md").write_text(TABLE.format(engine=engine))
            (root / "lib/engine/engine.cc").write_text(
                "".join(f'#include "{name}"\n' for name in includes))
            return modules.problems_of(root)

    def test_what_the_table_lists_may_be_included(self):
        self.assertEqual(self.problems("shm", ["shm/arena.h", "base/log.h"]), [])

    def test_an_include_that_the_table_does_not_list_is_named(self):
        [problem] = self.problems("–", ["shm/arena.h"])
        self.assertIn("lib/engine/engine.cc:1: engine may not use shm", problem)

    def test_a_listed_module_that_nothing_includes_is_named(self):
        [problem] = self.problems("shm", ["base/log.h"])
        self.assertEqual(problem, "lib/DESIGN.md: engine does not use shm; take it out of the table")

    def test_a_module_without_sources_may_list_what_it_will_use(self):
        self.assertEqual(self.problems("shm", ["shm/arena.h"]), [])


if __name__ == "__main__":
    unittest.main()
