"""The timeline of a job has every rank, every tensor and every stage, at times that fit together.

    test_timeline.py TIMELINE_JOB [unittest options]
"""
import collections
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from layouts import Job, main, possible, run_in
from on_hosts import ranks_of

TIMELINE_JOB = sys.argv[1]
DRAW = pathlib.Path(__file__).resolve().parents[2] / "scripts/timeline"
SUMS = {"'small'", "'one'", "'two'", "'large'"}
ROUNDS = 12
LAYOUTS = ["3", "2x2"]
ORDER = ["agree", "turn", "gate", "held", "move"]


class Trace:
    """A trace by rank: its metadata, and its slices by the name of their row."""

    def __init__(self, path):
        self.about, self.names, rows = {}, {}, {}
        self.slices = collections.defaultdict(lambda: collections.defaultdict(list))
        events = json.loads(pathlib.Path(path).read_text())
        for event in events:
            if event["name"] == "tutti":
                self.about[event["pid"] - 1] = event["args"]
            elif event["name"] == "process_name":
                self.names[event["pid"] - 1] = event["args"]["name"]
            elif event["name"] == "thread_name":
                rows[event["pid"], event["tid"]] = event["args"]["name"]
        # Viewers take process 0 and thread 0 for the kernel's.
        assert all(event["ph"] in "MX" and event["pid"] > 0 and event["tid"] > 0 for event in events), events
        for event in events:
            if event["ph"] == "X":
                assert event["dur"] >= 0, event
                event["end"] = round(event["ts"] + event["dur"], 3)
                self.slices[event["pid"] - 1][rows[event["pid"], event["tid"]]].append(event)

    def of_key(self, rank, key, *categories):
        """The slices of a key's calls, including those of parts that go ahead."""
        return sorted((s for name, slices in self.slices[rank].items() for s in slices
                       if (name == key or name.startswith(f"{key} (")) and s["cat"] in categories),
                      key=lambda s: s["ts"])


def ranks_in(layout):
    return int(layout) if layout.isdigit() else sum(ranks_of(layout))


class Timeline(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.path = os.path.join(self.folder, "trace.json")

    def files(self):
        return sorted(os.listdir(self.folder))

    def record(self, layout, *how, **env):
        run_in(layout, TIMELINE_JOB, *how, limit=120, TUTTI_TIMELINE=self.path, **env)

    def nothing_straddles(self, slices, where):
        """Checks that slices on a row lie one after the other or within one another, to the nanosecond. Viewers drop
        others."""
        open_ends = []
        for each in slices:
            while open_ends and open_ends[-1] <= each["ts"]:
                open_ends.pop()
            if open_ends:
                self.assertLessEqual(each["end"], open_ends[-1], f"{where}: {each}")
            open_ends.append(each["end"])

    def one_call_in_order(self, call, within, where):
        """agree, turn, gate, held, move: each begins where the one before it ends."""
        steps = [s for s in within if s["name"] in ORDER]
        self.assertEqual([s["name"] for s in steps], sorted((s["name"] for s in steps), key=ORDER.index), where)
        self.assertEqual(steps[-1]["name"], "move", where)
        at = call["ts"]
        for step in steps:
            self.assertAlmostEqual(step["ts"], at, delta=0.003, msg=f"{where}: {steps}")
            at = step["end"]
        self.assertLessEqual(at, call["end"] + 0.003, where)

    def check_calls(self, trace, rank, nodes):
        for key in SUMS | {"'weight'"}:
            calls = trace.of_key(rank, key, "call")
            where = f"rank {rank}, {key}"
            self.assertEqual(len(calls), 1 if key == "'weight'" else ROUNDS, where)
            inner = trace.of_key(rank, key, "wait", "gate", "move")
            for call in calls:
                within = [s for s in inner if call["ts"] <= s["ts"] and s["end"] <= call["end"] + 0.003]
                self.assertTrue(within, where)
                if key in ("'small'", "'one'"):  # never cut in parts
                    self.one_call_in_order(call, within, where)
        stages = ["copy in", "sum", "copy out"] + (["between nodes"] if nodes > 1 else [])
        for stage in stages:
            self.assertIn(f"'large' {stage}", trace.slices[rank])
        self.assertIn("'weight' copy in" if rank == 0 else "'weight' copy out", trace.slices[rank])

    def check_stages(self, trace, rank):
        """A chunk goes from stage to stage, each behind its batch's gate."""
        chunks = collections.defaultdict(dict)
        for name, slices in trace.slices[rank].items():
            for each in slices:
                if name.startswith("'large'") and each["cat"] == "stage":
                    chunks[each["args"]["batch"], each["args"]["chunk"]][each["name"]] = each
        self.assertGreater(len(chunks), ROUNDS)
        closed = {s["args"]["batch"]: s["end"] for s in trace.slices[rank]["gates"] if s["cat"] == "gates"}
        for (batch, _), stages in chunks.items():
            order = [s for s in ("sum", "between nodes", "copy out") if s in stages]
            for before, after in zip(order, order[1:]):
                self.assertLessEqual(stages[before]["end"], stages[after]["end"])
                self.assertLessEqual(stages[before]["ts"], stages[after]["ts"])
            for stage in stages.values():
                self.assertGreaterEqual(stage["ts"], closed[batch] - 0.003)

    def check_gates(self, trace):
        """Checks that no gate closes on one rank before another has come to it, within the error of the clocks."""
        gates = {rank: {s["args"]["batch"]: s for s in rows["gates"] if s["cat"] == "gates"}
                 for rank, rows in trace.slices.items()}
        self.assertGreater(len(gates[0]), ROUNDS)
        for rank, own in gates.items():
            self.assertEqual(own.keys(), gates[0].keys())
            allowed = trace.about[rank]["clock_error_us"] + 0.01
            for batch, gate in own.items():
                other = gates[0][batch]
                self.assertLessEqual(gate["ts"], other["end"] + allowed, f"batch {batch}")
                self.assertLessEqual(other["ts"], gate["end"] + allowed, f"batch {batch}")

    def check_trace(self, trace, layout):
        ranks = ranks_in(layout)
        nodes = len({about["node"] for about in trace.about.values()})
        self.assertEqual(nodes, 1 if layout.isdigit() else len(ranks_of(layout)))
        self.assertEqual(sorted(trace.about), list(range(ranks)))
        for rank, about in trace.about.items():
            self.assertEqual(trace.names[rank], f"rank {rank} on {about['host']}")
            self.assertEqual(about["events_left_out"], 0)
            # Emulated hosts have one clock, so the measured drift must be smaller than the claimed error.
            for drift in about["clock_drift_us"]:
                self.assertLessEqual(abs(about["clock_offset_us"] + drift), about["clock_error_us"] + 0.01)
            for name, slices in trace.slices[rank].items():
                self.nothing_straddles(slices, f"rank {rank}, row {name}")
            self.check_calls(trace, rank, nodes)
            self.check_stages(trace, rank)
            self.assertEqual(about["clock_error_us"] > 0, about["node"] != trace.about[0]["node"])
        self.check_gates(trace)

    def test_every_tensor_has_its_stages_in_order_on_every_rank(self):
        for layout in possible(LAYOUTS):
            for replay in ("0", "1"):
                with self.subTest(layout=layout, replay=replay):
                    self.record(layout, TUTTI_REPLAY=replay)
                    self.assertEqual(self.files(), ["trace.json"])
                    trace = Trace(self.path)
                    print(f"{layout}: clock errors", {r: a["clock_error_us"] for r, a in trace.about.items()})
                    self.check_trace(trace, layout)

    def test_a_second_store_has_a_file_of_its_own(self):
        self.record("2", "twice")
        self.assertEqual(self.files(), ["trace.2.json", "trace.json"])
        for number, name in enumerate(["trace.json", "trace.2.json"]):
            trace = Trace(os.path.join(self.folder, name))
            self.assertEqual([about["store"] for about in trace.about.values()], [number, number])

    def test_nothing_is_written_when_it_is_off(self):
        run_in("2", TIMELINE_JOB, TUTTI_TIMELINE="")
        self.assertEqual(self.files(), [])

    def test_a_path_that_one_cannot_write_is_an_error_at_create(self):
        path = os.path.join(self.folder, "missing", "trace.json")
        with self.assertRaises(AssertionError) as failed:
            run_in("2", TIMELINE_JOB, "create", TUTTI_TIMELINE=path)
        self.assertIn(f"failed with 1: rank 0 cannot write its timeline to {path}.0.part: No such file",
                      str(failed.exception))

    def test_nothing_stays_of_a_timeline_that_cannot_be_written(self):
        os.mkdir(self.path)  # the parts beside it can be
        with self.assertRaises(AssertionError) as failed:
            run_in("2", TIMELINE_JOB, "create", TUTTI_TIMELINE=self.path)
        self.assertIn(f"rank 0 cannot write its timeline to {self.path}: Is a directory", str(failed.exception))
        self.assertEqual(self.files(), ["trace.json"])

    def test_a_disk_that_fills_up_is_said_and_ends_nothing_and_no_cut_file_stays(self):
        job = run_in("3", TIMELINE_JOB, "full", TUTTI_TIMELINE=self.path)
        for rank in range(3):
            self.assertIn(f"cannot write the timeline's part {self.path}.{rank}.part: File too large", job.output)
        self.assertIn(f"cannot write the timeline {self.path}: rank 0 has not written its part", job.output)
        self.assertEqual(self.files(), [])

    def test_a_rank_whose_disk_fills_up_costs_its_own_part_alone(self):
        job = run_in("3", TIMELINE_JOB, "full", "1", TUTTI_TIMELINE=self.path)
        self.assertIn(f"cannot write the timeline's part {self.path}.1.part: File too large", job.output)
        self.assertIn(f"the timeline {self.path} lacks rank 1 of this host, which could not write its whole part",
                      job.output)
        self.assertEqual(self.files(), ["trace.json"])
        self.assertEqual(sorted(Trace(self.path).about), [0, 2])

    def test_a_lost_rank_leaves_the_others_parts(self):
        # Without this option mpirun ends the other ranks as soon as it notices, perhaps before they print anything.
        job = Job(["mpirun", "--enable-recovery", "-n", "3", TIMELINE_JOB, "loss"], TUTTI_TIMELINE=self.path)
        for rank in range(2):
            self.assertIn(f"the timeline stays in parts; this rank's is {self.path}.{rank}.part", job.output)
        self.assertNotIn("trace.json", self.files())
        part = os.path.join(self.folder, "trace.json.0.part")
        calls = Trace(part).of_key(0, "'small'", "call")
        self.assertEqual([call["name"] for call in calls], ["pushpull"] * ROUNDS)
        self.check_picture(part)

    def test_the_picture_is_drawn_from_a_trace_and_from_parts(self):
        self.record("3")  # two ranks of one node copy nothing out
        lines = pathlib.Path(self.path).read_text().splitlines()
        half = os.path.join(self.folder, "half.part")
        pathlib.Path(half).write_text("\n".join(lines[:len(lines) // 2]) + '\n{"ts":1')
        for trace in (self.path, half):
            self.check_picture(trace)

    def check_picture(self, trace):
        picture = f"{trace}.png"
        subprocess.run([DRAW, trace, picture], check=True)
        self.assertTrue(pathlib.Path(picture).read_bytes().startswith(b"\x89PNG"))
        drawing = f"{trace}.svg"
        subprocess.run([DRAW, trace, drawing], check=True)
        labels = set(re.findall(r"<!-- (.*?) -->", pathlib.Path(drawing).read_text()))
        self.assertLessEqual({"executor", "gates", "copy in", "sum", "copy out", "'large'"}, labels)
        self.assertTrue(any(label.startswith("rank 0 on ") for label in labels), labels)


if __name__ == "__main__":
    main(sys.argv[2:])
