#!/usr/bin/python3
"""benchmarks/compare/record.py: the JSON that a run leaves."""
import dataclasses
import json
import pathlib
import tempfile
import unittest

from comparing import row
from compare import cli, outcome, record


class Records(unittest.TestCase):
    def test_a_second_run_of_a_day_keeps_the_firsts_record(self):
        kept = outcome.Outcome("t", [row("a", "tutti", 1)], [], {"Horovod": "why"}, [], [], [], ("x", "y"),
                               extra={"floor_us": {"a": {"b": 1}}})
        with tempfile.TemporaryDirectory() as folder:
            request = dataclasses.replace(cli.parse(["--suite", "node"]), out=pathlib.Path(folder))
            files = [record.write(request, record.document(request, {"machine": {"a": {}}}, kept))[0] for _ in range(2)]
            read = [json.loads(file.read_text()) for file in files]
        self.assertTrue(files[1].name.endswith("-node-2.json"), files)
        self.assertEqual([document["rows"] for document in read], [kept.rows] * 2)
        self.assertEqual(read[0]["skipped"], {"Horovod": "why"})

    def test_other_links_than_usual_are_in_the_records_name(self):
        with tempfile.TemporaryDirectory() as folder:
            request = dataclasses.replace(cli.parse(["--suite", "training", "--rate", "500mbit"]), out=pathlib.Path(folder))
            file, = record.write(request, {"rows": []})
        self.assertTrue(file.name.endswith("-training-500mbit.json"), file)


if __name__ == "__main__":
    unittest.main()
