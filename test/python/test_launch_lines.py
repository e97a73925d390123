#!/usr/bin/env python3
"""Lines of a command's output on their way to the user: long lines, and unfinished lines."""
import os
import pathlib
import select
import sys
import tempfile
import time
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

from launcher import lines, output
from launcher.output import Printer
from launcher.worker import Worker, message_of, parsed
from launching import LOCAL, LaunchCase


class Passing(unittest.TestCase):
    """Tests of the way from a command's stream to a worker's lines."""

    def setUp(self):
        self.now, self.worker = 1000.0, Worker(0, "h")
        self.enterContext(mock.patch.object(lines.time, "monotonic", lambda: self.now))
        self.sent, self.whole, self.shown = [], [], []
        self.stream = lines.Lines(1, self.receive)

    def receive(self, stream, lines, **more):
        self.sent.append(lines)
        whole, rest = self.worker.joined(stream, lines, "open" in more)
        self.whole += whole
        if more.get("open") == "pause":
            self.shown.append(rest)

    def after(self, seconds):
        self.now += seconds
        self.stream.pause()

    def test_what_is_there_after_a_pause_is_passed_on_and_the_line_is_whole_at_its_end(self):
        self.stream.take(b"Loading model ... ")
        self.after(0.19)
        self.assertEqual(self.sent, [])
        self.after(0.02)
        self.assertEqual(self.shown, ["Loading model ... "])
        self.stream.take(b"done\nnext\n")
        self.assertEqual(self.whole, ["Loading model ... done", "next"])

    def test_a_character_is_passed_on_whole(self):
        for text in ("5 µ", "5 €", "5 😀"):
            data = text.encode()
            for cut in range(3, len(data)):
                self.shown.clear()
                self.stream.take(data[:cut])
                self.after(1)
                self.assertEqual(self.shown, ["5 "], data[:cut])
                self.stream.take(data[cut:])
                self.after(1)
                self.assertEqual(self.shown[-1], text)
                self.stream.take(b"\n")
                self.assertEqual(self.whole.pop(), text)

    def test_bytes_that_are_no_characters_wait_for_the_end_at_most(self):
        for data in (b"a\xff", b"a\xc3", b"\x80\x80\x80\x80", b"\xf0\x9f\x98"):
            self.stream.take(data)
            self.after(1)
            self.stream.take(b"\n")
            self.assertEqual(self.whole.pop().encode("utf-8", "surrogateescape"), data)

    def test_a_long_line_arrives_whole_in_messages_of_bounded_length(self):
        data = b"\xff" * 1_000_000
        for at in range(0, len(data), 65536):
            self.stream.take(data[at:at + 65536])
        self.assertEqual(self.shown, [], "it has not come to a pause")
        self.stream.take(b"\n")
        self.assertEqual(self.whole, ["\udcff" * 1_000_000])
        self.assertLess(max(len(text) for texts in self.sent for text in texts), 150_000)

    def test_a_line_without_an_end_takes_no_more_than_so_much_memory(self):
        with mock.patch("launcher.worker.LONGEST_LINE", 200_000):
            for _ in range(10):
                self.stream.take(b"x" * 65536)
            self.assertEqual(len(self.whole), 2)

    def test_the_end_of_the_stream_ends_its_line(self):
        self.stream.take(b"unfinished")
        self.after(1)
        self.stream.take(b"")
        self.assertEqual(self.whole, ["unfinished"])
        self.stream.take(b"")
        self.assertEqual(self.whole, ["unfinished"])

    def test_only_such_messages_are_understood(self):
        for text, good in (('{"stream": 1, "lines": ["a"], "open": "pause"}', True),
                           ('{"stream": 1, "lines": ["a"], "open": "more"}', True),
                           ('{"stream": 1, "lines": ["a"], "open": true}', False),
                           ('{"stream": 1, "lines": [], "open": "more"}', False),
                           ('{"node": "a boot 4"}', True), ('{"node": 4}', False), ('{"node": null}', False),
                           ('{"threads": 4}', True), ('{"threads": -1}', False), ('{"threads": "4"}', False),
                           ('{"unable": true}', True), ('{"unable": false}', False), ('{"unable": 1}', False)):
            self.assertEqual(message_of(text.encode()), parsed(text.encode()) if good else None, text)


class Screen:
    """A file that claims to be a terminal, or not to be one."""

    def __init__(self, is_terminal):
        self.buffer = tempfile.TemporaryFile()
        self.fileno, self.isatty = self.buffer.fileno, lambda: is_terminal

    def text(self):
        self.buffer.seek(0)
        return self.buffer.read().decode()


class Showing(unittest.TestCase):
    def shown(self, is_terminal, *steps, prefix=True):
        """The output on a screen for [(worker, text so far) or (worker, whole line, anything) or seconds]."""
        screen, now = Screen(is_terminal), 1000.0
        printer = Printer(prefix)
        with screen.buffer, mock.patch("sys.stdout", screen), mock.patch("sys.stderr", screen), \
                mock.patch.object(output.time, "monotonic", lambda: now):
            for step in steps:
                if isinstance(step, float):
                    now += step
                elif len(step) == 3:
                    printer.lines(f"worker {step[0]}", 1, [step[1]])
                else:
                    printer.unfinished(f"worker {step[0]}", 1, step[1])
            output.end_unfinished(screen)
            return screen.text()

    def test_a_line_goes_on_where_it_stands(self):
        for is_terminal in (True, False):
            said = self.shown(is_terminal, (0, "Loading"), (0, "Loading model"), (0, "Loading model: done", "end"))
            self.assertEqual(said, "[worker 0] Loading model: done\n")
        self.assertEqual(self.shown(False, (0, "a"), (0, "ab", "end"), prefix=False), "ab\n")

    def test_anothers_line_ends_it_and_it_comes_again_from_its_start(self):
        for is_terminal in (True, False):
            said = self.shown(is_terminal, (0, "Loading"), (1, "ready", "end"), (0, "Loading: done", "end"))
            self.assertEqual(said, "[worker 0] Loading\n[worker 1] ready\n[worker 0] Loading: done\n")

    def test_a_progress_bar_moves_in_place_on_a_terminal_with_its_worker_in_front(self):
        said = self.shown(True, (0, "10 %"), (0, "10 %\r20 %"), (0, "10 %\r20 %\r30 %\r", "end"))
        self.assertEqual(said, "[worker 0] 10 %\r[worker 0] 20 %\r[worker 0] 30 %\n")

    def test_elsewhere_it_is_shown_now_and_then(self):
        said = self.shown(False, (0, "10 %"), (0, "10 %\r20 %"), 11.0, (0, "10 %\r20 %\r30 %"), (0, "40 %\r50 %", True))
        self.assertEqual(said, "[worker 0] 10 %\n[worker 0] 30 %\n[worker 0] 50 %\n")

    def test_two_progress_bars_take_turns_of_some_seconds(self):
        said = self.shown(True, (0, "1 %"), (1, "2 %"), (0, "1 %\r3 %"), (1, "2 %\r4 %"), 11.0, (0, "1 %\r3 %\r5 %"))
        self.assertEqual(said, "[worker 0] 1 %\n[worker 1] 2 %\r[worker 1] 4 %\n[worker 0] 5 %\n")

    def test_what_is_left_out_of_a_file_is_left_out_of_a_part_too(self):
        said = self.shown(False, (0, "\x1b[3"), (0, "\x1b[32mok"), (0, "\x1b[32mok\x1b[0m then", "end"))
        self.assertEqual(said, "[worker 0] ok then\n")

    def test_a_line_of_the_launchers_own_begins_at_the_start(self):
        screen = Screen(True)
        with screen.buffer, mock.patch("sys.stdout", screen), mock.patch("sys.stderr", screen):
            Printer(True).unfinished("worker 0", 1, "Loading")
            with mock.patch("builtins.print", lambda text, **_: screen.buffer.write(text.encode() + b"\n")):
                output.say("hello")
            self.assertRegex(screen.text(), r"^\[worker 0\] Loading\n\S+: hello\n$")


class Launched(LaunchCase):
    def heard(self, process, text):
        """Reads until this text has come."""
        said, deadline = "", time.monotonic() + 30
        while text not in said:
            self.assertTrue(select.select([process.stdout], [], [], max(0.0, deadline - time.monotonic()))[0], said)
            said += os.read(process.stdout.fileno(), 65536).decode()
        return said

    def test_an_unfinished_line_is_seen_while_the_program_runs(self):
        process = self.start("-n", 1, "-s", 1, *LOCAL, "--no-prefix", "printf 'Loading model ... '; sleep 600",
                             PATH=f"{self.with_server()}:{os.environ['PATH']}")
        self.heard(process, "Loading model ... ")
        process.terminate()
        process.communicate()

    def test_a_line_of_a_million_characters_arrives_whole(self):
        code, out, err = self.launch("-n", 2, "-s", 1, *LOCAL, sys.executable, "-c", "print('x' * 1000000)",
                                     PATH=f"{self.with_server()}:{os.environ['PATH']}")
        self.assertEqual(code, 0, err)
        self.assertEqual(sorted(out.splitlines()), [f"[worker {rank}] " + "x" * 1_000_000 for rank in (0, 1)])

    def with_server(self):
        """A folder with a tutti-server that only waits, because these workers have no store."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (folder / "tutti-server").write_text("#!/bin/sh\nexec sleep 600\n")
        (folder / "tutti-server").chmod(0o755)
        return folder


if __name__ == "__main__":
    unittest.main()
