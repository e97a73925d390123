#!/usr/bin/python3
"""benchmarks/compare/record.py: the JSON file of a run."""
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
            files = [record.write(request, record.document(request, {"cpu": "Intel"}, kept))[0] for _ in range(2)]
            read = [json.loads(file.read_text()) for file in files]
        self.assertTrue(files[1].name.endswith("-node-2.json"), files)
        self.assertEqual([document["rows"] for document in read], [kept.rows] * 2)
        self.assertEqual(read[0]["skipped"], {"Horovod": "why"})

    def test_other_links_than_usual_and_an_epyc_are_in_the_records_name(self):
        with tempfile.TemporaryDirectory() as folder:
            request = dataclasses.replace(cli.parse(["--suite", "training", "--rate", "500mbit"]),
                                          out=pathlib.Path(folder))
            files = [record.write(request, {"machine": {"cpu": cpu}, "rows": []})[0].name
                     for cpu in ("Intel(R) Xeon(R)", "AMD EPYC 9R14")]
        self.assertTrue(files[0].endswith("-training-500mbit.json"), files)
        self.assertTrue(files[1].endswith("-training-500mbit-epyc.json"), files)

    def test_no_folder_of_this_machine_is_kept(self):
        lost = {
            "Horovod": "/here/lab/agent.sh x-h0 /here/venv/bin/python --json /tmp/a1/rows.json: ended with 1: [3] "
                       "/lib/x/libc.so.6(+0x7)",
            "Gloo": "no module torch.distributed, in suite a/b: https://host/a/b",
            "MXNet": "g++ -I/home/me/x@y/include ~/lab/a.cc ../../me/b.cc"}
        kept = outcome.Outcome("t", [], [], lost, [], [], [], ("x", "y"))
        self.assertEqual(record.document(cli.parse(["--suite", "node"]), {}, kept)["skipped"],
                         {"Horovod": "agent.sh x-h0 python --json rows.json: ended with 1: [3] libc.so.6(+0x7)",
                          "Gloo": lost["Gloo"],
                          "MXNet": "g++ -Iinclude a.cc b.cc"})


class Kept(unittest.TestCase):
    """benchmarks/results, as benchmarks/README.md says of it."""
    ROOT = pathlib.Path(__file__).resolve().parents[2]
    RESULTS = ROOT / "benchmarks/results"
    # The first records that hold how tutti was built.
    BUILD_TYPES_SINCE = "2026-11-25"

    def test_a_readme_shows_each_plot(self):
        shown = "".join((self.ROOT / name).read_text() for name in ("README.md", "benchmarks/README.md"))
        self.assertEqual([plot.name for plot in self.RESULTS.glob("*.png") if f"results/{plot.name})" not in shown], [])

    def test_each_records_name_tells_its_processor_and_its_date_whether_it_holds_a_build_type(self):
        for file in self.RESULTS.glob("*.json"):
            machine = json.loads(file.read_text())["machine"]
            with self.subTest(file=file.name):
                self.assertEqual("epyc" in file.name, machine["cpu"].startswith("AMD EPYC"))
                self.assertEqual("build_type" in machine, file.name >= self.BUILD_TYPES_SINCE)


if __name__ == "__main__":
    unittest.main()
