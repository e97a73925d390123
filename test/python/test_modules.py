#!/usr/bin/env python3
"""The check of lib/DESIGN.md's table of modules against the includes."""
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

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
DIVIDED = """\
| module | job | may use |
|---|---|---|
| `base` | basics | – |
| `shm` | memory | – |
| `engine` | moves | {engine} |
| `plan/words` | what is said | – |
| `plan/writer` | says it | plan/words |
"""


class Table(unittest.TestCase):
    def problems(self, engine, includes, others=None):
        """The problems that the check finds if the table lets `engine` use this and `engine` includes that. `others`:
        {file: its text}.
        """
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for module in ("base", "shm", "engine", "plan"):
                (root / "lib" / module).mkdir(parents=True)
            (root / "lib/DESIGN.md").write_text(TABLE.format(engine=engine))
            (root / "lib/engine/engine.cc").write_text(
                "".join(f'#include "{name}"\n' for name in includes))
            for file, text in (others or {}).items():
                (root / file).parent.mkdir(parents=True, exist_ok=True)
                (root / file).write_text(text)
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

    def test_modules_that_use_each_other_are_named_as_a_circle(self):
        with mock.patch(f"{__name__}.TABLE", TABLE.replace("| memory | – |", "| memory | engine |")):
            [problem] = self.problems("shm", ["shm/arena.h"], {"lib/shm/arena.h": '#include "engine/engine.h"\n'})
        self.assertEqual(problem, "modules use each other in a circle: engine -> shm -> engine")

    def problems_of_divided(self, others, engine="–"):
        with mock.patch(f"{__name__}.TABLE", DIVIDED):
            return self.problems(engine, ["base/log.h"], {"lib/plan/words/word.h": "", **others})

    def test_a_submodule_uses_the_submodules_that_its_row_lists(self):
        self.assertEqual(self.problems_of_divided({"lib/plan/writer/pen.cc": '#include "plan/words/word.h"\n'}), [])

    def test_a_submodule_that_uses_another_against_the_table_is_named(self):
        [problem] = self.problems_of_divided({"lib/plan/words/word.cc": '#include "plan/writer/pen.h"\n'})
        self.assertIn("lib/plan/words/word.cc:1: plan/words may not use plan/writer", problem)

    def test_a_module_names_the_submodule_that_it_uses(self):
        use = {"lib/engine/belt.cc": '#include "plan/words/word.h"\n', "lib/plan/writer/pen.cc": ""}
        self.assertEqual(self.problems_of_divided(use, "plan/words"), [])
        [problem] = self.problems_of_divided(use)
        self.assertIn("lib/engine/belt.cc:1: engine may not use plan/words", problem)

    def test_submodules_that_use_each_other_are_named_as_a_circle(self):
        both_ways = DIVIDED.replace("| what is said | – |", "| what is said | plan/writer |")
        with mock.patch(f"{__name__}.DIVIDED", both_ways):
            [problem] = self.problems_of_divided({"lib/plan/words/word.cc": '#include "plan/writer/pen.h"\n',
                                                "lib/plan/writer/pen.h": '#include "plan/words/word.h"\n'})
        self.assertEqual(problem, "modules use each other in a circle: plan/words -> plan/writer -> plan/words")

    def test_what_lies_beside_submodules_is_named(self):
        problems = self.problems_of_divided({"lib/plan/pen.cc": "", "lib/plan/ink/blue.cc": ""})
        self.assertEqual(problems, ["lib/plan/ink: not in the table of lib/DESIGN.md",
                                    "lib/plan/pen.cc: lies in no submodule: move it into a folder of lib/plan"])

    def test_mpi_is_called_through_its_module_alone(self):
        [problem] = self.problems("–", ["base/log.h"], {"lib/shm/arena.cc": "#include <mpi.h>\n"})
        self.assertIn("lib/shm/arena.cc:1: mpi.h is included in lib/mpi alone", problem)

    def test_a_public_header_needs_nothing_that_its_users_lack(self):
        for header in ("fmt/format.h", "spdlog/spdlog.h", "hwy/highway.h", "sodium.h", "flatbuffers/flatbuffers.h"):
            [problem] = self.problems("–", ["base/log.h"], {"include/tutti/key.h": f"#include <{header}>\n"})
            self.assertEqual(problem,
                             f"include/tutti/key.h:1: a public header includes {header}: users would need it too")

    def test_the_ordering_protocol_is_pure(self):
        for header in ("thread", "mutex", "condition_variable", "future", "sys/socket.h", "sys/epoll.h"):
            [problem] = self.problems("–", ["base/log.h"], {"coordinator/planner.cc": f"#include <{header}>\n"})
            self.assertIn(f"coordinator/planner.cc:1: coordinator/ is pure, and {header} is not", problem)

    def test_a_mutex_without_its_level_is_named(self):
        mutexes = ("  std::mutex mutex_;\n  mutable std::mutex other_;  ///< level 5\n"
                   "  std::mutex third_;  ///< for a\n  std::mutex running;  ///< level 2; while it runs\n")
        first, second = self.problems("–", ["base/log.h"], {"lib/shm/arena.h": mutexes})
        self.assertTrue(first.startswith("lib/shm/arena.h:1: write the mutex's level of"))
        self.assertTrue(second.startswith("lib/shm/arena.h:3: "))


if __name__ == "__main__":
    unittest.main()
