#!/usr/bin/python3
"""benchmarks/compare/rounds.py: contests in turn."""
import io
import unittest

from comparing import contest, row
from compare import rounds
from compare.contest import BenchError


class Rounds(unittest.TestCase):
    def run_all(self, contests, rounds_wanted=3, failing=()):
        ran, lost = [], {}

        def run(one):
            ran.append(one.name)
            if one.name in failing and len(ran) > len(contests):
                raise BenchError("it fell")
            return [row(one.name, one.name, 1)]
        return rounds.interleave(contests, 2, rounds_wanted, run, lost), ran, lost

    def test_every_contest_runs_once_a_round_and_each_round_begins_with_another(self):
        rows, ran, _ = self.run_all([contest("a"), contest("b"), contest("c")])
        self.assertEqual("".join(ran), "abcbcacab")
        self.assertEqual([r["round"] for r in rows], [0] * 3 + [1] * 3 + [2] * 3)

    def test_a_peer_that_fails_is_left_out_altogether_and_the_reason_told(self):
        rows, ran, lost = self.run_all([contest("a"), contest("b")], failing=("b",))
        self.assertEqual({r["who"] for r in rows}, {"a"})
        self.assertEqual(ran.count("b"), 2)
        self.assertEqual(lost, {"b, 2 ranks": "it fell"})

    def test_what_is_needed_must_not_fail(self):
        with self.assertRaises(BenchError):
            self.run_all([contest("a", needed=True)], failing=("a",))


class Progress(unittest.TestCase):
    def said(self, is_terminal):
        stream, now = io.StringIO(), [0.0]
        stream.isatty = lambda: is_terminal
        say = rounds.Progress(stream, lambda: now[0])
        for second in range(0, 150, 10):
            now[0] = second
            say(f"at {second}")
        say("")
        return stream.getvalue()

    def test_a_log_gets_a_line_once_a_minute(self):
        self.assertEqual(self.said(False), "after 1 min: at 60\nafter 2 min: at 120\n")

    def test_on_a_terminal_one_line_is_written_over_and_goes(self):
        self.assertTrue(self.said(True).endswith("\r\x1b[Kat 140\r\x1b[K"))


if __name__ == "__main__":
    unittest.main()
