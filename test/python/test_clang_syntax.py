#!/usr/bin/env python3
"""scripts/checks/clang_syntax.py: what it finds, and which sources it reads."""
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/checks"))
import clang_syntax  # pylint: disable=wrong-import-position
import together  # pylint: disable=wrong-import-position

OBJECT = "ccache clang++-14 -Ia.p -std=c++20 -Wthread-safety -Werror -MD -MQ a.o -MF a.o.d -o a.o -c ../lib/a.cc"
GUARDED = """#pragma once
struct __attribute__((capability("mutex"))) Mutex {
  void lock() __attribute__((acquire_capability())) {}
  void unlock() __attribute__((release_capability())) {}
};
inline Mutex mutex;
inline int value __attribute__((guarded_by(mutex)));
"""
UNGUARDED = "return value;"
HELD = "mutex.lock(); const int now = value; mutex.unlock(); return now;"


class Syntax(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        self.build = self.root / "build"
        self.build.mkdir()
        (self.root / "lib").mkdir()
        (self.root / "lib/guarded.h").write_text(GUARDED)
        self.passed = clang_syntax.Passed(self.root / "passed")

    def write(self, **bodies):
        for name, body in bodies.items():
            (self.root / f"lib/{name}.cc").write_text(
                f'#include "guarded.h"\nnamespace {{ int get() {{ {body} }} }}\nint {name}() {{ return get(); }}\n')

    def read(self, *names):
        sources = [str(self.root / f"lib/{name}.cc") for name in names]
        return clang_syntax.read(str(self.build), together.reading(OBJECT, "../lib/a.cc"), sources, self.passed)

    def test_it_makes_no_object(self):
        self.assertEqual(together.reading(OBJECT, "../lib/a.cc"),
                         ("clang++-14", "-Ia.p", "-std=c++20", "-Wthread-safety", "-Werror", "-fsyntax-only"))

    def test_the_librarys_sources_are_read_by_target_and_those_of_tests_are_not(self):
        entries = [{"directory": str(self.build), "command": OBJECT.replace("a.cc", f"{name}.cc"),
                    "file": f"../{folder}/{name}.cc", "output": output}
                   for folder, name, output in (("lib", "a", "lib/a.o"), ("lib", "b", "lib/b.o"),
                                                ("lib", "a", "test/fuzz/a.o"), ("test", "c", "test/c.o"))]
        (self.build / "compile_commands.json").write_text(json.dumps(entries))
        with mock.patch.object(clang_syntax, "ROOT", self.root):
            (_, _, sources), = clang_syntax.library(self.build)
        self.assertEqual(sources, [str(self.root / "lib/a.cc"), str(self.root / "lib/b.cc")])

    def test_a_member_that_is_read_without_its_mutex_is_found_each_time(self):
        self.write(a=UNGUARDED)
        for said in (self.read("a"), self.read("a")):
            self.assertIn("reading variable 'value' requires holding mutex 'mutex'", said)

    def test_of_sources_that_are_read_as_one_each_is_named_that_has_something(self):
        self.write(a=HELD, b=UNGUARDED)
        said = self.read("a", "b")
        self.assertIn("lib/b.cc:2:", said)
        self.assertNotIn("redefinition", said)

    def test_names_of_unnamed_namespaces_that_meet_are_no_error(self):
        self.write(a=HELD, b=HELD)
        self.assertEqual(self.read("a", "b"), "")

    def test_a_source_that_has_passed_is_read_again_when_it_or_a_header_changes(self):
        self.write(a=HELD)
        self.assertEqual((self.read("a"), self.read("a")), ("", None))
        self.write(a=UNGUARDED)
        self.assertIn("requires holding", self.read("a"))
        self.write(a=HELD)
        (self.root / "lib/guarded.h").write_text(GUARDED + "// another\n")
        self.assertEqual((self.read("a"), self.read("a")), ("", None))


if __name__ == "__main__":
    unittest.main()
