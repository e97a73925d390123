#!/usr/bin/env python3
"""compare.py as a command, on tiny sizes, and its errors when a program fails.

    test_compare_run.py BUILD [Smoke | Run | AtLength] [unittest options]
"""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
COMPARE = ROOT / "benchmarks/compare.py"
sys.path.insert(0, str(ROOT / "test/lab"))
from hosts import why_not
BUILD = sys.argv[1]
# Stands in for a build folder's allreduce_bench. It finds this many wrong elements, or does not work.
BENCH = """#!/usr/bin/env python3
import json, sys
words = sys.argv
of = lambda option: words[words.index(option) + 1]
if {wrong} < 0:
    sys.exit("it does not work")
rows = [{{"impl": impl, "version": "1", "ranks": 2, "bytes": int(size), "wrong": {wrong}, "time_us": {{"p50": 1.0}}}}
        for impl in of("--impl").split(",") for size in of("--bytes").split(",")]
open(of("--json"), "w").write(json.dumps(rows))
sys.exit(1 if {wrong} else 0)
"""


class RunCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        # The peers are the same, whatever is installed here.
        self.bare_python = self.folder / "python"
        self.bare_python.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
        self.bare_python.chmod(0o755)

    def compare(self, suite, *words, build=BUILD, ranks=("--ranks", "2")):
        line = [str(COMPARE), "--suite", suite, "--quick", "--rounds", "1", *ranks, "--out", self.folder / "out",
                "--build", build, "--peers-python", self.bare_python, *words]
        return subprocess.run([str(word) for word in line], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              timeout=170, check=False)

    def record(self, suite):
        return json.loads(next((self.folder / "out").glob(f"*-{suite}*.json")).read_text())

    def assert_plotted(self, done, suite):
        if "has no matplotlib" not in done.stdout:
            self.assertEqual({file.suffix for file in (self.folder / "out").glob(f"*-{suite}.*")},
                             {".json", ".png", ".svg"})


class Smoke(RunCase):
    def with_bench(self, wrong):
        (self.folder / "benchmarks").mkdir()
        bench = self.folder / "benchmarks/allreduce_bench"
        bench.write_text(BENCH.format(wrong=wrong))
        bench.chmod(0o755)
        return self.compare("node", "--bytes", "4", build=self.folder)

    def test_a_wrong_sum_is_kept_and_fails_the_run(self):
        done = self.with_bench(7)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("elements are wrong", done.stderr)
        self.assertEqual(self.record("node")["rows"][0]["wrong"], 7)

    def test_short_of_every_target_is_no_failure(self):
        done = self.with_bench(0)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_build_that_does_not_run_ends_it_with_the_reason(self):
        done = self.with_bench(-1)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("it does not work", done.stderr)


class Run(RunCase):
    def test_the_node_suite_measures_judges_and_keeps(self):
        done = self.compare("node", "--bytes", "4,64K")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"P2 +2 ranks, 64 KiB, tutti : quickest peer +>= 1 x +[\d.]+ x +(pass|short)")
        self.assertIn("skipped: Horovod", done.stdout)
        self.assertIn("yields when idle: false", done.stdout)
        kept = self.record("node")
        self.assertGreaterEqual({row["who"] for row in kept["rows"]},
                                {"tutti", "tutti, shared", "Open MPI", "Open MPI, picked", "tutti, reproducible off"})
        self.assertEqual(kept["machine"]["cores"] > 0, True)
        self.assert_plotted(done, "node")

    def test_the_negotiation_suite_counts_messages_with_replay_and_without(self):
        done = self.compare("negotiation")
        self.assertEqual(done.returncode, 0, done.stderr)
        sent = {row["replay"]: row["control_messages"] for row in self.record("negotiation")["rows"]}
        self.assertLess(sent[True], sent[False] / 10)
        self.assertGreater(sent[False], 200)
        self.assert_plotted(done, "negotiation")


class AtLength(RunCase):
    @unittest.skipIf(why_not(), why_not())
    def test_the_lab_suite_measures_a_part_on_emulated_hosts(self):
        done = self.compare("lab", "--only", "wire", "--bytes", "4M")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout,
                         r"P6 +2 hosts, 4.1943 MB, bf16 : f32 on the wire +>= 1.9 x +[\d.]+ x +(pass|short)")
        kept = self.record("lab-wire")
        self.assertEqual({(row["who"], row["hosts"], row["wire"]) for row in kept["rows"]},
                         {("tutti", 2, "none"), ("tutti, bf16 wire", 2, "bf16"), ("tutti, fp16 wire", 2, "fp16")})
        self.assertGreater(kept["payload_Bps"]["2 hosts"], 1e7)
        # With two hosts, each sends the whole tensor in a turn. There is one turn that does not count.
        sizes = {row["who"]: row["sent_bytes_of_program"] / (row["iters"] + 1) / row["bytes"] for row in kept["rows"]}
        self.assertGreater(sizes["tutti"], 1)
        self.assertLess(sizes["tutti, bf16 wire"], 0.75)
        self.assertLess(sizes["tutti, fp16 wire"], 0.75)
        self.assert_plotted(done, "lab-wire")

    def test_the_ps_suite_measures_servers_on_one_machine(self):
        done = self.compare("ps", "--only", "one-host", ranks=())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"F +servers between turns, idle +<= 0.01 of a core +[\d.]+ of a core +pass")
        kept = self.record("ps-one-host")
        self.assertEqual({(row["ranks"], row["who"]) for row in kept["rows"]},
                         {(2, "tutti, 1 server, one array"), (2, "tutti, 1 server, ResNet-50's keys"),
                          (4, "tutti, 1 server, updates")})
        self.assertIn("mxnet==1.9.1", kept["skipped"]["MXNet's parameter server"])
        self.assert_plotted(done, "ps-one-host")

    @unittest.skipIf(why_not(), why_not())
    def test_the_training_suite_says_what_part_of_the_bound_each_setting_reaches(self):
        done = self.compare("training")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout,
                         r"P7 +resnet50 at 0.05 of its size, 2 hosts, as it comes +>= 98 % +[\d.]+ % +not measured")
        rows = self.record("training")["rows"]
        self.assertEqual(
            {(row["who"], row["priority"], row["replay"], row["fusion_bytes"] != 0, row["wire"]) for row in rows},
            {("as it comes", True, True, True, "none"), ("no priority", False, True, True, "none"),
             ("no fusion", True, True, False, "none"), ("no replay", True, False, True, "none"),
             ("bf16 wire", True, True, True, "bf16")})

    @unittest.skipIf(why_not(), why_not())
    def test_the_ps_suite_measures_servers_on_hosts_and_counts_their_bytes(self):
        for part, name in (("beside", "2 hosts"), ("apart", "2 hosts, 1 for servers")):
            done = self.compare("ps", "--only", part, "--bytes", "4M")
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertRegex(done.stdout,
                             rf"F +{name}, tutti, 1 server, bytes on the wire : bound +<= 1.05 x +[\d.]+ x")
            self.assertLessEqual({"tutti", "Open MPI", "tutti, 1 server", "tutti, 1 server, ResNet-50's keys"},
                                 {row["who"] for row in self.record(f"ps-{part}")["rows"]})
            self.assert_plotted(done, f"ps-{part}")

    @unittest.skipIf(why_not(), why_not())
    def test_the_scaling_suite_has_every_setting_of_the_study(self):
        done = self.compare("scaling", ranks=())
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"F +dist_async, 3 workers, 3 servers apart, of the ideal line +- +[\d.]+ %")
        self.assertEqual(len({row["who"] for row in self.record("scaling")["rows"]}), 12)
        self.assert_plotted(done, "scaling")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *(sys.argv[2:] or ["Smoke", "Run"])])
