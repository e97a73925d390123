#!/usr/bin/python3
"""scripts/timeline: the part of a trace that it draws, and that something happens in this part."""
import argparse
import importlib.machinery
import importlib.util
import pathlib
import sys
import unittest

try:
    import matplotlib
except ImportError:
    print("skipped: this Python has no matplotlib")
    sys.exit(77)

SCRIPTS = pathlib.Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))
LOADER = importlib.machinery.SourceFileLoader("timeline", str(SCRIPTS / "timeline"))
timeline = importlib.util.module_from_spec(importlib.util.spec_from_loader("timeline", LOADER))
sys.modules["timeline"] = timeline
LOADER.exec_module(timeline)


def rank(lasts, steps=6, period=100.0):
    """Two keys whose calls last this many µs in each step. Nothing happens in the rest of the step."""
    rows = {number: timeline.Row(
        f"'{number}'", [{"ts": period * step + number, "dur": lasts, "cat": "call", "name": "pushpull", "args": {}}
                       for step in range(steps)]) for number in (0, 1)}
    return timeline.Rank("rank", {}, rows)


def window(*ranks, begin=None, end=None):
    return timeline.window(dict(enumerate(ranks, 1)), argparse.Namespace(begin=begin, end=end))


class Window(unittest.TestCase):
    def test_a_step_ends_where_the_last_of_it_does_and_not_where_the_next_begins(self):
        begin, end, note = window(rank(24))
        self.assertEqual((begin, end), (300 - 0.5, 325 + 0.5))
        self.assertIn("step 4 of 6", note)
        self.assertIn("the next one begins 0.075 ms after its end", note)

    def test_the_last_of_any_rank_counts(self):
        self.assertEqual(window(rank(9), rank(49))[1], 350 + 1)

    def test_steps_without_a_pause_end_where_the_next_begins(self):
        begin, end, note = window(rank(120))
        self.assertEqual((begin, end), (298, 400))
        self.assertNotIn("after its end", note)

    def test_what_is_asked_for_is_drawn(self):
        self.assertEqual(window(rank(24), begin=0.1, end=0.2), (100, 200, ""))

    def test_a_call_without_stages_fills_its_band(self):
        heights = lambda rows: [height for slices, _, height in timeline.Bands.parts("'a'", rows) if slices]
        self.assertEqual(heights({"'a'": [1]}), [0.6])
        self.assertEqual(heights({"'a'": [1], "'a' copy in": [2]}), [0.22, 0.12])


if __name__ == "__main__":
    unittest.main()
