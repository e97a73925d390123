#!/usr/bin/env python3
"""Tests how long workers wait for servers that are away, and what they accept in their place.

    test_absences.py TUTTI_SERVER STEPS
"""
import contextlib
import os
import pathlib
import signal
import socket
import sys
import tempfile
import threading
import time
import unittest

from processes import Job, stopped_writer_of

SERVER, STEPS = sys.argv[1:3]


@contextlib.contextmanager
def somebody_at(port, *, says=b""):
    """Takes connections at a port and keeps them. The event that it yields is set once somebody has connected."""
    has_come, kept = threading.Event(), []
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen()

        def take():
            with contextlib.suppress(OSError):
                while True:
                    kept.append(listener.accept()[0])
                    kept[-1].sendall(says)
                    has_come.set()

        taker = threading.Thread(target=take)
        taker.start()
        try:
            yield has_come
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            taker.join()
            for one in kept:
                one.close()


class AbsenceCase(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.state = ("--state", pathlib.Path(folder.name), "--durable", "each")

    def job(self, **how):
        self.the_job = Job(SERVER, STEPS, **how)
        self.addCleanup(self.the_job.close)
        return self.the_job

    def start(self, servers):
        return [self.the_job.start_server(rank, *self.state) for rank in range(servers)]

    def check_said(self, process, pattern, seconds=30):
        self.assertTrue(process.wait_for(pattern, seconds), str(self.the_job))

    def check_all_ended_well(self, processes):
        for one in [*processes, self.the_job.scheduler]:
            self.assertEqual(one.end(60), 0, str(self.the_job))

    def port_of(self, worker, server):
        """The port of the last connection that it has logged."""
        found = worker.wait_for(rf"is connected to server {server} at 127.0.0.1:(\d+)")
        self.assertTrue(found, str(self.the_job))
        return int(found[1])


class Patience(AbsenceCase):
    def test_a_server_that_has_returned_has_the_time_that_its_first_checkpoint_takes(self):
        job = self.job(servers=1)
        server, = self.start(1)
        workers = job.start_workers("dist_sync", "mixed", 6, 2_000_000, 300, TUTTI_CREATE_SECONDS="3")
        self.check_said(workers[0], r"step 0\b")
        server.kill()
        server, = self.start(1)
        writer = stopped_writer_of(server)
        time.sleep(9)
        os.kill(writer, signal.SIGCONT)
        self.check_all_ended_well([*workers, server])

    def test_a_job_begins_with_a_server_that_takes_long_to_write_what_it_begins_with(self):
        self.job(servers=1)
        server, = self.start(1)
        self.check_all_ended_well([*self.the_job.start_workers("dist_sync", "mixed", 2, 2_000_000), server])
        # All of it is kept by both, but in the second job the server answers for nothing that is killed.
        for words in (self.state, self.state[:2]):
            with self.subTest(words=words):
                job = self.job(servers=1, PS_VERBOSE="1")
                server = job.start_server(0, *words)
                self.check_said(server, "server 0 is connected to the scheduler")
                workers = job.start_workers("dist_sync", "mixed-after-2", 0, 2_000_000, TUTTI_CREATE_SECONDS="3")
                writer = stopped_writer_of(server)
                time.sleep(9)
                os.kill(writer, signal.SIGCONT)
                self.check_all_ended_well([*workers, server])

    def test_each_server_that_is_away_has_its_own_time(self):
        job = self.job(servers=2, TUTTI_CREATE_SECONDS="6")
        servers = self.start(2)
        workers = job.start_workers("dist_sync", "mixed", 300, 20_000, 4)
        self.check_said(workers[0], r"step 10\b")
        begun = time.monotonic()
        for after, rank in ((0, 0), (4, 1)):
            time.sleep(max(0, begun + after - time.monotonic()))
            servers[rank].kill()
        for after, rank in ((5, 0), (7, 1)):
            time.sleep(max(0, begun + after - time.monotonic()))
            servers[rank] = job.start_server(rank, *self.state)
        self.check_all_ended_well([*workers, *servers])


class OldAddresses(AbsenceCase):
    def killed_server_and_its_port(self, servers=1, rank=0):
        self.job(servers=servers, PS_VERBOSE="1")
        self.servers = self.start(servers)
        self.workers = self.the_job.start_workers("dist_sync", "mixed", 300, 20_000, 4)
        self.check_said(self.workers[0], r"step 10\b")
        port = self.port_of(self.workers[0], rank)
        self.servers[rank].kill()
        return port

    def restart(self, rank):
        self.servers[rank] = self.the_job.start_server(rank, *self.state)

    def test_what_answers_there_without_the_secret_is_not_there_yet(self):
        with somebody_at(self.killed_server_and_its_port(), says=b"7" * 64) as has_come:
            self.assertTrue(has_come.wait(10), str(self.the_job))
            time.sleep(1)
            self.restart(0)
        self.check_all_ended_well([*self.workers, *self.servers])

    def test_while_one_does_not_answer_there_the_others_are_served(self):
        with somebody_at(self.killed_server_and_its_port(servers=2)) as has_come:
            self.assertTrue(has_come.wait(10), str(self.the_job))
            self.servers[1].kill()
            self.check_said(self.workers[0], "worker 0 waits for server 1")
            self.restart(1)
            self.check_said(self.servers[1], "goes on from its state")
            self.check_said(self.workers[0], "worker 0 goes on: server 1 is back", 2)
        self.restart(0)
        self.check_all_ended_well([*self.workers, *self.servers])


class Leaving(AbsenceCase):
    def test_a_server_that_dies_before_it_has_heard_that_a_worker_leaves_hears_of_it_when_it_returns(self):
        job = self.job(servers=1)
        server, = self.start(1)
        workers = [job.start("worker", [STEPS, "dist_sync", "mixed", steps, 2000, 2000], rank)
                   for rank, steps in enumerate((1, 2))]
        for one in workers:
            self.check_said(one, r"step 0\b")
        server.send(signal.SIGSTOP)
        self.check_said(workers[0], "worker 0 closes its store")
        time.sleep(0.5)
        server.kill()
        server, = self.start(1)
        self.assertEqual(workers[1].end(), 42, str(job))
        self.assertRegex(workers[1].text, "caught aborted: worker 0 has left the store")
        self.assertEqual(workers[0].end(), 0, str(job))
        self.assertEqual(server.end(), 0, str(job))


class Scheduler(AbsenceCase):
    def test_a_worker_that_is_not_told_where_a_value_is_ends_in_time(self):
        job = self.job(workers=1, servers=1)
        job.start_server(0)
        worker, = job.start_workers("dist_sync", "init", 1000, 2000, 50, TUTTI_TIMEOUT_SECONDS="3",
                                    TUTTI_STALL_SECONDS="1")
        self.check_said(worker, "is in init")
        job.scheduler.send(signal.SIGSTOP)
        self.check_said(worker, r"init of key 'key\d+' has waited \d s for the scheduler to say where values are", 10)
        self.assertEqual(worker.end(15), 42, str(job))
        self.assertRegex(worker.text, r"caught timeout: init of key 'key\d+' was not sent within 3 s \(.*\): it waited "
                                      "for the scheduler to say where values are")


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
