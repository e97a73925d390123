#!/usr/bin/env python3
"""scripts/checks/tidy.py: which sources it checks, and that it finds something in several that it reads as one."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/checks"))
import tidy  # pylint: disable=wrong-import-position


class Code(unittest.TestCase):
    def same(self, before, after):
        return tidy.code_of(before) == tidy.code_of(after)

    def test_comments_and_layout_are_no_code(self):
        self.assertTrue(self.same("int a = 1;  // one\n/* more\n */ f();", "int a =\n    1;\n// another\nf();"))

    def test_a_literal_that_looks_like_a_comment_is_code(self):
        for before, after in (('"a // b"', '"a // c"'), ("'\"' // x\n + 1", "'\"' // x\n + 2"),
                              ('R"(a /* b */)"', 'R"(a /* c */)"'), ('"\\" // a"', '"\\" // b"')):
            with self.subTest(before):
                self.assertFalse(self.same(before, after))


class Together(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        (self.root / "lib").mkdir()
        (self.root / "build").mkdir()
        (self.root / ".clang-tidy").write_text((tidy.ROOT / ".clang-tidy").read_text())

    def found_in(self, **sources):
        files = [self.root / f"lib/{name}.cc" for name in sources]
        for file, text in zip(files, sources.values(), strict=True):
            file.write_text(text)
        entries = [{"directory": str(self.root / "build"), "file": str(file),
                    "command": f"clang++-14 -std=c++20 -I../lib -c {file}"} for file in files]
        return tidy.tidy(list(zip(files, entries, strict=True)), tidy.SHALLOW)

    def test_it_finds_bugs_in_each_of_several_sources(self):
        (self.root / "lib/c.h").write_text("struct C { C(int); };\n")
        found = self.found_in(a="namespace n { int x; }\nusing n::x;\n", b='#include "c.h"\n',
                              d="int *p();\nint d() { int *q = nullptr; return *q; }\n")
        for line in ("lib/a.cc:2:10: error: using decl 'x' is unused",
                     "lib/c.h:1:12: error: single-argument constructors",
                     "lib/d.cc:2:36: error: Dereference of null pointer"):
            self.assertIn(line, found)

    def test_a_using_declaration_that_only_another_source_uses_is_found_by_the_script(self):
        (self.root / "lib/n.h").write_text("namespace n { extern int x, y; }\n")
        text = '#include "n.h"\nusing n::x;\nusing n::y;  // for x\nint f() { return y; }\n'
        self.assertEqual(self.found_in(a=text, b="int g() { return x; }\n"), "")
        self.assertEqual(tidy.unused_usings(self.root / "lib/a.cc"),
                         [f"{self.root}/lib/a.cc: using n::x; is not used"])
        self.assertEqual(tidy.unused_usings(self.root / "lib/b.cc"), [])

    def test_sources_of_one_folder_are_read_with_the_words_of_all(self):
        entries = [(tidy.ROOT / file, {"directory": "/b", "file": f"../{file}", "command": f"c++ {words} -c ../{file}"})
                   for file, words in (("lib/a.cc", "-Ia -W"), ("test/t.cc", "-It"), ("lib/x/b.cc", "-Ib -W"))]
        groups = list(tidy.in_groups(entries, tidy.place_of, 8))
        self.assertEqual(groups, [[entries[0], entries[2]], [entries[1]]])
        self.assertEqual(tidy.words_for(groups[0]), ["c++", "-Ia", "-W", "-fsyntax-only", "-Ib"])
        many = list(tidy.in_groups(entries[:1] * 5, tidy.place_of, 4))
        self.assertEqual([len(group) for group in many], [4, 1])
        self.assertEqual([len(group) for group in tidy.in_groups(entries, tidy.place_of, 1)], [1, 1, 1])

    def test_names_that_two_sources_have_are_no_bug(self):
        text = "namespace { int count = 0; }\nint {name}() { return ++count; }\n"
        self.assertEqual(self.found_in(a=text.replace("{name}", "a"), b=text.replace("{name}", "b")), "")


if __name__ == "__main__":
    unittest.main()
