"""The types and texts that type checkers, `inspect` and `help` get from the package. mypy checks programs that use it.
Run by the Python that the package is installed for.
"""
import ast
import importlib.util
import inspect
import pathlib
import pydoc
import re
import subprocess
import sys
import tempfile
import unittest

import tutti
from tutti import _core

HERE = pathlib.Path(__file__).parent
METHODS = sorted(name for name, what in vars(tutti.KVStore).items() if name[0] != "_" and callable(what))
EXCHANGES = ("pushpull", "broadcast", "reduce_scatter", "allgather")


class Documentation(unittest.TestCase):
    def test_every_method_has_a_signature_of_python(self):
        self.assertIn("pushpull", METHODS)
        for name in METHODS:
            self.assertTrue(inspect.signature(getattr(tutti.KVStore, name)).parameters, name)
        self.assertEqual(str(inspect.signature(tutti.KVStore.pushpull)),
                         "(self, key: 'Keys', ins: 'Values', outs: 'Values | None' = None, priority: 'SupportsIndex' "
                         "= 0, *, op: 'Op' = 'sum', out: 'Values | None' = None) -> 'Pending'")

    def test_help_shows_every_method_and_nothing_private(self):
        text = pydoc.plain(pydoc.render_doc(tutti.KVStore))
        for name in (*METHODS, "rank", "num_workers"):
            self.assertRegex(text, rf"\b{name}\b")
        self.assertNotIn("_pushpull", text)
        self.assertIn("wait(self, timeout: ", pydoc.plain(pydoc.render_doc(tutti.Pending)))

    def test_every_method_tells_what_it_raises_whether_it_blocks_and_whether_it_is_collective(self):
        for name in METHODS:
            text = getattr(tutti.KVStore, name).__doc__
            if "Raises UnsupportedError: no type has" in text:
                continue
            with self.subTest(name):
                self.assertRegex(text, "Raises|raises" if name != "close" else "AbortedError")
                self.assertRegex(text, "[Bb]lock|before the first array")
                self.assertRegex(text, "[Cc]ollective|All ranks call it")
        for name in EXCHANGES:
            self.assertIn("Does not block. Collective", getattr(tutti.KVStore, name).__doc__)


class Types(unittest.TestCase):
    def test_the_stubs_tell_of_all_that_the_extension_has(self):
        folder = pathlib.Path(tutti.__file__).parent
        self.assertTrue((folder / "py.typed").exists())
        tree = ast.parse((folder / "_core.pyi").read_text())
        imported = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        for module in imported:
            self.assertIsNotNone(importlib.util.find_spec(module), module)
        classes = {node.name: {each.name for each in node.body if isinstance(each, ast.FunctionDef)}
                   for node in tree.body if isinstance(node, ast.ClassDef)}
        for kind in (_core.Store, tutti.Bound, tutti.Pending):
            own = {name for name in vars(kind) if not name.startswith("__")}
            self.assertLessEqual(own, classes[kind.__name__])
        documented = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "wait"]
        self.assertIn("Blocks until", ast.get_docstring(documented[0]))

    def test_a_type_checker_takes_what_is_right_and_refuses_what_is_wrong(self):
        self.assertEqual(self.errors("typed_accepted.py"), {})
        source = (HERE / "typed_rejected.py").read_text().splitlines()
        expected = {number: re.search("# rejected: (.*)", line)[1] for number, line in enumerate(source, start=1)
                    if "# rejected: " in line}
        self.assertGreater(len(expected), 10)
        self.assertEqual(self.errors("typed_rejected.py"), expected)

    def errors(self, program):
        """{number of the line: kind of error} of the errors that mypy finds."""
        with tempfile.TemporaryDirectory() as cache:
            words = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", cache, HERE / program]
            done = subprocess.run(words, text=True, capture_output=True, check=False, timeout=240, cwd=cache)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        found = re.findall(r"^(.*):(\d+): error: .*\[([\w-]+)\]$", done.stdout, re.MULTILINE)
        self.assertEqual({pathlib.Path(file).name for file, _, _ in found} - {program}, set(), done.stdout)
        return {int(line): kind for _, line, kind in found}


if __name__ == "__main__":
    unittest.main()
