#!/usr/bin/env python3
"""scripts/gpu-check, with sections of the tests' own and, where a build is given, whole on the GPU that is played.

    test_gpu_check.py [BUILD]

BUILD is a build with CUDA. With it stands the folder of the libraries that play driver and NCCL, in LD_LIBRARY_PATH.
"""
import contextlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "benchmarks")]

# pylint: disable=wrong-import-position
from gpu_check import carry, cli, jobs, processes
from gpu_check.check import CouldNotRun, Failed, Section, run_section
from gpu_check.record import Record
from gpu_check.sections import verdict

BUILD = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 and not sys.argv[1].startswith("-") else None


class Kit:
    """The machine itself, without a carried build."""

    def __init__(self, folder):
        self.folder, self.manifest, self.environment = folder, {"commit": "abc"}, dict(os.environ)

    @staticmethod
    def program(name):
        return f"/bin/{name}" if name == "sh" else None

    tool = program


class Case(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.kit = Kit(self.folder)

    def outcome(self, work, limit=60, left=60):
        said, attempt = run_section(Section("a section", limit, work), self.kit, True, left)
        return said["outcome"], said["about"], attempt


class Sections(Case):
    def test_a_section_passes_with_what_it_says(self):
        self.assertEqual(self.outcome(lambda attempt: "42 GB/s")[:2], ("passed", "42 GB/s"))

    def test_what_is_missing_is_no_failure(self):
        outcome, about, _ = self.outcome(lambda attempt: attempt.tool("nvidia-smi"))
        self.assertEqual((outcome, about), ("could not run", "this machine has no nvidia-smi"))
        outcome, about, _ = self.outcome(lambda attempt: attempt.program("test_cuda"))
        self.assertEqual((outcome, about), ("could not run", "the carried build has no test_cuda"))

    def test_a_status_is_a_failure_and_the_last_words_are_kept(self):
        outcome, about, attempt = self.outcome(lambda attempt: attempt.passes(["sh", "-c", "echo oh; exit 3"]))
        self.assertEqual((outcome, about, attempt.words), ("failed", "it ended with status 3", "oh"))

    def test_a_mistake_of_a_section_is_its_own_failure(self):
        outcome, about, _ = self.outcome(lambda attempt: {}["no"])
        self.assertEqual((outcome, about), ("failed", "gpu-check itself: KeyError: 'no'"))

    def test_a_program_that_hangs_is_ended_with_its_children_and_its_figures_are_kept(self):
        hangs = "echo '{\"us\": 1}'; sleep 1000 & echo $! > PID; wait".replace("PID", str(self.folder / "pid"))
        outcome, about, attempt = self.outcome(lambda attempt: attempt.measures(["sh", "-c", hangs]), limit=2)
        self.assertEqual(outcome, "failed")
        self.assertIn("it did not end within 2 s; 1 figures", about)
        self.assertEqual(attempt.rows, [{"us": 1}])
        child = int((self.folder / "pid").read_text())
        self.assertRaises(ProcessLookupError, lambda: [os.kill(child, 0) for _ in until(60)])

    def test_figures_of_wrong_data_are_a_failure(self):
        outcome, about, _ = self.outcome(lambda attempt: attempt.measures(["sh", "-c", "echo '{\"wrong\": 1}'"]))
        self.assertEqual((outcome, about), ("failed", 'the data are wrong in {"wrong": 1}'))

    def test_without_time_left_nothing_is_begun(self):
        self.assertEqual(self.outcome(lambda attempt: "began", left=0)[:2], ("could not run", "no time was left"))

    def test_what_catch2_says_at_its_end_is_the_verdict(self):
        fine = "All tests passed (3 assertions in 2 test cases)"
        self.assertEqual(verdict(processes.Done(0, f"x\n{fine}\n", "", False, 1)), fine)
        with self.assertRaisesRegex(Failed, "1 failed"):
            verdict(processes.Done(1, "test cases: 2 | 1 passed | 1 failed\n", "", False, 1))
        with self.assertRaisesRegex(Failed, "status -6"):
            verdict(processes.Done(-6, "", "", False, 1))
        with self.assertRaisesRegex(Failed, "no test ran"):
            verdict(processes.Done(0, "No tests ran", "", False, 1))


def until(seconds):
    """Yields until the time is over. The processes for which the test waits have ended long before."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        yield
        time.sleep(0.01)


class PlayedKit(Kit):
    """A kit whose programs are scripts of the test."""

    def __init__(self, folder, **programs):
        super().__init__(folder)
        for name, text in programs.items():
            (folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (folder / name).chmod(0o755)

    def program(self, name):
        path = self.folder / name
        return str(path) if path.exists() else None

    tool = library = program


class Jobs(Case):
    def played(self, work, **programs):
        self.kit = PlayedKit(self.folder, **programs)
        return self.outcome(work)[:2]

    def death(self, *rows):
        lines = "\n".join(f"echo '{json.dumps({'error': 'peer_lost', 'ms': 9, 'wrong': 0, **row})}'" for row in rows)
        return self.played(jobs.death, mpirun=lines, device_victim="")

    def test_a_death_is_passed_if_both_others_hear_of_it_soon(self):
        self.assertEqual(self.death({"rank": 2}, {"rank": 0, "ms": 21}),
                         ("passed", "the others got peer_lost within 21 ms, and the device works on"))

    def test_a_death_that_takes_another_rank_along_is_a_failure(self):
        self.assertEqual(self.death({"rank": 0}), ("failed", "1 of 2 ranks lived on"))

    def test_another_error_a_late_one_and_a_broken_device_are_failures_after_a_death(self):
        self.assertEqual(self.death({"rank": 0}, {"rank": 2, "error": "timeout"}),
                         ("failed", "rank 2 got timeout after 9 ms"))
        self.assertEqual(self.death({"rank": 0, "ms": 6000}, {"rank": 2})[0], "failed")
        self.assertEqual(self.death({"rank": 0}, {"rank": 2, "wrong": 1})[0], "failed")

    def test_sums_say_with_how_many_ranks_they_failed(self):
        self.assertEqual(self.played(jobs.sums, mpirun="test $2 != 2", device_test=""),
                         ("failed", "2 ranks: it ended with status 1"))

    def test_a_framework_that_is_not_there_is_left_out(self):
        row = json.dumps({"version": "13.0", "wrong": 0})
        with mock.patch("importlib.util.find_spec", lambda name: None if name == "torch" else name):
            self.assertEqual(self.played(jobs.streams, **{"mpirun": f"echo '{row}'", "libtutti.so.0": ""}),
                             ("passed", "no torch; cupy 13.0: 10 rounds; driver 13.0: 10 rounds"))

    def test_wrong_sums_behind_a_stream_are_a_failure(self):
        row = json.dumps({"version": "13.0", "wrong": 3})
        self.assertEqual(self.played(jobs.streams, **{"mpirun": f"echo '{row}'", "libtutti.so.0": ""})[0], "failed")

    def test_a_pipeline_is_compared_with_its_slowest_stage_and_with_its_stages_in_turn(self):
        self.assertEqual(jobs.ratios(9, {"to_host": 10, "sum": 20, "to_device": 20}), (0.9, 1.8))


class Records(Case):
    def test_a_run_that_is_killed_leaves_its_sections_so_far(self):
        record = Record(self.folder / "r.json", self.kit, True)

        def first(attempt):
            attempt.rows.append({"GBps": 5})
            attempt.facts["driver"] = "13.0"
            return f"in {self.folder}/driver/libcuda.so.1"
        record.add(*run_section(Section("first", 9, first), self.kit, True, 9))
        written = json.loads((self.folder / "r.json").read_text())
        self.assertEqual([(said["section"], said["outcome"], said["about"]) for said in written["sections"]],
                         [("first", "passed", "in libcuda.so.1")])
        self.assertEqual(written["rows"], [{"GBps": 5}])
        self.assertEqual((written["machine"]["driver"], written["complete"]), ("13.0", False))

    def test_the_table_shows_every_section(self):
        def missing(attempt):
            raise CouldNotRun("there is no NCCL")
        record = Record(self.folder / "r.json", self.kit, True)
        record.add(*run_section(Section("first", 9, lambda attempt: "42 GB/s"), self.kit, True, 9))
        record.add(*run_section(Section("other", 9, missing), self.kit, True, 9))
        for line in ("first    passed .*42 GB/s", "other    could not run .*there is no NCCL"):
            self.assertRegex(record.table(), line)


@unittest.skipIf(BUILD is None, "no build with CUDA")
class OnTheStandIn(Case):
    def check(self, *words, **variables):
        return subprocess.run([str(ROOT / "scripts/gpu-check"), *map(str, words)], text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240, check=False,
                              env={**os.environ, **variables})

    def test_the_carried_folder_runs_whole_and_leaves_its_record(self):
        carry.collect(self.folder / "carried", BUILD, None)
        done = self.check("--from", self.folder / "carried", "--quick", "--json", self.folder / "r.json")
        record = json.loads((self.folder / "r.json").read_text())
        outcomes = {said["section"]: said["outcome"] for said in record["sections"]}
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertTrue(record["complete"])
        without_sanitizer = {name: outcome for name, outcome in outcomes.items() if not name.endswith("check")}
        self.assertEqual(set(without_sanitizer.values()), {"passed"}, done.stdout)
        self.assertEqual({row["part"] for row in record["rows"]},
                         {"calls", "copies", "kernels", "pinning", "host tensors", "killed rank", "streams",
                          "host sums", "pipeline"})
        self.assertNotIn(str(self.folder), json.dumps(record))

    def test_a_fault_of_the_device_fails_its_section_alone(self):
        carry.collect(self.folder / "carried", BUILD, None)
        done = self.check("--from", self.folder / "carried", "--quick", "--only", "calls", "--only", "kernels",
                          "--json", self.folder / "r.json", STANDIN_FAULTS="cuLaunchKernel#500=999")
        sections = json.loads((self.folder / "r.json").read_text())["sections"]
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual([said["outcome"] for said in sections if said["section"] == "calls"], ["failed"])

    def test_what_a_slow_stream_still_writes_comes_before_the_sum(self):
        carry.collect(self.folder / "carried", BUILD, None)
        done = self.check("--from", self.folder / "carried", "--quick", "--only", "streams",
                          "--json", self.folder / "r.json", STANDIN_GPU="h2d_delay=2e-3")
        section, = json.loads((self.folder / "r.json").read_text())["sections"]
        self.assertEqual(section["outcome"], "passed", done.stdout + done.stderr)

    def test_a_machine_without_a_device_is_left_with_a_line(self):
        done = self.check(STANDIN_GPU="devices=0")
        self.assertEqual((done.returncode, done.stdout), (77, ""))
        self.assertEqual(done.stderr, "gpu-check: no GPU here: CUDA cannot be used: cuInit returns 100\n")


class WithoutADriver(unittest.TestCase):
    def test_a_machine_without_a_driver_is_left_with_a_line(self):
        said = io.StringIO()
        with mock.patch.object(cli, "load_driver", return_value=(None, "")), \
                mock.patch.object(sys, "argv", ["gpu-check"]), contextlib.redirect_stderr(said):
            self.assertEqual(cli.main(), 77)
        self.assertEqual(said.getvalue(),
                         "gpu-check: no GPU here: no CUDA driver: the loader finds no libcuda.so.1\n")


if __name__ == "__main__":
    unittest.main()
