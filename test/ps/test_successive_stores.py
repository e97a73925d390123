#!/usr/bin/env python3
"""One store after another in the processes of a job, and when scheduler and servers end.

    test_successive_stores.py TUTTI_SERVER OBEDIENT
"""
import os
import pathlib
import signal
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from processes import SOON, Job, Process, stopped_writer_of

SERVER, OBEDIENT = sys.argv[1:3]
#: At once, on a busy machine: far below TUTTI_CREATE_SECONDS.
AT_ONCE = 10


def resident(process):
    """Bytes of a process."""
    return int(pathlib.Path(f"/proc/{process.process.pid}/statm").read_text().split()[1]) * resource.getpagesize()


def has_its_own_malloc(process):
    """Whether the program has a malloc of its own. A sanitizer's malloc keeps freed memory."""
    return "san.so" in pathlib.Path(f"/proc/{process.process.pid}/maps").read_text() or "SAN_OPTIONS" in str(os.environ)


class Worker(Process):
    """A worker that does what its input says, and answers."""

    def __init__(self, title, words, env):
        super().__init__(title, words, env, stdin=subprocess.PIPE)
        self.asked = 0

    def tell(self, line):
        self.asked += 1
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()

    def hear(self, seconds=SOON):
        """Its answer to the last line; None: it has not answered in time."""
        found = self.wait_for(r"(?m)(?:^= .*\n(?:(?!= ).*\n)*){%d}" % self.asked, seconds)
        return found and re.findall("^= (.*)$", found[0], re.M)[-1]


class SuccessiveStores(unittest.TestCase):
    def begin(self, workers=2, servers=1, words=(), ranks=None):
        self.job = Job(SERVER, OBEDIENT, workers=workers, servers=servers, TUTTI_CREATE_SECONDS="60")
        self.addCleanup(self.job.close)
        self.servers = [self.job.start_server(rank, *words) for rank in range(servers)]
        self.workers = [self.job.start("worker", [OBEDIENT], rank, make=Worker) for rank in ranks or range(workers)]

    def all_do(self, line, *answers):
        for worker in self.workers:
            worker.tell(line)
        expected = answers or [line]
        for rank, worker in enumerate(self.workers):
            self.assertEqual(worker.hear(), expected[rank % len(expected)], str(self.job))

    def have_a_store(self, kind="dist_sync"):
        self.all_do(f"create {kind}", *(f"created {rank}" for rank in range(len(self.workers))))
        self.all_do("sum", f"summed {len(self.workers)}")
        self.all_do("close", "closed")

    def check_all_end(self, code=0):
        for one in (self.job.scheduler, *self.servers):
            self.assertEqual(one.end(AT_ONCE), code, str(self.job))

    def test_stores_follow_each_other_and_all_end_with_the_workers(self):
        self.begin(servers=2)
        for kind in ("dist_sync", "dist_sync", "dist_device_sync"):
            self.have_a_store(kind)
        self.all_do("create dist_async", "created 0", "created 1")
        self.all_do("close", "closed")
        time.sleep(1)
        self.assertEqual([one.process.poll() for one in self.job.started], [None] * 5, str(self.job))
        for worker in self.workers:
            worker.tell("exit")
        self.assertEqual([worker.end() for worker in self.workers], [0, 0], str(self.job))
        self.check_all_end()

    def test_workers_that_want_one_rank_keep_in_later_stores_those_that_they_got(self):
        self.begin(ranks=(0, 0))
        for worker in self.workers:
            worker.tell("create dist_sync")
        got = [worker.hear() for worker in self.workers]
        self.assertEqual(sorted(got), ["created 0", "created 1"], str(self.job))
        self.all_do("close", "closed")
        # The one that comes first would get the rank that both want.
        last = got.index("created 0")
        self.workers[1 - last].tell("create dist_sync")
        self.assertIsNone(self.workers[1 - last].hear(0.5), str(self.job))
        self.workers[last].tell("create dist_sync")
        self.assertEqual([worker.hear() for worker in self.workers], got, str(self.job))

    def test_a_worker_that_leaves_by_exit_or_is_killed_or_has_a_forked_child_ends_the_job_with_it(self):
        for end in ("quit", "fork", "kill"):
            with self.subTest(end):
                self.begin(workers=1)
                self.have_a_store()
                worker, child = self.workers[0], None
                if end == "fork":
                    worker.tell("fork")
                    child = int(worker.hear().split()[1])
                    self.have_a_store()
                if end == "kill":
                    worker.kill()
                else:
                    worker.tell("quit")
                self.check_all_end()
                if child:
                    os.kill(child, signal.SIGKILL)

    def test_a_worker_that_died_between_two_stores_is_named_at_once(self):
        for dies_first in (True, False):
            with self.subTest(dies_first=dies_first):
                self.begin(workers=3)
                self.have_a_store()
                if dies_first:
                    self.workers[2].kill()
                for worker in self.workers[:2]:
                    worker.tell("create dist_sync")
                if not dies_first:
                    time.sleep(0.5)
                    self.workers[2].kill()
                for worker in self.workers[:2]:
                    died = f"worker 2 \\(process {self.workers[2].process.pid} on .*\\) has ended since the job's last"
                    self.assertRegex(str(worker.hear(AT_ONCE)), f"caught peer_lost: .*{died}", str(self.job))
                self.check_all_end(1)

    def test_a_closed_store_leaves_nothing_of_its_keys(self):
        self.begin(servers=1)
        if has_its_own_malloc(self.workers[0]):
            self.skipTest("a sanitizer keeps what is freed")

        def use(kind, keys):
            """Creates a store, uses keys and closes it. Bytes of the processes just before that."""
            self.all_do(f"create {kind}", *(["created 0"] if kind == "local" else ["created 0", "created 1"]))
            self.all_do(f"keys {keys}", f"used {keys}")
            used = {one.title: resident(one) for one in processes}
            self.all_do("close", "closed")
            return used

        for kind in ("local", "dist_sync"):
            processes = self.workers + ([] if kind == "local" else self.servers)
            with self.subTest(kind):
                # A process's first store takes what later ones use again.
                use(kind, 1000)
                before = {one.title: resident(one) for one in processes}
                used = use(kind, 30_000)
                for one in processes:
                    grown = used[one.title] - before[one.title]
                    self.assertGreater(grown, 4 << 20, str(self.job))
                    # A server hears of the end a moment later.
                    deadline = time.monotonic() + SOON
                    while resident(one) - before[one.title] > grown / 8 and time.monotonic() < deadline:
                        time.sleep(0.01)
                    kept = resident(one) - before[one.title]
                    self.assertLessEqual(kept, grown / 8, f"{one.title} keeps {kept >> 20} of {grown >> 20} MiB")

    def test_a_second_store_beside_an_open_one_is_refused_at_once_and_the_first_works_on(self):
        self.begin(workers=2)
        self.all_do("create dist_sync", "created 0", "created 1")
        extra = self.workers[0]
        extra.tell("create dist_async")
        self.assertRegex(str(extra.hear(AT_ONCE)), "caught invalid_argument: this process has a store")
        self.all_do("sum", "summed 2")
        self.all_do("close", "closed")
        self.have_a_store()

    def test_servers_that_keep_a_state_go_on_from_it_also_when_one_is_killed_between_two_stores(self):
        for words in ((), ("--durable", "each")):
            with self.subTest(words), tempfile.TemporaryDirectory() as folder:
                self.begin(servers=2, words=("--state", folder, *words))
                self.have_a_store()
                if words:
                    self.servers[1].kill()
                    self.servers[1] = self.job.start_server(1, "--state", folder, *words)
                self.all_do("create dist_sync", "created 0", "created 1")
                # Without an optimizer the sum replaces the value, whether the value came from init or not.
                self.all_do("sum", "summed 2")
                self.all_do("close", "closed")
                for worker in self.workers:
                    worker.tell("exit")
                self.check_all_end()

    def test_sigterm_ends_a_server_between_two_stores_also_while_it_writes_its_last_state(self):
        for writes in (True, False):
            with self.subTest(writes=writes), tempfile.TemporaryDirectory() as folder:
                self.begin(workers=1, words=("--state", folder))
                self.all_do("create dist_sync", "created 0")
                # It takes a while to write this much.
                self.all_do("sum 4000000", "summed 1")
                worker, server = self.workers[0], self.servers[0]
                worker.tell("close")
                if writes:
                    writer = stopped_writer_of(server)
                    server.send(signal.SIGTERM)
                    self.assertIsNone(server.end(0.5), str(self.job))
                    os.kill(writer, signal.SIGCONT)
                self.assertEqual(worker.hear(), "closed", str(self.job))
                if not writes:
                    time.sleep(0.5)
                    server.send(signal.SIGTERM)
                self.assertEqual(server.end(AT_ONCE), 128 + signal.SIGTERM, str(self.job))
                self.assertIn("it was ended by SIGTERM", server.text)
                self.assertTrue((pathlib.Path(folder) / "server-0-of-1.checkpoint-2").exists(), str(self.job))
                worker.tell("create dist_sync")
                self.assertRegex(str(worker.hear(AT_ONCE)),
                                 "caught peer_lost: .*server 0 is lost: it was ended by SIGTERM", str(self.job))
                self.assertEqual(self.job.scheduler.end(AT_ONCE), 1, str(self.job))

    def test_a_server_that_cannot_write_its_last_state_says_so_to_those_that_want_another_store(self):
        with tempfile.TemporaryDirectory() as above:
            folder = pathlib.Path(above) / "state"
            self.begin(workers=1, words=("--state", folder))
            self.all_do("create dist_sync", "created 0")
            self.all_do("sum", "summed 1")
            shutil.rmtree(folder)
            self.all_do("close", "closed")
            self.assertEqual(self.servers[0].end(AT_ONCE), 1, str(self.job))
            self.workers[0].tell("create dist_sync")
            self.assertRegex(str(self.workers[0].hear(AT_ONCE)), "caught peer_lost: .*server 0 is lost: .*state",
                             str(self.job))
            self.assertNotIn("its connection", self.workers[0].text)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
