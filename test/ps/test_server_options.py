#!/usr/bin/env python3
"""Tests what tutti-server takes from its command line.

    test_server_options.py TUTTI_SERVER STEPS
"""
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

from processes import Process, free_port

SERVER, STEPS = sys.argv[1:3]
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith(("DMLC_", "PS_", "TUTTI_"))}
OPTIONS = {"--role": "DMLC_ROLE", "--root-uri": "DMLC_PS_ROOT_URI", "--root-port": "DMLC_PS_ROOT_PORT",
           "--num-worker": "DMLC_NUM_WORKER", "--num-server": "DMLC_NUM_SERVER", "--rank": "DMLC_RANK",
           "--listen-fd": "TUTTI_LISTEN_FD"}
OTHER = 65534


class JobCase(unittest.TestCase):
    def setUp(self):
        self.home = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def start(self, title, words, **env):
        one = Process(title, words, {**PLAIN, "HOME": str(self.home), "TUTTI_CREATE_SECONDS": "20", "PS_VERBOSE": "1",
                                     **env})
        self.addCleanup(one.process.stdout.close)
        self.addCleanup(one.kill)
        return one


class Place(JobCase):
    def test_servers_find_their_job_by_options_alone(self):
        place = {"--root-uri": "127.0.0.1", "--root-port": str(free_port()), "--num-worker": "1", "--num-server": "2"}
        words = [word for option in place.items() for word in option]
        # Each server's rank is the other way round than their starts.
        servers = {rank: self.start(f"server {rank}", [SERVER, "--role=server", f"--rank={rank}", *words])
                   for rank in (1, 0)}
        # If both give the same value, they do not contradict each other.
        scheduler = self.start("scheduler", [SERVER, "--role", "scheduler", *words], DMLC_ROLE="scheduler")
        worker = self.start("worker", [STEPS, "dist_sync", "mixed", 2, 10], DMLC_ROLE="worker",
                            **{OPTIONS[option]: value for option, value in place.items()})
        for one in (worker, scheduler, *servers.values()):
            self.assertEqual(one.end(), 0, one)
        self.assertIn("all values were right", worker.text)
        for rank, server in servers.items():
            self.assertIn(f"server {rank} is connected to worker 0", server.text)


    def test_the_scheduler_takes_over_a_socket_that_listens_already(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            os.set_inheritable(listener.fileno(), True)
            port = str(listener.getsockname()[1])
            place = ["--root-uri", "127.0.0.1", "--root-port", port, "--num-worker", "1", "--num-server", "1"]
            worker = self.start("worker", [STEPS, "dist_sync", "mixed", 2, 10], DMLC_NUM_WORKER="1",
                                DMLC_NUM_SERVER="1", DMLC_PS_ROOT_URI="127.0.0.1", DMLC_PS_ROOT_PORT=port)
            server = self.start("server", [SERVER, "--role", "server", *place])
            scheduler = subprocess.Popen([SERVER, "--role", "scheduler", *place, "--listen-fd",
                                          str(listener.fileno())], env={**PLAIN, "HOME": str(self.home)},
                                         pass_fds=[listener.fileno()])
        self.assertEqual([one.wait(30) if one is scheduler else one.end() for one in (scheduler, server, worker)],
                         [0, 0, 0], f"{server}{worker}")
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", int(port)))

    def test_another_user_gets_into_no_job_though_nobody_gave_it_a_key(self):
        if os.geteuid() != 0 or not shutil.which("setpriv"):
            self.skipTest("only root can play another user")
        as_other = ["setpriv", f"--reuid={OTHER}", "--clear-groups"]
        theirs = self.home / "theirs"
        theirs.mkdir()
        self.home.chmod(0o755)
        os.chown(theirs, OTHER, OTHER)
        place = {"DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": str(free_port()), "DMLC_NUM_WORKER": "1",
                 "DMLC_NUM_SERVER": "1"}
        steps = [STEPS, "dist_sync", "mixed", 2, 10]
        scheduler, server = (self.start(role, [SERVER], DMLC_ROLE=role, **place) for role in ("scheduler", "server"))
        stranger = self.start("stranger", [*as_other, *steps], HOME=str(theirs),
                              **{**place, "TUTTI_CREATE_SECONDS": "2"})
        self.assertNotEqual(stranger.end(), 0)
        self.assertIn("a process that does not know the job's key listens there", stranger.text)
        # Nor with the home of the user whose job it is.
        stranger = self.start("stranger", [*as_other, *steps], **place)
        self.assertNotEqual(stranger.end(), 0)
        self.assertIn("Set TUTTI_JOB_KEY for all processes of the job", stranger.text)
        worker = self.start("worker", steps, **place)
        self.assertEqual([one.end() for one in (worker, server, scheduler)], [0, 0, 0], str(worker))
        self.assertRegex(scheduler.text, "the job has no TUTTI_JOB_KEY: .* only processes of this user")


class Misuse(unittest.TestCase):
    def said(self, *words, **env):
        done = subprocess.run([SERVER, *words], env={**PLAIN, **env}, text=True, capture_output=True, timeout=30,
                              check=False)
        self.assertEqual(done.returncode, 2, done.stderr)
        return done.stderr

    def test_an_option_that_contradicts_its_variable_is_refused(self):
        for option, variable in OPTIONS.items():
            with self.subTest(option):
                self.assertIn(f"{option} b and {variable}=a contradict each other",
                              self.said(option, "b", **{variable: "a"}))
        self.assertIn("--rank 2 and DMLC_RANK=1 contradict each other", self.said("--rank", "1", "--rank=2"))

    def test_a_misspelt_option_suggests_the_right_one(self):
        for option in (*OPTIONS, "--state", "--durable", "--restore", "--journal-bytes"):
            with self.subTest(option):
                misspelt = option[:-1]
                self.assertIn(f"unknown option {misspelt}, did you mean '{option}'?", self.said(misspelt, "x"))
        self.assertIn("unknown option scheduler; see --help", self.said("scheduler"))

    def test_a_socket_that_is_none_or_for_another_role_is_refused(self):
        place = {"DMLC_PS_ROOT_URI": "127.0.0.1", "DMLC_PS_ROOT_PORT": "9000", "DMLC_NUM_WORKER": "1",
                 "DMLC_NUM_SERVER": "1", "TUTTI_JOB_KEY": "5a" * 31 + "5b"}
        self.assertIn("descriptor 1000 is no TCP socket that listens",
                      self.said("--role", "scheduler", "--listen-fd", "1000", **place))
        self.assertIn("is only for the scheduler", self.said("--role", "server", "--listen-fd", "1000", **place))

    def test_an_option_needs_something_behind_it(self):
        for option in OPTIONS:
            self.assertIn(f"{option} needs a value behind it", self.said(option))

    def test_help_names_every_option_beside_its_variable(self):
        said = subprocess.run([SERVER, "--help"], text=True, capture_output=True, timeout=30, check=True).stdout
        for option, variable in OPTIONS.items():
            self.assertRegex(said, rf"{variable} +{option} [A-Z]+: ")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
