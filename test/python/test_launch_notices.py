#!/usr/bin/env python3
"""The launcher and its helpers tell waiting processes which others have ended."""
import contextlib
import io
import json
import os
import pathlib
import selectors
import socket
import subprocess
import sys
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

from launcher import job, notices, options
from launcher.worker import Link, Worker
from link_ends import pair

JOB = {"DMLC_PS_ROOT_URI": "10.0.0.1", "DMLC_PS_ROOT_PORT": "9000"}
ENDED = [["worker 1", "worker 1 on h1 ended with exit code 3"]]
PACKET = b"worker 1\nworker 1 on h1 ended with exit code 3"


class Helper(unittest.TestCase):
    def setUp(self):
        self.enterContext(mock.patch.dict(os.environ, JOB))
        os.environ.pop("PMIX_NAMESPACE", None)
        self.events = self.enterContext(selectors.DefaultSelector())
        self.sent = []
        self.notices = notices.Notices(self.events, lambda **message: self.sent.append(message))
        self.addCleanup(self.notices.listener.close)
        self.addCleanup(lambda: [one.close() for one in self.notices.waiting])

    def serve(self):
        while ready := self.events.select(0):
            for key, _ in ready:
                key.data()

    def process(self, name=b"10.0.0.1:9000"):
        """A waiting process that has named this job."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(connection.close)
        connection.connect("\0" + os.environ[notices.NOTICES_VARIABLE])
        connection.settimeout(5)
        connection.send(name)
        self.serve()
        return connection

    def test_it_asks_the_launcher_as_long_as_a_process_waits_and_passes_on_what_that_says(self):
        first, second = self.process(), self.process()
        self.notices.tell(ENDED)
        self.assertEqual([first.recv(100), second.recv(100)], [PACKET, PACKET])
        first.close()
        self.serve()
        self.assertEqual(self.sent, [{"waits": True}, {"waits": True}])
        second.close()
        self.serve()
        self.assertEqual(self.sent[2:], [{"waits": False}])

    def test_a_process_of_another_job_that_the_command_started_hears_nothing(self):
        stranger = self.process(b"10.0.0.1:9001")
        self.notices.tell(ENDED)
        self.assertEqual(stranger.recv(100), b"")
        self.assertEqual(self.sent, [])

    def test_the_scheduler_tells_that_all_have_come(self):
        scheduler = self.process()
        scheduler.send(b"complete")
        self.serve()
        self.assertEqual(self.sent, [{"waits": True}, {"complete": True}])

    def test_a_process_that_does_not_read_or_says_something_else_holds_up_nobody(self):
        deaf, odd, good = self.process(), self.process(), self.process()
        odd.send(b"x" * 5000)
        self.serve()
        self.assertEqual(odd.recv(100), b"")
        for _ in range(3):
            self.notices.tell(ENDED * 300)
            self.assertEqual(good.recv(100), PACKET)
        self.assertEqual(deaf.recv(100), PACKET)

    @unittest.skipUnless(os.geteuid() == 0, "only root can be another user")
    def test_another_users_process_hears_nothing(self):
        code = ("import os, socket\nos.setuid(65534)\n"
                "with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as one:\n"
                "    one.connect('\\0' + os.environ['TUTTI_END_NOTICES'])\n    print('up', flush=True)\n"
                "    print(one.recv(100))\n")
        with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other:
            self.assertEqual(other.stdout.readline(), "up\n")
            self.serve()
            self.notices.tell(ENDED)
            self.assertEqual(other.stdout.readline(), "b''\n")
        self.assertEqual(self.sent, [])


class Launcher(unittest.TestCase):
    def setUp(self):
        self.made = job.Job(options.parse(["-n", "3", "-s", "1", "--launcher", "local", "true"]), [])
        self.addCleanup(self.made.door.close)
        self.made.printer, self.made.process = mock.Mock(), mock.Mock(returncode=None)
        self.made.variables = {}
        self.shims = {}
        for rank in range(5):
            ours, self.shims[rank] = pair("0123456789abcdef" * 2)
            self.addCleanup(self.shims[rank].connection.close)
            self.addCleanup(ours.connection.close)
            self.shims[rank].connection.setblocking(False)
            self.made.workers[rank] = Worker(rank, f"h{rank}", self.made.request.title(rank))
            link = Link(ours, self.made.workers[rank])
            self.made.links.add(link)
            self.made.events.register(ours.connection, selectors.EVENT_READ, lambda link=link: self.made.on_link(link))

    def say(self, rank, **message):
        self.shims[rank].send(json.dumps(message).encode())
        with contextlib.redirect_stderr(io.StringIO()):
            while ready := [key for key, _ in self.made.events.select(0) if key.fileobj is not self.made.wake]:
                for key in ready:
                    key.data()

    def heard(self, rank):
        return [json.loads(line) if line else "end" for line in self.shims[rank].receive()]

    def test_a_process_that_waits_hears_who_has_ended_and_who_ends_with_whatever_exit_code(self):
        self.say(2, exit=0, told=False)
        self.say(0, waits=True)
        self.say(1, exit=137, told=False)
        first = ["worker 2", "worker 2 on h2 ended with exit code 0"]
        self.assertEqual(self.heard(0), [
            {"ended": [first]},
            {"ended": [first, ["worker 1", "worker 1 on h1 was ended by signal 9 (SIGKILL), exit code 137"]]}])
        self.assertEqual(self.heard(3), [])

    def test_a_process_that_begins_to_wait_again_hears_of_the_first_end_before_what_followed_from_it(self):
        self.say(0, waits=True)
        self.say(1, exit=2, told=False)  # its helper passes that on to nobody: the process has just ended one wait
        self.heard(0)
        self.say(2, exit=1, told=False)
        titles = [title for message in self.heard(0) for title, _ in message["ended"]]
        self.assertEqual(titles, ["worker 1", "worker 2"])

    def test_a_process_that_waits_no_more_hears_nothing(self):
        self.say(0, waits=True)
        self.say(0, waits=False)
        self.say(1, exit=3, told=False)
        self.assertEqual(self.heard(0), [])

    def test_servers_have_no_grace_until_all_have_come_to_the_scheduler(self):
        for is_complete in (False, True):
            with self.subTest(is_complete=is_complete):
                self.setUp()
                if is_complete:
                    self.say(4, complete=True)
                self.say(1, exit=3, told=False)
                self.assertEqual(self.made.dismiss_by is None, is_complete)
                self.assertGreater(self.made.deadline, (self.made.dismiss_by or 0) + 20)

    def test_only_the_scheduler_knows_that_all_have_come(self):
        self.say(0, complete=True)
        self.say(1, exit=3, told=False)
        self.made.dismiss_by = 0
        with contextlib.redirect_stderr(io.StringIO()):
            self.made.on_time()
        self.assertEqual([self.heard(rank) for rank in (0, 3, 4)], [[], ["end"], ["end"]])

    def test_those_that_the_scheduler_waits_for_in_vain_began_it(self):
        said = ("2026-11-27 23:41:38.032 tutti error: the scheduler gave up waiting for worker 1, server 0: 2 of 3 "
                "workers and 0 of 1 servers have come")
        one = Worker(0, "h0", "worker 0", self.made.request.numbers())
        one.hear([said])
        self.assertEqual((one.lost, one.silent), (1, {1, 3}))


if __name__ == "__main__":
    unittest.main()
