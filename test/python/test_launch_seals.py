#!/usr/bin/env python3
"""The lines between launcher and helper: the token never travels, and both refuse lines of anybody else."""
import pathlib
import selectors
import socket
import sys
import threading
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

from launcher import contact, door
from launcher.sealed_lines import LINE_BYTES, NONCE_BYTES, SEAL_BYTES, WELCOME, Forged, launchers_end, new_nonce
from link_ends import pair
from strangers import call, is_turned_away

TOKEN = "0123456789abcdef" * 2
HELLO = b'{"rank": 0, "host": "h"}'


def changed(line, at):
    return line[:at] + bytes([line[at] ^ 1]) + line[at + 1:]


class Lines(unittest.TestCase):
    def setUp(self):
        self.launcher, self.helper = self.ends()

    def ends(self):
        made = pair(TOKEN)
        for lines in made:
            self.addCleanup(lines.connection.close)
        return made

    def refused(self, *lines, by=None):
        """Checks that the last of these lines is refused, and the lines before it are accepted."""
        by = by or self.launcher
        for line in lines[:-1]:
            by.opened(line[:-1])
        with self.assertRaises(Forged):
            by.opened(lines[-1][:-1])

    def test_what_one_end_sends_the_other_receives_in_pieces_and_together(self):
        for sender, receiver in (self.ends(), reversed(self.ends())):
            texts = [b"", b"a", b"b" * 100_000]
            data = b"".join(map(sender.sealed, texts))
            receiver.connection.settimeout(20)
            received = []
            for piece in (data[:1], data[1:SEAL_BYTES], data[SEAL_BYTES:70], data[70:]):
                sender.connection.sendall(piece)
                received += receiver.receive()
            while len(received) < len(texts):
                received += receiver.receive()
            self.assertEqual(received, texts)
            sender.connection.close()
            self.assertIsNone(receiver.receive())

    def test_a_line_that_was_changed_anywhere_is_refused(self):
        for at in range(SEAL_BYTES + 4):
            self.launcher, self.helper = self.ends()
            self.refused(changed(self.helper.sealed(b"text"), at))

    def test_lines_that_are_exchanged_repeated_or_left_out_are_refused(self):
        first, second, third = map(self.helper.sealed, (b"same", b"same", b"same"))
        begun = self.launcher.peers.count
        for lines in ([second], [first, first], [first, third], [first, second, first]):
            self.launcher.peers.count = begun
            self.refused(*lines)

    def test_an_end_does_not_take_its_own_lines(self):
        for end in (self.launcher, self.helper):
            self.assertEqual(end.own.count, end.peers.count, "else the number would do it")
            self.refused(end.sealed(b"text"), by=end)

    def test_lines_of_another_connection_are_refused(self):
        _, helper = self.ends()
        self.refused(helper.sealed(b"text"))

    def test_a_seal_that_was_cut_short_is_refused_and_so_is_none(self):
        for count in range(SEAL_BYTES):
            self.launcher, self.helper = self.ends()
            line = self.helper.sealed(b"")
            self.refused(line[:count] + b"\n")

    def test_a_line_without_an_end_is_refused_before_it_takes_much_room(self):
        self.launcher.pending = b"x" * LINE_BYTES
        self.helper.connection.sendall(b"x")
        with self.assertRaisesRegex(Forged, "no end"):
            self.launcher.receive()

    def test_a_first_line_that_was_changed_anywhere_is_refused(self):
        nonce = new_nonce()
        first = contact.helpers_end(None, TOKEN.encode(), nonce, HELLO)[1][:-1]
        self.assertEqual(launchers_end(None, TOKEN.encode(), nonce, first)[1], HELLO)
        for line in [changed(first, at) for at in range(len(first))] + [first[:at] for at in range(len(first))]:
            with self.assertRaises(Forged):
                launchers_end(None, TOKEN.encode(), nonce, line)


class Recorded(unittest.TestCase):
    """Tests with somebody between a helper and the launcher who records all that passes."""

    def setUp(self):
        events = selectors.DefaultSelector()
        self.addCleanup(events.close)
        self.events, self.admitted = events, []
        self.door = door.Door(events, TOKEN, 3, ["127.0.0.1"], self.admit)
        self.addCleanup(self.door.close)

    def admit(self, lines, *_):
        self.events.unregister(lines.connection)
        self.addCleanup(lines.connection.close)
        lines.connection.settimeout(20)
        lines.send(WELCOME)
        self.admitted.append(lines)
        return True

    def serve_until(self, holds):
        while not holds():
            self.assertTrue(self.events.select(20), "nothing comes any more")
            for key, _ in self.events.select(0):
                key.data()

    def relay(self, listener, way, back):
        """Relays one connection to the listener."""
        with listener, listener.accept()[0] as caller, call(self.door.places[0]) as called:
            while True:
                for source, target, heard in ((called, caller, back), (caller, called, way)):
                    source.settimeout(0.01)
                    try:
                        data = source.recv(4096)
                    except TimeoutError:
                        continue
                    if not data:
                        return
                    heard.append(data)
                    target.sendall(data)

    def conversation(self):
        """Returns the bytes of the helper and those of the launcher."""
        listener, place = door.listen_at("127.0.0.1")
        way, back = [], []
        thread = threading.Thread(target=self.relay, args=(listener, way, back))
        thread.start()
        helper = threading.Thread(target=self.talk, args=(place,))
        helper.start()
        self.serve_until(lambda: self.admitted)
        launcher = self.admitted[0]
        self.assertEqual(launcher.receive(), [b"a line"])
        launcher.send(b"an order")
        self.assertEqual(launcher.receive(), [b"the end"])
        for each in (helper, thread):
            each.join(20)
        return b"".join(way), b"".join(back)

    def talk(self, place):
        lines = contact.connect([place], TOKEN.encode(), HELLO)
        lines.send(b"a line")
        lines.receive()
        lines.send(b"the end")
        lines.connection.close()

    def test_the_token_is_not_in_it_and_who_repeats_it_is_turned_away_unread(self):
        way, back = self.conversation()
        for text in (HELLO, b"a line", b"the end"):
            self.assertIn(text, way)
        self.assertIn(b"an order", back)
        for secret in (TOKEN.encode(), bytes.fromhex(TOKEN), self.admitted[0].own.key, self.admitted[0].peers.key):
            for shown in (secret, secret.hex().encode()):
                self.assertNotIn(shown, way + back)
        for words in (way, way[:way.index(b"\n") + 1]):
            with call(self.door.places[0]) as again, mock.patch.object(door, "hello_of") as read:
                again.sendall(words)
                before = self.door.turned_away
                self.serve_until(lambda before=before: self.door.turned_away > before)
                self.assertTrue(is_turned_away(again))
                read.assert_not_called()

    def test_a_helper_does_not_take_a_launcher_for_its_own_that_repeats_it(self):
        _, back = self.conversation()
        ours, theirs = socket.socketpair()
        with ours, theirs:
            ours.sendall(back)
            with self.assertRaisesRegex(contact.TurnedAway, "does not know this job's token"):
                contact.introduce(theirs, TOKEN.encode(), HELLO, contact.time.monotonic() + 20)
            self.assertEqual(len(ours.recv(4096)), NONCE_BYTES + SEAL_BYTES + len(HELLO) + 1)


if __name__ == "__main__":
    unittest.main()
