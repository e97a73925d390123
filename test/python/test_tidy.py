#!/usr/bin/env python3
"""scripts/checks/tidy.py: which sources it checks."""
import pathlib
import sys
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


if __name__ == "__main__":
    unittest.main()
