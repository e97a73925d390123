#!/usr/bin/env python3
"""The check that files are where they belong and that lines of Python are short."""
import pathlib
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts/checks"))

import layout


class LongLines(unittest.TestCase):
    def problems(self, name, text):
        with tempfile.TemporaryDirectory() as folder:
            (pathlib.Path(folder) / name).write_text(text)
            return list(layout.too_long(pathlib.Path(folder), [pathlib.PurePath(name)]))

    def test_a_line_of_python_that_is_too_long_is_named(self):
        for name, text in (("a.py", "x\n" + "#" * 121 + "\n"), ("a", "#!/usr/bin/env python3\n" + "é" * 121)):
            self.assertEqual(self.problems(name, text), [f"{name}:2: 121 columns, and 120 are the most"])

    def test_a_line_that_fits_and_what_is_not_python_are_left_alone(self):
        for name, text in (("a.py", "#" * 120 + "\n"), ("a.json", "1" * 500), ("a", "#!/bin/sh\n" + "#" * 500)):
            self.assertEqual(self.problems(name, text), [])


if __name__ == "__main__":
    unittest.main()
