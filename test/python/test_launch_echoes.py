#!/usr/bin/env python3
"""Equal texts of several processes on standard error, which the launcher shows once."""
import pathlib
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

from launcher import echoes
from launcher.echoes import Echoes, names_of, plain
from launcher.worker import Worker

TRACE = ["Traceback (most recent call last):", '  File "train.py", line 3, in <module>', "MismatchError: key 'g'"]


class Screen(unittest.TestCase):
    """Records the lines that are shown, in order: (title, line), and the launcher's own lines."""

    def setUp(self):
        self.now, self.seen = 100.0, []
        printer = mock.Mock(prefix=True, as_shown=lambda title, stream, texts: texts)
        printer.lines = lambda title, stream, texts: self.seen.extend((title, text) for text in texts) or texts
        self.echoes = Echoes(printer, self.seen.append, lambda: self.now)
        self.workers = [Worker(rank, "h") for rank in range(4)]

    def write(self, *messages):
        """Writes [(rank, its lines)] in the order in which they come."""
        for rank, texts in messages:
            self.echoes.take(self.workers[rank], list(texts))

    def after(self, seconds):
        self.now += seconds
        self.echoes.expire()

    def shown(self, *messages):
        self.assertEqual(self.seen, [(f"worker {what[0]}", text) for what in messages if not isinstance(what, str)
                                     for text in what[1]] + [what for what in messages if isinstance(what, str)])

    def test_what_all_say_is_shown_once_and_at_once_and_then_the_others_are_named(self):
        self.write((2, TRACE))
        self.shown((2, TRACE))
        self.write((0, TRACE), (3, TRACE), (1, TRACE))
        self.shown((2, TRACE))
        self.after(echoes.QUIET_SECONDS)
        self.shown((2, TRACE), "workers 0, 1, 3 wrote the same 3 lines as worker 2")
        self.assertIsNone(self.echoes.deadline())

    def test_so_it_is_when_their_lines_come_in_pieces_and_mixed(self):
        for text in TRACE:
            self.write((0, [text]), (1, [text]), (2, [text]))
        self.write((1, ["behind"]), (0, ["behind"]), (2, ["behind"]))
        self.after(echoes.QUIET_SECONDS)
        self.shown((0, [*TRACE, "behind"]), "workers 1, 2 wrote the same 4 lines as worker 0")

    def test_one_that_says_something_else_in_the_end_is_shown_whole(self):
        other = [*TRACE[:2], "MismatchError: another"]
        self.write((0, TRACE), (1, other))
        self.shown((0, TRACE), (1, other))

    def test_of_one_that_goes_on_otherwise_the_rest_is_shown(self):
        self.write((0, [*TRACE, "a store was still open"]), (1, [*TRACE, "rank 0 is lost", "a store was still open"]))
        self.assertEqual(self.seen[4:], ["worker 1 wrote the same 3 lines as worker 0", ("worker 1", "rank 0 is lost")])
        self.after(echoes.QUIET_SECONDS)
        self.assertEqual(self.seen[6:], [("worker 1", "a store was still open")])

    def test_two_that_differ_from_the_first_alike_are_shown_once(self):
        other = [*TRACE[:2], "MismatchError: another"]
        self.write((0, TRACE), (1, other), (2, other))
        self.after(echoes.QUIET_SECONDS)
        self.shown((0, TRACE), (1, other), "worker 2 wrote the same 3 lines as worker 1")

    def test_one_that_is_ahead_waits_for_the_first_but_not_for_long(self):
        self.write((0, TRACE[:1]), (1, TRACE))
        self.shown((0, TRACE[:1]))
        self.write((0, TRACE[1:]))
        self.shown((0, TRACE))
        self.write((2, [*TRACE, "more"]))
        self.after(echoes.AHEAD_SECONDS)
        self.assertEqual(self.seen[3:], ["worker 2 wrote the same 3 lines as worker 0", ("worker 2", "more")])

    def test_a_repeated_line_is_alike_once_for_each_time(self):
        self.write((0, ["a stall"]), (1, ["a stall", "a stall"]))
        self.after(echoes.AHEAD_SECONDS)
        self.shown((0, ["a stall"]), (1, ["a stall", "a stall"]))

    def test_what_was_said_long_ago_is_shown_again(self):
        self.write((0, TRACE))
        self.now += echoes.RECENT_SECONDS + 1
        self.write((1, TRACE))
        self.shown((0, TRACE), (1, TRACE))

    def test_nothing_is_held_back_at_the_end(self):
        self.write((0, TRACE[:1]), (1, TRACE), (2, TRACE[:1]))
        self.echoes.finish()
        self.shown((0, TRACE[:1]), (1, TRACE), (2, TRACE[:1]))

    def test_few_lines_are_shown_from_each(self):
        self.write((0, TRACE[:2]), (1, TRACE[:2]), (2, TRACE[:2]))
        self.shown((0, TRACE[:2]))
        self.after(echoes.QUIET_SECONDS)
        self.shown((0, TRACE[:2]), (1, TRACE[:2]), (2, TRACE[:2]))
        self.assertIsNone(self.echoes.deadline())

    def test_the_last_lines_of_a_worker_are_its_own_though_they_were_not_shown(self):
        self.write((0, TRACE), (1, TRACE))
        self.echoes.finish()
        self.assertEqual(list(self.workers[1].last), TRACE)

    def test_before_an_unfinished_line_all_that_came_before_is_shown(self):
        self.write((0, TRACE), (1, TRACE[:2]))
        self.echoes.release(self.workers[1])
        self.shown((0, TRACE), (1, TRACE[:2]))

    def test_without_prefixes_every_line_is_shown(self):
        self.echoes.printer.prefix = False
        self.write((0, TRACE), (1, TRACE))
        self.shown((0, TRACE), (1, TRACE))

    def test_nobody_is_named_for_blank_lines_alone(self):
        self.write((0, ["", " "]), (1, ["", " "]))
        self.shown((0, ["", " "]), (1, ["", " "]))


class Plain(unittest.TestCase):
    LOG = "2026-11-24 10:51:4{0}.123 tutti[rank {0}] warning: nothing has moved for 3{0}.0 s; in flight on rank {0}"

    def test_lines_of_the_log_are_alike_but_for_time_and_own_rank(self):
        self.assertEqual(plain(self.LOG.format(1), "worker 1"), plain(self.LOG.format(2), "worker 2"))
        lost = "2026-11-24 10:51:47.123 tutti[rank {}] error: rank {} is lost: its process ended"
        self.assertEqual(plain(lost.format(0, 2), "worker 0"), plain(lost.format(1, 2), "worker 1"))
        self.assertNotEqual(plain(lost.format(0, 1), "worker 0"), plain(lost.format(2, 0), "worker 2"))

    def test_open_mpis_lines_about_a_signal_are_alike_but_for_process_and_address(self):
        line = "[h:{}] [ 3] train(main+0x{})[0x7f{}b3]"
        self.assertEqual(plain(line.format(12, "1f", "aa"), "worker 0"),
                         plain(line.format(345, "1f", "bb"), "worker 1"))

    def test_what_a_program_says_of_ranks_and_times_is_its_own(self):
        self.assertNotEqual(plain("rank 1 took 3.1 s", "worker 1"), plain("rank 2 took 3.2 s", "worker 2"))

    def test_processes_are_named_by_their_kind(self):
        self.assertEqual(names_of(["worker 1"]), "worker 1")
        self.assertEqual(names_of(["worker 0", "worker 2", "server 1", "scheduler"]), "workers 0, 2 and server 1 and "
                         "scheduler")


if __name__ == "__main__":
    unittest.main()
