#!/usr/bin/env python3
"""The messages that the launcher gets from its workers, and its lines about them."""
import contextlib
import functools
import io
import itertools
import json
import pathlib
import selectors
import signal
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

from command_line import printable
from launcher import job, options, output, worker
from launcher.conclusion import conclude, name_unwritten
from launcher.echoes import Echoes
from launcher.output import Printer, as_on_terminal
from launcher.sealed_lines import LINE_BYTES
from launcher.worker import Link, Worker
from link_ends import pair

LOCAL = ["--mode", "mpi", "--launcher", "local"]


def lost(own, rank, why="its process ended", level="error"):
    """The line that tutti logs on a rank that has lost another rank."""
    return f"2026-11-24 10:51:47.123 tutti[rank {own}] {level}: rank {rank} is lost: {why}; 'g' was in flight"


class Links(unittest.TestCase):
    def setUp(self):
        self.connect()

    def connect(self):
        ours, self.shim = pair("0123456789abcdef" * 2)
        ours.connection.setblocking(False)
        self.addCleanup(ours.connection.close)
        self.addCleanup(self.shim.connection.close)
        self.link = Link(ours, Worker(0, "h"))

    def said(self, data):
        self.shim.connection.sendall(data)
        return self.link.read()

    def test_messages_are_read_as_they_come_in_pieces_and_together(self):
        lines, end = ({"stream": 1, "lines": ["a", "\udcff"]}, {"exit": 3, "told": False})
        words = b"".join(self.shim.sealed(json.dumps(message).encode()) for message in (lines, end))
        self.assertEqual(self.link.read(), ([], True))
        self.assertEqual(self.said(words[:10]), ([], True))
        self.assertEqual(self.said(words[10:]), ([lines, end], True))
        self.shim.connection.close()
        self.assertEqual(self.link.read(), ([], False))
        self.assertIn("vanished", self.link.worker.fate())

    def test_what_is_no_message_ends_the_link(self):
        of = lambda **words: json.dumps(words).encode()
        for words in (b"", b"5", b"null", b"[" * 3000, b"\xff", b'"' + b"x" * 5000, b"{}", of(end=True), of(stream=1),
                      of(stream=3, lines=[]), of(stream="1", lines=[]), of(stream=1, lines="a"),
                      of(stream=1, lines=[5]),
                      of(stream=1, lines=["a\nlaunch.py: b"]), of(stream=1, lines=["\ud800"]),
                      of(stream=1, lines=[["a"]]),
                      of(exit=0), of(exit="0", told=False), of(exit=True, told=False), of(exit=256, told=False),
                      of(exit=-1, told=False), of(exit=None, told=False), of(exit=10**300, told=False),
                      of(exit=0, told=0), of(port=0), of(port="1"), of(port=65536), of(port=1, exit=0),
                      of(writes=1), of(writes=False), of(complete=1), of(complete=False), of(waits=1),
                      of(exit=0, told=False, more=1), b'{"exit": 1e0, "told": false}', b'{"exit": NaN, "told": false}'):
            with self.subTest(words):
                self.connect()
                self.assertEqual(self.said(self.shim.sealed(words)), ([], False))
                self.assertIn("no message", self.link.worker.fate())

    def test_a_message_has_an_end(self):
        self.link.lines.pending = b"x" * LINE_BYTES
        self.assertEqual(self.said(b"x"), ([], False))
        self.assertIn("a line came that has no end", self.link.worker.fate())

    def test_a_line_that_was_changed_on_its_way_ends_the_link_unread_and_is_said(self):
        words = self.shim.sealed(b'{"exit": 3, "told": false}').replace(b"3,", b"0,")
        with mock.patch.object(worker, "message_of") as read:
            self.assertEqual(self.said(words), ([], False))
        read.assert_not_called()
        self.assertEqual(self.link.worker.fate(),
                         "was cut off: a line with a wrong seal came: somebody changed, repeated or made up the line")

    def test_what_came_before_is_heard(self):
        end, later = b'{"exit": 0, "told": false}', b'{"port": 1}'
        for bad in (self.shim.sealed(later).replace(b"1", b"2"), b"x" * (LINE_BYTES + 1)):
            with self.subTest(bad[:80]):
                self.connect()
                self.link.lines.pending = self.shim.sealed(end) + bad
                self.assertEqual(self.said(b"x"), ([json.loads(end)], False))
        self.connect()
        self.assertEqual(self.said(self.shim.sealed(end) + self.shim.sealed(b"5") + self.shim.sealed(later)),
                         ([json.loads(end)], False))


class JobCase(unittest.TestCase):
    def made(self, workers=3, *words):
        made = job.Job(options.parse(["-n", str(workers), *LOCAL, *words, "true"]), [])
        made.printer = mock.Mock(prefix=False, begun={}, lines=lambda rank, stream, texts: texts)
        made.echoes = Echoes(made.printer, output.say)
        made.process, made.starter = mock.Mock(returncode=0), mock.Mock(leave_seconds=0)
        self.addCleanup(made.door.close)
        made.workers = {rank: Worker(rank, f"h{rank}") for rank in range(workers)}
        return made

    def outcome(self, heard, *messages):
        """Returns (exit code, the launcher's last lines) after [(rank, line or exit code or (code, told))]."""
        with contextlib.redirect_stderr(io.StringIO()):
            for rank, what in messages:
                if isinstance(what, str):
                    heard.on_message(heard.workers[rank], {"stream": 2, "lines": [what]})
                else:
                    code, told = what if isinstance(what, tuple) else (what, False)
                    heard.on_message(heard.workers[rank], {"exit": code, "told": told})
        with contextlib.redirect_stderr(io.StringIO()) as said:
            return conclude(heard), said.getvalue()


class FirstToFail(JobCase):
    def in_any_order(self, *messages):
        for order in itertools.permutations(messages):
            yield self.outcome(self.made(), *order)

    def test_a_worker_that_unwinds_is_named_though_survivors_end_before_it(self):
        for said in (lambda own: "unwind: key 'g': rank 1 has left the store", lambda own: lost(own, 1),
                     lambda own: "epoch 1/2\r" + lost(own, 1, level="critical") + "\r"):
            for code, text in self.in_any_order((0, said(0)), (2, said(2)), (0, 1), (2, 42), (1, 7)):
                self.assertEqual(code, 7, text)
                self.assertIn("worker 1 on h1 was the first to fail: it ended with exit code 7", text)

    def test_so_it_is_where_servers_say_it(self):
        words = ("train: aborted: push: worker 1 has left the store", "train: aborted: worker 1 has left the store")
        for said in words:
            for order in itertools.permutations(((0, said), (2, said), (0, 1), (2, 42), (1, 7))):
                code, text = self.outcome(self.made(3, "--mode", "ps", "-s", "2"), *order)
                self.assertEqual(code, 7, text)
                self.assertIn("worker 1 on h1 was the first to fail: it ended with exit code 7", text)

    def test_losses_are_followed_to_the_first(self):
        for code, text in self.in_any_order((0, lost(0, 2)), (2, "rank 1 has left the store"), (0, 4), (2, 6), (1, 5)):
            self.assertEqual(code, 5, text)

    def test_of_two_that_lost_each_other_the_one_heard_of_later_is_named(self):
        both = ((0, lost(0, 1)), (1, lost(1, 0)))
        self.assertEqual(self.outcome(self.made(2), *both, (0, 3), (1, 4))[0], 4)
        self.assertEqual(self.outcome(self.made(2), *both, (1, 4), (0, 3))[0], 3)

    def test_one_that_hangs_until_it_is_ended_is_named(self):
        code, text = self.outcome(self.made(), (0, lost(0, 1, "no heartbeat for 30 s")), (0, 1), (1, (143, True)),
                                  (2, (143, True)))
        self.assertEqual(code, 143)
        self.assertIn("worker 1 on h1 was the first to fail: it did not end by itself when the others had lost it, and "
                      "was ended by signal 15 (SIGTERM)", text)

    def test_a_line_of_the_log_outweighs_what_the_program_said_before(self):
        code, text = self.outcome(self.made(), (0, "as if rank 2 has left the store"), (0, lost(0, 1)), (0, 0), (1, 0),
                                  (2, 0))
        self.assertEqual(code, 1, text)
        self.assertIn("the others lost worker 1 on h1, though it ended with exit code 0", text)

    def test_what_a_worker_says_of_losses_fails_no_job_unless_tutti_says_it(self):
        words = ("log of last week: rank 1 is lost: its process ended", "rank 1 is lost: its process ended",
                 "> " + lost(0, 1), "tutti[rank 0] error: rank 1 is lost: x", lost(0, 1, level="info"), lost(2, 1),
                 lost(0, 7), lost(0, "9" * 5000), "key 'g': rank 1 has left the store",
                 lost(0, 1).replace("is lost:", "is lost in thought"))
        for said in words:
            self.assertEqual(self.outcome(self.made(), (0, said), (0, 0), (1, 0), (2, 0)), (0, ""), said)
            if "left" not in said:
                self.assertEqual(self.outcome(self.made(), (0, said), (0, 3), (1, 4))[0], 3, said)
        self.assertEqual(self.outcome(self.made(), (0, lost(0, 1)), (0, 0), (1, 0), (2, 0))[0], 1)

    def test_one_that_left_and_ended_well_is_named_beside_the_first_that_did_not(self):
        code, text = self.outcome(self.made(), (1, 0), (0, "key 'g': rank 1 has left the store"), (0, 3), (2, 4))
        self.assertEqual(code, 3)
        self.assertIn("worker 0 on h0 was the first to fail: it ended with exit code 3. "
                      "It had lost worker 1 on h1, which ended with exit code 0.", text)

    def test_those_that_never_came_to_create_are_told_by_the_log_alone(self):
        words = ("rank 0 has waited 0.5 s (create_timeout, TUTTI_CREATE_SECONDS) for the other ranks in MPI_Init: "
                 "ranks {} have not called create; a rank that is missing may have ended")
        for ranks, silent in (("1, 2", {1, 2}), ("1,,2", {1, 2}), ("1, ", {1})):
            heard = Worker(0, "h")
            heard.hear([words.format(ranks), "> " + lost(0, 1).replace("rank 1 is lost", words.format(ranks))])
            self.assertEqual((heard.lost, heard.silent), (None, set()))
            heard.hear([lost(0, 1, level="critical").replace("rank 1 is lost", words.format(ranks))])
            self.assertEqual((heard.lost, heard.silent), (1, silent))

    def test_a_rank_that_is_taken_or_that_nobody_has_is_not_let_in(self):
        heard, lines = self.made(2), mock.Mock()
        for rank in (0, 1, 2, 1 << 31):
            self.assertFalse(heard.admit(lines, rank, "elsewhere"))
        self.assertEqual([worker.host for worker in heard.workers.values()], ["h0", "h1"])
        lines.send.assert_not_called()

    def test_lines_that_are_missing_behind_an_exit_are_told(self):
        for together in (False, True):
            with self.subTest(together=together):
                self.lose_lines_behind_an_exit(together)

    def lose_lines_behind_an_exit(self, together):
        heard, said = self.made(1), io.StringIO()
        heard.workers = {}
        launcher, helper = pair("0123456789abcdef" * 2)
        with helper.connection, contextlib.redirect_stderr(said):
            launcher.connection.setblocking(False)
            heard.events.register(launcher.connection, selectors.EVENT_READ)
            self.assertTrue(heard.admit(launcher, 0, "h"))
            link, = heard.links
            helper.send(b'{"exit": 0, "told": false}')
            if not together:
                heard.on_link(link)
            helper.connection.sendall(helper.sealed(b'{"stream": 1, "lines": ["a"]}').replace(b'"a"', b'"b"'))
            heard.on_link(link)
        self.assertEqual((heard.links, heard.workers[0].status), (set(), 0))
        self.assertIn("lines of worker 0 on h may be missing: a line with a wrong seal came", said.getvalue())

    def test_a_failure_before_the_others_are_heard_of_gives_them_their_time_too(self):
        heard = self.made(2, "--grace", "7")
        del heard.workers[0]
        with contextlib.redirect_stderr(io.StringIO()) as said:
            heard.on_message(heard.workers[1], {"exit": 5, "told": False})
        self.assertIn("1 more has 7 s to end", said.getvalue())
        self.assertIsNotNone(heard.deadline)


class Signals(JobCase):
    """A worker, a server and the scheduler, whose job has begun."""

    def setUp(self):
        self.heard = self.made(1, "--mode", "ps", "-s", "1", "--grace", "60")
        self.heard.variables = {}
        self.told = []
        for rank, title in enumerate(("worker 0", "server 0", "scheduler")):
            one = Worker(rank, "h", title)
            self.heard.workers[rank] = one
            how = {name: functools.partial(self.note, name, title) for name in ("ask", "order", "kill")}
            self.heard.links.add(mock.Mock(worker=one, **how))
        self.heard.process.poll.return_value = None

    def note(self, how, title, *_):
        self.told.append((how, title))

    def signalled(self, *numbers, at=1000.0):
        with mock.patch.object(job.os, "read", return_value=bytes(numbers)), \
                mock.patch.object(job.time, "monotonic", return_value=at), contextlib.redirect_stderr(io.StringIO()):
            self.heard.on_signal()
        told, self.told = sorted(self.told), []
        return told

    def ended(self, rank):
        self.heard.on_message(self.heard.workers[rank], {"exit": 143, "told": True})
        return sorted(self.told)

    def test_the_workers_have_the_grace_and_the_servers_outlive_them(self):
        self.assertEqual(self.signalled(signal.SIGTERM), [("ask", "worker 0")])
        self.assertEqual(self.heard.deadline, 1060.0)
        self.assertEqual(self.ended(0), [("order", "scheduler"), ("order", "server 0"), ("order", "worker 0")])

    def test_a_second_signal_ends_all_at_once_and_a_third_does_not_wait_for_what_started_them(self):
        self.signalled(signal.SIGINT)
        everyone = [("kill", title) for title in ("scheduler", "server 0", "worker 0")]
        self.assertEqual(self.signalled(signal.SIGTERM, at=1001.0), everyone)
        self.heard.process.terminate.assert_called_once()
        with mock.patch.object(self.heard, "end_now") as end_now:
            self.signalled(signal.SIGTERM, at=1002.0)
        end_now.assert_called_once()

    def test_a_signal_that_comes_twice_because_its_sender_also_signals_the_group_counts_once(self):
        self.assertEqual(self.signalled(signal.SIGTERM, signal.SIGTERM), [("ask", "worker 0")])
        self.assertEqual(self.signalled(signal.SIGTERM, at=1000.1), [])

    def test_before_the_job_has_begun_all_end_at_the_first_signal(self):
        self.heard.variables = None
        self.assertEqual(len(self.signalled(signal.SIGTERM)), 3)

    def test_what_servers_do_that_lose_an_asked_worker_is_no_failure(self):
        self.signalled(signal.SIGTERM)
        with contextlib.redirect_stderr(io.StringIO()):
            self.heard.on_message(self.heard.workers[1], {"exit": 1, "told": False})
        self.assertIsNone(self.heard.failed)


class Words(JobCase):
    FORGED = "\x1b[2J\rlaunch.py: all well\nlaunch.py: really\u2028\u202e\x9b1m\0"

    def test_what_the_launcher_repeats_of_others_is_one_line_each_and_plain(self):
        heard = self.made()
        heard.workers[1] = Worker(1, self.FORGED)
        _, text = self.outcome(heard, (1, self.FORGED.replace("\n", "")), (1, 3))
        self.assertNotRegex(text, "[^\n\x20-\x7e]")
        self.assertIn(
            r"worker 1 on \x1b[2J\rlaunch.py: all well\nlaunch.py: really\u2028\u202e\x9b1m\x00 was the first", text)
        self.assertEqual([line for line in text.splitlines() if line.startswith("launch.py: all well")], [])
        self.assertTrue(text.splitlines()[-1].startswith(r"  \x1b[2J"))

    def test_what_mpirun_says_is_named_so_and_plain(self):
        with mock.patch.object(output, "write") as write:
            Printer(True).note("mpirun", f"Welcome to {self.FORGED}\r")
        line, = write.call_args.args[1]
        self.assertRegex(line, r"^mpirun: Welcome to [\x20-\x7e]*$")

    def test_lines_of_what_starts_the_processes_that_come_in_pieces_are_put_together(self):
        heard, said = self.made(), []
        heard.printer.note = lambda _, text: said.append(text)
        pieces = [b"one\ntw", b"o\n\xff", b""]
        with mock.patch("os.read", side_effect=pieces), mock.patch.object(heard, "events"):
            for _ in pieces:
                heard.on_starter()
        self.assertEqual(said, ["one", "two", "\udcff"])

    def test_text_from_elsewhere_is_printable_and_has_a_length(self):
        self.assertEqual(printable("h0: 5 µs, 日本\t\\n"), "h0: 5 µs, 日本\t\\n")
        self.assertEqual(printable("a\x1bb\r\n\x7f\u200b\udcff\ud800"), r"a\x1bb\r\n\x7f\u200b\xff\ud800")
        self.assertLess(len(printable("x" * 100_000)), 1000)
        self.assertEqual(Worker(0, "h\x1b[2J\n").name(), r"worker 0 on h\x1b[2J\n")
        self.assertLess(len(Worker(0, "h" * 4000).name()), 200)
        cut = printable("x" * 300 + "y" * 700, 90)
        self.assertEqual(cut, "x" * 60 + " [... 910 characters ...] " + "y" * 30)

    def test_the_number_of_strangers_is_said_once_before_who_failed(self):
        heard = self.made()
        heard.door.turned_away, heard.door.first_origin = 1234, "10.0.0.9"
        with contextlib.redirect_stderr(io.StringIO()) as said, mock.patch.object(sys, "argv", ["x/tutti-launch"]):
            heard.failed = heard.workers[0]
            conclude(heard)
        first, second = said.getvalue().splitlines()
        self.assertEqual(first, "tutti-launch: 1,234 connections were turned away, because they did not prove in time "
                                "that they know this job's token; the first came from 10.0.0.9")
        self.assertIn("worker 0", second)


class Reluctant(io.RawIOBase):
    """A file that takes a few bytes at a time, as an unbuffered file may."""

    def __init__(self):
        super().__init__()
        self.taken = b""

    def write(self, data):
        self.taken += bytes(data[:5])
        return len(data[:5])


class Lines(unittest.TestCase):
    def test_a_file_that_takes_a_part_gets_the_rest_too(self):
        file = mock.Mock(buffer=Reluctant())
        output.write(file, ["a line of the first", "and one of the second worker"])
        self.assertEqual(file.buffer.taken, b"a line of the first\nand one of the second worker\n")

    def printed(self, is_terminal, *texts):
        stream = mock.Mock(isatty=lambda: is_terminal)
        with mock.patch.object(output, "write") as write, mock.patch("sys.stdout", stream):
            Printer(True).lines("worker 1", 1, texts)
        return [line.removeprefix("[worker 1] ") for line in write.call_args.args[1]]

    def test_on_a_terminal_a_workers_own_colours_pass_through(self):
        self.assertEqual(self.printed(True, "\x1b[32mok\x1b[0m \udcff"), ["\x1b[32mok\x1b[0m \udcff"])

    def test_elsewhere_what_only_a_terminal_understands_is_left_out(self):
        for text in ("\x1b[32mEpoch 0\x1b[0m", "step 1\x1b[K\r\x1b[KEpoch 0", "\x1b]0;a title\x07Epoch 0",
                     "\x1b7Epoch 0", "\x1b]8;;http://x\x1b\\Epoch 0", "\x1b(BEpoch 0\x1b[?25h", "Epoch 0\x1b[38;5;1m"):
            self.assertEqual(self.printed(False, text), ["Epoch 0"], repr(text))
        self.assertEqual(self.printed(False, "[1] a\tb \udcff 5 µs \x1b"), ["[1] a\tb \udcff 5 µs \x1b"])

    def test_a_progress_line_shows_its_last_state(self):
        self.assertEqual([as_on_terminal(t) for t in ("a", "a\r", "10 %\r90 %", "10 %\r90 %\r", "")],
                         ["a", "a", "90 %", "90 %", ""])


class LastStates(unittest.TestCase):
    def unwritten(self, status, lost=None, variables={}, durable="off"):
        """Whether the launcher says that the last state of server 0, which ended with this status, may be missing."""
        words = ["-n", "1", "-s", "1", "--launcher", "local", "--server-state", "/kept", "--durable", durable, "true"]
        ended = job.Job(options.parse(words), [])
        self.addCleanup(ended.door.close)
        ended.variables = variables
        ended.workers[1] = Worker(1, "h", "server 0")
        ended.workers[1].status, ended.workers[1].lost = status, lost
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            found = name_unwritten(ended)
        self.assertEqual(found, "server 0 on h ended before it had written its state: /kept may have an earlier state"
                         in said.getvalue())
        return found

    def test_a_server_that_was_killed_or_could_not_write_has_not_left_it(self):
        for status, lost in ((128 + 9, None), (128 + 9, 0), (1, None), (None, None)):
            with self.subTest(status=status, lost=lost):
                self.assertTrue(self.unwritten(status, lost))

    def test_one_that_ended_in_order_or_lost_another_or_never_began_has(self):
        for status, lost in ((0, None), (128 + 15, None), (1, 0), (2, None)):
            with self.subTest(status=status, lost=lost):
                self.assertFalse(self.unwritten(status, lost))
        self.assertFalse(self.unwritten(None, variables=None))

    def test_a_durable_one_has_it_all_the_time(self):
        self.assertFalse(self.unwritten(128 + 9, durable="each"))


if __name__ == "__main__":
    unittest.main()
