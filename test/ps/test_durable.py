#!/usr/bin/env python3
"""Servers that keep their state are killed and started again; workers check every value to the last bit.

    test_durable.py TUTTI_SERVER STEPS [slow]

slow: every test, with more kills. test/unit/ps tries a power cut at each operation of a disk, a kill between any two
requests, and damage to each byte of a file, on disks that are simulated.
"""
import os
import random
import re
import resource
import signal
import sys
import time
import unittest

from processes import StateCase, stopped_writer_of

SERVER, STEPS = sys.argv[1:3]
SLOW = "slow" in sys.argv[3:4]
SEED = 28
AT_LENGTH = "the full tier tries it"


class DurableCase(StateCase):
    programs = SERVER, STEPS

    def checked_run(self, job, *state, steps=30, kind="dist_sync", large=20_000):
        """A whole job: its servers and workers, which have ended well."""
        servers = [job.start_server(rank, *state) for rank in range(job.servers)]
        workers = job.start_workers(kind, "mixed", steps, large)
        self.check_all_ended_well(job, workers + servers + [job.scheduler])
        return servers, workers


class KilledServers(DurableCase):
    def kill_again_and_again(self, kills, *durable, kind="dist_sync", servers=2, steps_for_each=120, **env):
        job = self.job(servers=servers, **env)
        state = ("--state", self.folder, *durable)
        running = [job.start_server(rank, *state) for rank in range(servers)]
        # Enough for the last kill to find them at work.
        workers = job.start_workers(kind, "mixed", 200 + steps_for_each * kills, 20_000, 4)
        self.assertTrue(workers[0].wait_for(r"step 10\b"), str(job))
        chance = random.Random(SEED)
        for _ in range(kills):
            time.sleep(chance.uniform(0.02, 0.3))
            rank = chance.randrange(servers)
            self.assertEqual(running[rank].kill(), -signal.SIGKILL, str(job))
            time.sleep(chance.uniform(0, 0.3))
            running[rank] = job.start_server(rank, *state)
            self.assertTrue(running[rank].wait_for("goes on from its state"), str(job))
        self.check_all_ended_well(job, workers + running + [job.scheduler])
        for one in workers:
            self.assertIn("all values were right", one.text)
        return workers

    def test_workers_wait_for_a_server_that_is_started_again_and_no_push_is_lost_or_applied_twice(self):
        workers = self.kill_again_and_again(20 if SLOW else 3, "--durable", "each")
        self.assertRegex(workers[0].text, r"worker 0 waits for server \d, which may come back within 20 s "
                                          r"\(create_timeout, TUTTI_CREATE_SECONDS\): ")
        self.assertRegex(workers[0].text, r"worker 0 goes on: server \d is back")

    @unittest.skipUnless(SLOW, AT_LENGTH)
    def test_the_same_where_the_disk_comes_seconds_later_for_the_system_has_it(self):
        self.kill_again_and_again(20 if SLOW else 2, "--durable", "seconds", "5")

    @unittest.skipUnless(SLOW, AT_LENGTH)
    def test_asynchronous_pushes_are_applied_once_each(self):
        self.kill_again_and_again(20 if SLOW else 2, "--durable", "each", kind="dist_async", servers=1)

    @unittest.skipUnless(SLOW, AT_LENGTH)
    def test_lost_messages_and_killed_servers_together(self):
        # A worker that waits for lost messages makes few steps.
        self.kill_again_and_again(10 if SLOW else 2, "--durable", "each", steps_for_each=40, PS_RESEND="1",
                                  PS_RESEND_TIMEOUT="20", PS_DROP_MSG="10")

    def test_a_server_killed_while_a_worker_has_yet_to_hear_of_failed_rounds_tells_it_of_each(self):
        job = self.job(servers=2, TUTTI_TIMEOUT_SECONDS="2")
        state = ("--durable", "each", "--state", self.folder)
        servers = [job.start_server(rank, *state) for rank in range(2)]
        workers = job.start_workers("dist_sync", "late", 100, 20_000, 4)
        self.assertTrue(workers[0].wait_for(r"step 10\b"), str(job))
        workers[1].send(signal.SIGSTOP)
        self.assertTrue(workers[0].wait_for("(?s)it pushes again.*it pushes again"), str(job))
        for rank in range(2):
            servers[rank].kill()
            servers[rank] = job.start_server(rank, *state)
            self.assertTrue(servers[rank].wait_for("goes on from its state"), str(job))
        workers[1].send(signal.SIGCONT)
        self.check_all_ended_well(job, workers + servers + [job.scheduler])
        again = [re.findall("it pushes again: (.*)", one.text) for one in workers]
        self.assertGreaterEqual(len(again[0]), 2, str(job))
        self.assertEqual(again[0], again[1], str(job))
        self.assertIn("push of key '", again[1][0])
        self.assertIn("worker 1 has not made its push of key '", again[1][0])

    def test_a_server_that_has_said_who_is_missing_goes_on_from_that(self):
        job = self.job(servers=1, TUTTI_STALL_SECONDS="0.4")
        state = ("--state", self.folder, "--durable", "each")
        server = job.start_server(0, *state)
        workers = job.start_workers("dist_sync", "mixed", 200, 20_000, 4)
        self.assertTrue(workers[0].wait_for(r"step 10\b"), str(job))
        workers[1].send(signal.SIGSTOP)
        self.assertTrue(workers[0].wait_for(r"has waited \d+ s for server 0: worker 1 has not made its push of key '"),
                        str(job))
        server.kill()
        again = job.start_server(0, *state)
        self.assertTrue(again.wait_for("goes on from its state"), str(job))
        workers[1].send(signal.SIGCONT)
        self.check_all_ended_well(job, workers + [again, job.scheduler])

    def test_a_server_that_does_not_come_back_is_lost_in_the_end(self):
        job = self.job(servers=2, TUTTI_CREATE_SECONDS="3")
        servers = [job.start_server(rank, "--state", self.folder, "--durable", "each") for rank in range(2)]
        workers = job.start_workers("dist_sync", "mixed", 1_000_000)
        self.assertTrue(workers[0].wait_for(r"step 10\b"), str(job))
        servers[1].kill()
        for one in workers:
            self.assertEqual(one.end(), 42, str(job))
            self.assertRegex(one.text, r"caught peer_lost: server 1 is lost: .* did not come back in time.*key '")

    def test_without_durable_a_killed_server_is_lost_at_once(self):
        job = self.job(servers=1)
        server = job.start_server(0, "--state", self.folder)
        workers = job.start_workers("dist_sync", "mixed", 1_000_000)
        self.assertTrue(workers[0].wait_for(r"step 10\b"), str(job))
        server.kill()
        for one in workers:
            self.assertEqual(one.end(), 42, str(job))
            # The worker may have been checking its values, where no call is under way.
            self.assertRegex(one.text, r"caught peer_lost: server 0 is lost: its connection .* ended: .*"
                                       r"(key '(small|large)'.*|no call) (was|were) under way on worker \d")

    def test_a_server_that_comes_back_without_its_state_is_refused(self):
        job = self.job(servers=1)
        server = job.start_server(0, "--state", self.folder / "a", "--durable", "each")
        workers = job.start_workers("dist_sync", "mixed", 300, 20_000, 4)
        self.assertTrue(workers[0].wait_for(r"step 10\b"), str(job))
        server.kill()
        for words in ((), ("--state", self.folder / "b", "--durable", "each")):
            other = job.start_server(0, *words)
            self.assertEqual(other.end(), 2, str(job))
            self.assertRegex(other.text, "the job waits for server 0 with the state that it kept of this job, but this "
                                         "process brings no state")
        again = job.start_server(0, "--state", self.folder / "a", "--durable", "each")
        self.check_all_ended_well(job, workers + [again, job.scheduler])

    def test_sigterm_is_a_clean_end_after_which_a_server_may_be_started_again(self):
        job = self.job(servers=1)
        server = job.start_server(0, "--state", self.folder, "--durable", "each")
        workers = job.start_workers("dist_sync", "mixed", 300, 20_000, 4)
        self.assertTrue(workers[0].wait_for(r"step 10\b"), str(job))
        self.assertEqual(server.kill(signal.SIGTERM), 143, str(job))
        self.assertIn("tutti-server: aborted: it was ended by SIGTERM", server.text)
        self.assertTrue(workers[1].wait_for("worker 1 waits for server 0"), str(job))
        again = job.start_server(0, "--state", self.folder, "--durable", "each")
        self.check_all_ended_well(job, workers + [again, job.scheduler])

    def test_a_server_whose_disk_was_full_says_so_and_may_be_started_again(self):
        for is_heard_late in (False, True):
            with self.subTest(is_heard_late=is_heard_late):
                self.fill_the_disk(is_heard_late)

    def fill_the_disk(self, is_heard_late):
        """A worker sees that its connection ends, and hears why from the scheduler: sometimes later."""
        job = self.job(servers=1)
        ignoring = ("sh", "-c", "trap '' XFSZ; exec \"$@\"", "sh")
        folder = self.folder / f"late {is_heard_late}"
        state = ("--state", folder, "--durable", "each")
        server = job.start("server", [*ignoring, SERVER, *state], 0)
        workers = job.start_workers("dist_sync", "mixed", 300, 20_000, 4)
        self.assertTrue(workers[0].wait_for(r"step 10\b"), str(job))
        journal, = folder.glob("*journal*")
        # The next record is not complete.
        full = journal.stat().st_size + 100_000
        if is_heard_late:
            job.scheduler.process.send_signal(signal.SIGSTOP)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (full, full))
        if is_heard_late:
            self.assertTrue(workers[1].wait_for("worker 1 waits for server 0.*its connection ended"), str(job))
            job.scheduler.process.send_signal(signal.SIGCONT)
            self.assertTrue(workers[1].wait_for("worker 1 hears why server 0 went: cannot write"), str(job))
        self.assertEqual(server.end(), 1, str(job))
        self.assertRegex(server.text, "internal: cannot write .*journal-1: File too large")
        self.assertTrue(workers[1].wait_for("server 0.*File too large"), str(job))
        self.assertLess(journal.stat().st_size, full)
        again = job.start_server(0, *state)
        self.check_all_ended_well(job, workers + [again, job.scheduler])


class Checkpoints(DurableCase):
    @unittest.skipUnless(SLOW, AT_LENGTH)
    def test_a_journal_that_has_grown_is_replaced_by_a_checkpoint_in_the_background(self):
        job = self.job(servers=1, workers=1)
        server = job.start_server(0, "--state", self.folder, "--durable", "seconds", "60")
        # 8 MB a step.
        workers = job.start_workers("dist_sync", "mixed", 40)
        seen = set()
        while workers[0].process.poll() is None:
            for path in self.files(word="checkpoint"):
                found = re.fullmatch(r"server-0-of-1.checkpoint-(\d+)", path.name)
                seen.update(found.groups() if found else ())
            time.sleep(0.01)
        self.check_all_ended_well(job, workers + [server, job.scheduler])
        self.assertGreaterEqual(len(seen), 3, seen)
        left = [path.name for path in self.files()]
        number = lambda word: [int(name.rpartition("-")[2]) for name in left if word in name]
        checkpoint, = number("checkpoint")
        # The next one may just have been begun.
        self.assertIn(sorted(number("journal")), ([checkpoint], [checkpoint, checkpoint + 1]), left)

    def test_a_server_killed_while_it_writes_a_checkpoint_goes_on(self):
        job = self.job(servers=1, workers=1)
        state = ("--state", self.folder, "--durable", "seconds", "60")
        server = job.start_server(0, *state)
        workers = job.start_workers("dist_sync", "mixed", 60)
        self.assertTrue(workers[0].wait_for(r"step 0\b"), str(job))
        for _ in range(2):
            deadline = time.monotonic() + 30
            while not self.files(word="unfinished") and time.monotonic() < deadline:
                time.sleep(0.001)
            server.kill()
            server = job.start_server(0, *state)
            self.assertTrue(server.wait_for("goes on from its state"), str(job))
        self.check_all_ended_well(job, workers + [server, job.scheduler])
        self.assertEqual(self.files(word="unfinished"), [])

    def test_a_server_that_takes_long_to_write_what_it_begins_with_is_not_lost(self):
        self.checked_run(self.job(servers=1), "--state", self.folder, steps=2, large=10_000_000)
        job = self.job(servers=1, TUTTI_HEARTBEAT_SECONDS="1")
        server = job.start_server(0, "--state", self.folder)
        workers = job.start_workers("dist_sync", "mixed-after-2", 2, 10_000_000)
        writer = stopped_writer_of(server)
        time.sleep(3)
        os.kill(writer, signal.SIGCONT)
        self.check_all_ended_well(job, workers + [server, job.scheduler])

    def test_a_server_that_is_killed_before_it_has_written_what_it_begins_with_may_come_again(self):
        self.checked_run(self.job(servers=1), "--state", self.folder, steps=2, large=10_000_000)
        job = self.job(servers=1)
        state = ("--state", self.folder, "--durable", "each")
        server = job.start_server(0, *state)
        workers = job.start_workers("dist_sync", "mixed-after-2", 2, 10_000_000)
        stopped_writer_of(server)
        server.kill()
        again = job.start_server(0, *state)
        self.check_all_ended_well(job, workers + [again, job.scheduler])
        self.assertEqual(self.files(word="prepared"), [])

    def test_a_server_that_is_ended_while_it_begins_leaves_what_it_would_have_begun_with(self):
        self.checked_run(self.job(servers=1), "--state", self.folder, steps=2, large=10_000_000)
        left = [path.name for path in self.files(word="checkpoint")]
        job = self.job(servers=1)
        server = job.start_server(0, "--state", self.folder)
        job.start_workers("dist_sync", "mixed-after-2", 2, 10_000_000)
        stopped_writer_of(server)
        self.assertEqual(server.kill(signal.SIGTERM), 143, str(job))
        found = [path.name for path in self.files(word="checkpoint") if "unfinished" not in path.name]
        self.assertEqual(found, left)


class OtherJobs(DurableCase):
    """Values and optimizer states of one job in the next."""

    def first_job(self, servers, steps=30, *durable):
        job = self.job(servers=servers)
        self.checked_run(job, "--state", self.folder / "old", *durable, steps=steps)

    def test_a_job_goes_on_from_what_the_one_before_has_kept(self):
        for durable in ((), ("--durable", "each")):
            with self.subTest(durable=durable):
                self.folder = self.folder / "more"
                self.folder.mkdir()
                self.first_job(2, 30, *durable)
                job = self.job(servers=2)
                servers = [job.start_server(rank, "--state", self.folder / "old", *durable) for rank in range(2)]
                workers = job.start_workers("dist_sync", "mixed-after-30", 30, 20_000)
                self.check_all_ended_well(job, workers + servers + [job.scheduler])

    def test_more_or_fewer_servers_restore_it(self):
        self.first_job(2)
        before = {path.name: path.read_bytes() for path in self.files(self.folder / "old")}
        for servers in (1, 3):
            with self.subTest(servers=servers):
                job = self.job(servers=servers)
                words = ("--state", self.folder / f"new{servers}", "--restore", self.folder / "old")
                running = [job.start_server(rank, *words) for rank in range(servers)]
                workers = job.start_workers("dist_sync", "mixed-after-30", 30, 20_000)
                self.check_all_ended_well(job, workers + running + [job.scheduler])
        self.assertEqual({path.name: path.read_bytes() for path in self.files(self.folder / "old")}, before)

    def test_another_number_of_servers_is_told_how_to_restore(self):
        self.first_job(2, 1)
        job = self.job(servers=1)
        server = job.start_server(0, "--state", self.folder / "old")
        self.assertEqual(server.end(), 2, str(job))
        self.assertRegex(server.text, "has the state of 2 servers, but this job has 1; .*--restore")

    def test_servers_of_which_one_has_lost_its_state_do_not_begin(self):
        self.first_job(2, 1)
        for path in self.files(self.folder / "old", "server-1-"):
            path.unlink()
        job = self.job(servers=2)
        servers = [job.start_server(rank, "--state", self.folder / "old") for rank in range(2)]
        for server in servers:
            self.assertNotEqual(server.end(), 0, str(job))
        self.assertRegex(str(job), r"server \d brings (no state|the state of an earlier job), and server \d")


class Damage(DurableCase):
    def setUp(self):
        super().setUp()
        job = self.job(servers=1)
        self.state = ("--state", self.folder, "--durable", "each")
        server = job.start_server(0, *self.state)
        workers = job.start_workers("dist_sync", "mixed", 1_000_000, 2000)
        self.assertTrue(workers[0].wait_for(r"step 10\b"), str(job))
        server.kill()
        job.close()

    def what_a_server_says(self):
        job = self.job(servers=1)
        server = job.start_server(0, *self.state)
        self.assertEqual(server.end(), 2, str(job))
        return server.text

    def test_a_checkpoint_that_was_changed_is_refused_by_name(self):
        path = self.files(word="checkpoint")[0]
        bytes_ = bytearray(path.read_bytes())
        bytes_[len(bytes_) // 2] ^= 1
        path.write_bytes(bytes_)
        self.assertRegex(self.what_a_server_says(), rf"{path.name}.*damaged")

    @unittest.skipUnless(SLOW, AT_LENGTH)
    def test_a_checkpoint_that_was_cut_is_refused_by_name(self):
        path = self.files(word="checkpoint")[0]
        for size in (path.stat().st_size - 1, 20, 0):
            with self.subTest(size=size):
                path.write_bytes(path.read_bytes()[:size])
                self.assertRegex(self.what_a_server_says(), rf"{path.name}.*(damaged|cut short)")

    def test_a_journal_that_was_changed_is_refused_by_name(self):
        path = self.files(word="journal")[0]
        bytes_ = bytearray(path.read_bytes())
        bytes_[len(bytes_) // 2] ^= 1
        path.write_bytes(bytes_)
        self.assertRegex(self.what_a_server_says(), rf"{path.name}: damaged: record \d+")

    @unittest.skipUnless(SLOW, AT_LENGTH)
    def test_a_journal_without_its_checkpoint_is_not_taken_for_an_empty_state(self):
        self.files(word="checkpoint")[0].unlink()
        self.assertRegex(self.what_a_server_says(), "checkpoint .* is missing")


class Misuse(DurableCase):
    def said(self, *words, code=2, **env):
        job = self.job(servers=2)
        server = job.start("server", [SERVER, *words], **env)
        self.assertEqual(server.end(), code, str(job))
        return server.text

    def test_options_that_do_not_fit_are_refused(self):
        for words, text in ((("--durable", "each"), "--durable and --restore need --state"),
                            (("--state", "x", "--durable", "always"), "it takes each, seconds N or off"),
                            (("--state", "x", "--durable", "seconds", "0"), "a whole number from 1"),
                            (("--sate", "x"), "unknown option --sate.*--state"),
                            (("--state",), "--state needs a value behind it"),
                            (("--state", "/dev/null/x"), "cannot be used"),
                            (("--state", self.folder, "--restore", "/nowhere"), "/nowhere")):
            with self.subTest(words=words):
                self.assertRegex(self.said(*words, DMLC_RANK="0"), text)

    def test_a_host_that_is_not_known_is_refused_by_the_name_of_its_variable(self):
        self.assertRegex(self.said(DMLC_NODE_HOST="nowhere.invalid"),
                         "environment variable DMLC_NODE_HOST='nowhere.invalid' is not usable")

    def test_a_server_may_be_told_a_name_of_its_host(self):
        job = self.job(servers=1, DMLC_NODE_HOST="localhost")
        server = job.start_server(0)
        workers = job.start_workers("dist_sync", "mixed", 2, 2000)
        self.check_all_ended_well(job, workers + [server, job.scheduler])

    def test_words_from_outside_end_no_line_of_an_error(self):
        for words in (("--sate\n\033[2Jforged",), ("--state", "x", "--durable", "often\n\033[2Jforged"),
                      ("--state", self.folder, "--restore", "/nowhere\n\033[2Jforged")):
            with self.subTest(words=words):
                said = self.said(*words, DMLC_RANK="0")
                self.assertIn(r"\n\x1b[2Jforged", said)
                self.assertEqual([line for line in said.splitlines() if line.startswith("forged")], [])

    @unittest.skipIf(os.geteuid() != 0, "no other user can be played")
    def test_a_state_that_another_user_has_put_there_is_refused(self):
        forged = self.folder / "forged"
        self.checked_run(self.job(servers=1), "--state", forged, steps=2)
        nobody = 65534
        for path in (forged, *forged.iterdir()):
            os.chown(path, nobody, nobody)
        for words in (("--state", forged), ("--state", self.folder / "new", "--restore", forged)):
            with self.subTest(words=words):
                self.assertRegex(self.said(*words, DMLC_RANK="0", DMLC_NUM_SERVER="1"),
                                 f"{forged}.* cannot be used: it belongs to user {nobody}, .*name one of your own")

    def test_a_state_needs_a_rank(self):
        self.assertIn("set DMLC_RANK to a number from 0 to 1", self.said("--state", self.folder))

    def test_a_scheduler_keeps_no_state(self):
        self.assertIn("the scheduler keeps no state", self.said("--state", self.folder, DMLC_ROLE="scheduler",
                                                                DMLC_PS_ROOT_PORT="19416"))

    def test_two_servers_do_not_share_one_state(self):
        job = self.job(servers=2)
        first = job.start_server(0, "--state", self.folder)
        deadline = time.monotonic() + 10
        while not self.files(word="lock") and time.monotonic() < deadline:
            time.sleep(0.01)
        second = job.start_server(0, "--state", self.folder)
        self.assertEqual(second.end(), 2, str(job))
        self.assertRegex(second.text, "another process uses the state .*DMLC_RANK")
        self.assertIsNone(first.process.poll(), str(job))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3 + SLOW:]])
