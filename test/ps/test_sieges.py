#!/usr/bin/env python3
"""Connections that say nothing, as many as there is room for, neither stop a job nor keep it from beginning.

    test_sieges.py TUTTI_SERVER STEPS
"""
import os
import pathlib
import resource
import select
import socket
import sys
import tempfile
import threading
import time
import unittest

from processes import Job

SERVER, STEPS = sys.argv[1:3]
#: At each listener, and what scheduler and server may have open.
SILENT, FILES = 512, 128


def inodes_of(pid):
    """The inodes of a process's sockets."""
    links = (os.readlink(file) for file in pathlib.Path("/proc", str(pid), "fd").iterdir())
    return {link[len("socket:["):-1] for link in links if link.startswith("socket:[")}


def listeners_of(pid):
    """(family, address) of each."""
    inodes, found = inodes_of(pid), []
    for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in inodes:
            found.append((socket.AF_INET, ("127.0.0.1", int(fields[1].split(":")[1], 16))))
    for line in pathlib.Path("/proc/net/unix").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "00010000" and fields[6] in inodes:
            found.append((socket.AF_UNIX, "\0" + fields[7][1:]))
    return found


class Siege:
    """So many connections to each listener. Whoever is turned away comes again."""

    def __init__(self, listeners):
        self.listeners, self.held, self.poll, self.returned = listeners, {}, select.poll(), 0
        self.over = threading.Event()
        for listener in listeners:
            for _ in range(SILENT):
                self.call(listener)
        self.thread = threading.Thread(target=self.stay)
        self.thread.start()

    def call(self, listener):
        one = socket.socket(listener[0])
        one.setblocking(False)
        try:
            one.connect(listener[1])
        except BlockingIOError:
            pass
        except OSError:  # the process has ended
            one.close()
            return
        self.held[one.fileno()] = one, listener
        self.poll.register(one, select.POLLIN)

    def stay(self):
        while not self.over.wait(0.02):
            for number, _ in self.poll.poll(0):
                self.poll.unregister(number)
                one, listener = self.held.pop(number)
                one.close()
                self.call(listener)
                self.returned += 1

    def end(self):
        self.over.set()
        self.thread.join()
        for one, _ in self.held.values():
            one.close()


class Sieges(unittest.TestCase):
    def besieged(self, has_begun):
        """A job whose scheduler and server are besieged before its workers come, or in the middle of it."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        job = Job(["sh", "-c", f'ulimit -n {FILES}; exec "$0" "$@"', SERVER], STEPS, workers=2)
        self.addCleanup(job.close)
        server = job.start_server(0, "--state", folder, "--durable", "each", PS_VERBOSE="1")
        self.assertTrue(server.wait_for("is connected to the scheduler"), str(job))
        workers = job.start_workers("dist_sync", "mixed", 8, 2_000_000) if has_begun else []
        for worker in workers:
            self.assertTrue(worker.wait_for("step 0"), str(job))
        # The server listens for workers only after it is connected to the scheduler.
        deadline = time.monotonic() + 30
        while len(listeners := [*listeners_of(job.scheduler.process.pid), *listeners_of(server.process.pid)]) < 3:
            self.assertLess(time.monotonic(), deadline, str(job))
            time.sleep(0.01)
        siege = Siege(listeners)
        self.addCleanup(siege.end)
        self.assertEqual(len(siege.listeners), 3)
        workers = workers or job.start_workers("dist_sync", "mixed", 8, 2_000_000)
        self.assertEqual([worker.end(120) for worker in workers], [0, 0], str(job))
        self.assertEqual([one.end(30) for one in (job.scheduler, server)], [0, 0], str(job))
        # There were too many for all.
        self.assertGreater(siege.returned, FILES)
        last = max(int(path.name.rpartition("-")[2]) for path in folder.glob("*checkpoint-*"))
        self.assertGreater(last, 1, "no checkpoint has been written since the job began")

    def test_connections_that_say_nothing_do_not_keep_a_job_from_beginning(self):
        self.besieged(has_begun=False)

    def test_connections_that_say_nothing_do_not_keep_a_job_from_its_checkpoints(self):
        self.besieged(has_begun=True)


if __name__ == "__main__":
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
