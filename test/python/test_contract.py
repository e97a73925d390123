#!/usr/bin/env python3
"""The check that the tables of the Python package's translation have all that the headers of C++ offer."""
import pathlib
import shutil
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/checks"))

import contract


class Contract(unittest.TestCase):
    def problems(self, file, was, becomes):
        """The problems after an edit of a header or of the tables."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            shutil.copytree(ROOT / "include", root / "include")
            (root / contract.TABLES).parent.mkdir(parents=True)
            shutil.copy(ROOT / contract.TABLES, root / contract.TABLES)
            text = (root / file).read_text()
            self.assertIn(was, text)
            (root / file).write_text(text.replace(was, becomes, 1))
            return list(contract.problems_of(root))

    def test_what_a_header_gains_is_missing_in_the_tables(self):
        headers = "include/tutti"
        for file, was, added, told in (
                ("kvstore.h", "  void barrier();\n", "  std::vector<int> scan(const Key& key);\n", "'scan'"),
                ("pending.h", "  bool done() const noexcept;\n", "  void cancel() const;\n", "Pendings lack 'cancel'"),
                ("bound.h", "  Pending start() const;\n", "  void stop() const;\n", "Bounds lack 'stop'"),
                ("options.h", "  std::string interface;\n", "  std::optional<int> depth;\n", "OPTIONS lack 'depth'"),
                ("counters.h", "  std::uint64_t batches = 0;\n", "  std::uint64_t parts = 0;\n", "'parts'"),
                ("error.h", "  internal,\n", "  cancelled,\n", "ERRORS lack 'cancelled'"),
                ("tensor.h", "f16, bf16, ", "f8, ", "DTYPES lack 'f8'"),
                ("reduce_op.h", "sum, ", "product, ", "OPS lack 'product'")):
            with self.subTest(file):
                problem, *more = self.problems(f"{headers}/{file}", was, was + added)
                self.assertIn(told, problem)
                self.assertEqual(len(more), file == "counters.h")

    def test_a_row_that_is_gone_is_missing(self):
        for was, becomes, told in (('"send": [', '"sends": [', "methods and PROPERTIES lack 'send'"),
                                   ('"local_size": 2', '"size": 3', "methods and PROPERTIES lack 'local_size'"),
                                   ('"encrypt": ', '"encrypted": ', "OPTIONS lack 'encrypt'"),
                                   ("def test_run(", "def test_runs(", "Bounds lack 'run'")):
            with self.subTest(told):
                problem, = self.problems(contract.TABLES, was, becomes)
                self.assertIn(told, problem)

    def test_counters_in_another_order_are_a_problem(self):
        problem, = self.problems(contract.TABLES, '"tensors_reduced", "bytes_reduced"',
                                 '"bytes_reduced", "tensors_reduced"')
        self.assertIn("not in the order", problem)

    def test_the_sources_of_this_repository_agree(self):
        self.assertEqual(list(contract.problems_of(ROOT)), [])


if __name__ == "__main__":
    unittest.main()
