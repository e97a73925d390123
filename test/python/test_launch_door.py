#!/usr/bin/env python3
"""The socket of the launcher: which processes it accepts, which it turns away, and the cost of that."""
import errno
import json
import os
import pathlib
import resource
import selectors
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

from launcher import contact, door, helper, shim
from launcher.options import UsageError
from launcher.sealed_lines import HELPER, LAUNCHER, NONCE_BYTES, SEAL_BYTES, WELCOME, SealedLines, new_nonce
from link_ends import first_line, welcome
from strangers import call, hello, is_turned_away, send, speak, words_of_strangers

TOKEN = "0123456789abcdef" * 2


class DoorCase(unittest.TestCase):
    def setUp(self):
        self.events = selectors.DefaultSelector()
        self.addCleanup(self.events.close)
        self.admitted = []

    def made(self, addresses=(), workers=3):
        made = door.Door(self.events, TOKEN, workers, addresses, self.admit)
        self.addCleanup(made.close)
        return made

    def admit(self, lines, rank, host):
        self.events.unregister(lines.connection)
        self.addCleanup(lines.connection.close)
        self.admitted.append((rank, host))
        return True

    def serve(self):
        """Handles all events so far."""
        while ready := self.events.select(0):
            for key, _ in ready:
                key.data()

    def call(self, at, words=b""):
        connection = call(at.places[0])
        self.addCleanup(connection.close)
        self.serve()
        speak(connection, words)
        self.serve()
        return connection


class Strangers(DoorCase):
    def test_who_does_not_know_the_token_is_turned_away_unread(self):
        for addresses in ((), ("127.0.0.1",)):
            at = self.made(addresses)
            strangers, _ = words_of_strangers(TOKEN)
            del strangers["nothing"], strangers["TLS"]  # no line yet: they have their time
            for count, (kind, words) in enumerate(strangers.items(), 1):
                with self.subTest(kind, addresses=addresses), mock.patch.object(door, "hello_of") as read:
                    with self.call(at, words) as connection:
                        self.assertTrue(is_turned_away(connection))
                    read.assert_not_called()
                    self.assertEqual(at.turned_away, count)

    def test_of_those_who_know_it_only_the_hello_of_a_worker_is_let_in(self):
        at = self.made()
        _, strangers = words_of_strangers(TOKEN)
        for rank in (3, 10**9):  # not for the door to know
            del strangers[f"rank {rank}"]
        for kind, words in strangers.items():
            with self.subTest(kind):
                self.assertTrue(is_turned_away(self.call(at, words)))
        self.assertEqual((self.admitted, at.turned_away), ([], len(strangers)))

    def test_a_seal_is_compared_in_a_time_that_tells_nothing(self):
        at = self.made()
        for token in (TOKEN, "0" * len(TOKEN)):
            with mock.patch("hmac.compare_digest", return_value=False) as compare:
                self.assertTrue(is_turned_away(self.call(at, hello(token, rank=0, host="h"))))
            compare.assert_called_once()

    def test_nobody_gets_the_nonce_of_another(self):
        at = self.made()
        nonces = {self.call(at).recv(100) for _ in range(100)}
        self.assertEqual({len(nonce) for nonce in nonces}, {33})
        self.assertEqual(len(nonces), 100)

    def test_a_line_that_is_full_and_has_no_end_is_turned_away_though_nothing_follows(self):
        at = self.made()
        words = TOKEN.encode().ljust(door.HELLO_BYTES, b"x")
        connection = self.call(at, words[:-1])
        self.assertEqual(at.turned_away, 0)
        send(connection, words[-1:])
        self.serve()
        self.assertTrue(is_turned_away(connection))

    def test_a_worker_that_is_not_awaited_is_turned_away(self):
        at = self.made()
        with mock.patch.object(at, "admit", return_value=False) as admit:
            self.assertTrue(is_turned_away(self.call(at, hello(TOKEN, rank=7, host="h"))))
        admit.assert_called_once_with(mock.ANY, 7, "h")

    @unittest.skipIf(os.geteuid() != 0, "only root can become another user")
    def test_on_this_machine_another_user_is_turned_away_before_he_can_show_that_he_knows_the_token(self):
        at = self.made()
        child = os.fork()
        if child == 0:
            os.setuid(65534)
            os._exit(len(call(at.places[0]).recv(1)))
        self.events.select(20)
        self.serve()
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertEqual((self.admitted, at.turned_away), ([], 1))

    def test_it_listens_at_the_addresses_it_names_and_at_no_other(self):
        at = self.made(("127.0.0.1", "127.0.0.2"))
        self.assertEqual([listener.getsockname()[0] for listener in at.listeners], ["127.0.0.1", "127.0.0.2"])
        self.assertEqual(self.made().listeners[0].family, socket.AF_UNIX)
        with self.assertRaisesRegex(UsageError, "cannot listen at 192.0.2.1: .*DMLC_INTERFACE"):
            self.made(("192.0.2.1",))


class Workers(DoorCase):
    def test_a_worker_gets_in_also_when_its_words_come_in_pieces(self):
        at = self.made()
        connection = self.call(at)
        words = hello(TOKEN, rank=2, host="h").line(connection)
        for piece in (words[:10], words[10:40], words[40:-1], words[-1:]):
            self.assertEqual(self.admitted, [])
            send(connection, piece)
            self.serve()
        self.assertEqual((self.admitted, at.turned_away), ([(2, "h")], 0))

    @mock.patch.object(door, "ANSWER_SECONDS", 0)
    def test_the_oldest_stranger_makes_room_for_a_worker(self):
        at = self.made()
        at.room = 4
        silent = [self.call(at) for _ in range(10)]
        self.call(at, hello(TOKEN, rank=0, host="h"))
        self.assertEqual((self.admitted, at.turned_away), ([(0, "h")], 7))
        self.assertTrue(all(map(is_turned_away, silent[:7])))
        self.assertEqual(len(at.callers), 3)

    def test_who_has_just_come_keeps_his_place_and_the_next_wait_at_the_door(self):
        at = self.made()
        at.room = 2
        first = [self.call(at) for _ in range(2)]
        waiting = call(at.places[0])
        self.addCleanup(waiting.close)
        self.serve()
        self.assertEqual((len(at.callers), at.turned_away), (2, 0))
        self.assertLessEqual(at.deadline() - time.monotonic(), door.ANSWER_SECONDS)
        speak(first[0], hello(TOKEN, rank=0, host="h"))
        self.serve()
        time.sleep(door.ANSWER_SECONDS)
        at.expire()
        self.serve()
        speak(waiting, hello(TOKEN, rank=1, host="h"))
        self.serve()
        self.assertEqual((self.admitted, at.turned_away), ([(0, "h"), (1, "h")], 0))

    def test_a_stranger_has_his_time_from_the_start_however_slowly_he_talks(self):
        at = self.made()
        connection = self.call(at)
        for number, letter in enumerate(TOKEN, 1):
            now = time.monotonic() + number * door.HELLO_SECONDS / 8
            send(connection, letter.encode())
            with mock.patch.object(door.time, "monotonic", return_value=now):
                self.serve()
                at.expire()
            self.assertEqual(len(at.callers), number < 8)
        self.assertTrue(is_turned_away(connection))
        self.assertIsNone(at.deadline())

    def test_without_a_free_file_the_oldest_stranger_goes_and_else_the_door_rests_a_moment(self):
        at = self.made()
        listener = at.listeners[0]
        oldest = self.call(at)
        none_left = mock.Mock(accept=mock.Mock(side_effect=OSError(errno.EMFILE, "no file left")))
        at.on_knock(none_left)
        self.assertTrue(is_turned_away(oldest))
        self.assertIn(listener, self.events.get_map())
        at.on_knock(none_left)
        self.assertNotIn(listener, self.events.get_map())
        self.assertLessEqual(at.deadline() - time.monotonic(), door.PAUSE_SECONDS)
        self.events.select(at.deadline() - time.monotonic())
        at.expire()
        self.call(at, hello(TOKEN, rank=0, host="h"))
        self.assertEqual(self.admitted, [(0, "h")])

    def test_more_workers_than_files_are_refused_with_what_to_type(self):
        with mock.patch("resource.getrlimit", return_value=(64, 64)):
            with self.assertRaisesRegex(UsageError,
                                        "60 workers need 85 open files here, and 64 are allowed; .*: ulimit -n 1024"):
                self.made(workers=60)
            self.assertEqual(self.made(workers=3).room, 64 - 3 - door.SPARE_FILES)

    def test_strangers_get_little_room_however_many_files_are_allowed(self):
        for most in (1 << 20, resource.RLIM_INFINITY):
            with mock.patch("resource.getrlimit", return_value=(most, most)):
                self.assertLessEqual(door.room_for(3), 256)


class Ports(unittest.TestCase):
    def listening(self, **variables):
        return self.enterContext(shim.listen_for_scheduler("127.0.0.1", variables))

    def test_nobody_else_can_listen_at_the_port_that_is_kept_for_the_scheduler(self):
        ports = {self.listening().getsockname()[1] for _ in range(100)}
        self.assertEqual(len(ports), 100)
        for port in ports:
            for address in ("127.0.0.1", ""):
                with self.assertRaisesRegex(OSError, "in use"), socket.create_server((address, port)):
                    pass

    def test_the_command_gets_the_socket_and_the_helper_keeps_none(self):
        one = shim.Shim.__new__(shim.Shim)
        code = "import socket, sys; print(socket.socket(fileno=int(sys.argv[2])).getsockname()[1])"
        one.command, one.owners, one.ignored, one.listener = [sys.executable, "-c", code], None, (), self.listening()
        port = one.listener.getsockname()[1]
        with tempfile.TemporaryFile() as out, one.started(out, subprocess.DEVNULL) as process:
            self.assertEqual(one.listener.fileno(), -1)
            self.assertEqual(process.wait(20), 0)
            out.seek(0)
            self.assertEqual(int(out.read()), port)
        with socket.create_server(("127.0.0.1", port)):  # once it has ended
            pass

    def test_a_port_that_was_asked_for_is_taken_or_an_error_says_why_not(self):
        port = self.listening().getsockname()[1]
        with self.assertRaisesRegex(shim.CannotBegin, f"DMLC_PS_ROOT_PORT={port}: Address already in use; "):
            self.listening(DMLC_PS_ROOT_PORT=str(port))
        for bad in ("x", "-1", "65536", "1e3", "²"):
            with self.assertRaisesRegex(shim.CannotBegin, "DMLC_PS_ROOT_PORT=.* is not usable; it takes a whole"):
                self.listening(DMLC_PS_ROOT_PORT=bad)
        with socket.create_server(("127.0.0.1", 0)) as free:
            wanted = free.getsockname()[1]
        self.assertEqual(self.listening(DMLC_PS_ROOT_PORT=str(wanted)).getsockname()[1], wanted)


def has_token(connection):
    return welcome(connection, TOKEN)[1]


def lacks_token(connection):
    """A process without the token can do all that a launcher does, except for the seal."""
    nonce = new_nonce()
    connection.sendall(nonce + b"\n")
    nonces = nonce + first_line(connection)[:NONCE_BYTES]
    SealedLines(connection, b"0" * len(TOKEN), nonces, LAUNCHER, HELPER).send(WELCOME)


def echoes(connection):
    """Sends the helper the seal that the helper itself has just made."""
    connection.sendall(new_nonce() + b"\n")
    connection.sendall(first_line(connection)[NONCE_BYTES:NONCE_BYTES + SEAL_BYTES] + WELCOME + b"\n")


def is_no_launcher(connection):
    connection.sendall(b"220 mail.example.org ESMTP\r\n".ljust(NONCE_BYTES + 1))
    return first_line(connection)


class Calling(unittest.TestCase):
    """Tests of the shim's side of the connection."""

    def test_a_host_that_is_silent_is_asked_where_nothing_is_on_its_way_to_it(self):
        with socket.socket() as link:
            contact.notice_death(link)
            of = lambda option: link.getsockopt(socket.IPPROTO_TCP, option)
            asked = of(socket.TCP_KEEPIDLE) + of(socket.TCP_KEEPINTVL) * of(socket.TCP_KEEPCNT)
            self.assertEqual(asked, contact.SILENT_SECONDS)
            self.assertEqual(link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), 1)

    def test_a_host_is_cut_off_where_it_is_silent_with_data_on_its_way_to_it(self):
        for probes, segments, silent, cut_off in ((0, 3, 26_000, True), (7, 0, 26_000, True), (0, 3, 24_000, False),
                                                  (1, 0, 60_000, False)):
            told = struct.pack("3xB4x4II7II", probes, *4 * [0], segments, *7 * [0], silent)
            link = mock.Mock(family=socket.AF_INET, getsockopt=mock.Mock(return_value=told))
            self.assertEqual(contact.is_cut_off(link), cut_off, (probes, segments, silent))

    def test_a_launcher_that_reads_nothing_is_not_cut_off(self):
        with socket.create_server(("127.0.0.1", 0)) as listener, \
                socket.create_connection(listener.getsockname()) as link, listener.accept()[0], \
                mock.patch.object(contact, "SILENT_SECONDS", 0):
            link.setblocking(False)
            with self.assertRaises(BlockingIOError):
                while True:
                    link.send(bytes(1 << 20))
            time.sleep(0.2)
            self.assertFalse(contact.is_cut_off(link))
        with socket.socketpair()[0] as link:
            self.assertFalse(contact.is_cut_off(link))

    def setUp(self):
        self.answering = []

    def answered(self, *answers):
        """A place whose listener gives these answers to one connection after the other, and the lines that it got."""
        listener, place = door.listen_at("127.0.0.1")
        listener.settimeout(20)
        heard = []

        def serve():
            with listener:
                for answer in answers:
                    connection, _ = listener.accept()
                    with connection:
                        heard.append(answer(connection))
        self.answering.append(threading.Thread(target=serve))
        self.answering[-1].start()
        self.addCleanup(self.answering[-1].join)
        return place, heard

    def connect(self, *places):
        contact.connect(list(places), TOKEN.encode(), b"hello").connection.close()
        for thread in self.answering:
            thread.join(20)

    def test_who_is_turned_away_comes_again(self):
        turn_away = lambda _: b""
        place, heard = self.answered(turn_away, turn_away, has_token)
        self.connect(place)
        self.assertEqual(heard, [b"", b"", b"hello"])

    def shim(self):
        """Returns (a shim that runs a command, the lines to it)."""
        listener, place = door.listen_here(f"tutti-test-{os.urandom(8).hex()}")
        listener.settimeout(20)
        self.addCleanup(listener.close)
        told = {"groups": [{"count": 1, "command": ["sh", "-c", "echo up; exec sleep 600"]}],
                "index": ["OMPI_COMM_WORLD_RANK", 0]}
        env = {**os.environ, "TUTTI_LAUNCH_CONTACT": f"{TOKEN}@{place}", "OMPI_COMM_WORLD_RANK": "0"}
        process = subprocess.Popen([sys.executable, "-c", helper.source(), json.dumps(told)], env=env,
                                   stderr=subprocess.PIPE, text=True)
        self.enterContext(process)
        connection = self.enterContext(listener.accept()[0])
        lines, _ = welcome(connection, TOKEN)
        lines.send(b"{}")
        said = []
        while len(said) < 3:
            said += lines.receive()
        self.assertEqual(said[1:], [b'{"threads": 0}', b'{"stream": 1, "lines": ["up"]}'])
        return process, lines

    def test_a_signal_that_ends_the_shim_ends_its_command_in_order_and_is_told(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            process, lines = self.shim()
            process.send_signal(number)
            said = []
            while texts := lines.receive():
                said += map(json.loads, texts)
            process.wait(20)
            self.assertEqual(said, [{"exit": 128 + signal.SIGTERM, "told": True}])

    def test_an_order_that_was_made_up_on_its_way_ends_the_command_and_is_said(self):
        process, lines = self.shim()
        lines.connection.sendall(bytes(SEAL_BYTES) + b"\n")
        self.assertRegex(process.communicate(timeout=20)[1],
                         "from the launcher a line with a wrong seal came: .* made up the line; the command is ended")
        self.assertEqual(process.returncode, 0, "what started it sees success")
        self.assertIsNone(lines.receive())

    def test_only_who_knows_the_token_is_the_launcher(self):
        for other in (lacks_token, echoes, is_no_launcher):
            with self.subTest(other.__name__):
                stranger, told = self.answered(other)
                place, heard = self.answered(has_token)
                self.connect(stranger, place)
                self.assertEqual(heard, [b"hello"])
        self.assertEqual(told, [b""], "what is no launcher is told nothing")

    def test_a_launcher_that_is_not_there_is_an_error_that_names_where_it_was_to_be(self):
        with self.assertRaises(contact.Unreachable) as tried:
            self.connect("127.0.0.1:1", "no-such-socket")
        self.assertRegex(str(tried.exception),
                         "cannot reach the launcher at 127.0.0.1:1: .*no-such-socket: .*DMLC_INTERFACE")


class Deadline(unittest.TestCase):
    def test_a_server_that_has_just_written_its_state_has_time_to_end(self):
        ended = shim.Shim.__new__(shim.Shim)
        ended.wrote, ended.send, ended.end_command = False, mock.Mock(), mock.Mock()
        with mock.patch.object(shim, "lives_below", side_effect=[True, True, False, False]):
            for _ in range(3):
                ended.on_deadline()
            ended.end_command.assert_not_called()
            ended.on_deadline()
        ended.end_command.assert_called_once()
        self.assertEqual(ended.send.call_count, 2)


if __name__ == "__main__":
    unittest.main()
