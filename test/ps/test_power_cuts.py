#!/usr/bin/env python3
"""A durable server on a file system whose machine goes down while checkpoints are written, again and again.

    test_power_cuts.py TUTTI_SERVER STEPS TRIES

The file system is ext4 in a file. All processes of the job are stopped at a random moment, the file is copied, and they
go on. The copy has what the file system had given to its device until then, and what was in memory alone is missing.
A server is started from each copy. Exits 77 (skipped) where no file system can be mounted.
"""
import contextlib
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

from processes import SOON, StateCase

SERVER, STEPS, TRIES = sys.argv[1], sys.argv[2], int(sys.argv[3])
SEED = 3
SKIPPED = 77
IMAGE_BYTES = 64 << 20
#: Only those who call fsync write: between two of them nothing changes.
OPTIONS = "loop,commit=600"
OWN_MOUNTS = "IN_OWN_MOUNTS"


def run(*words):
    return subprocess.run([str(word) for word in words], check=True, capture_output=True, text=True)


def made_image(path):
    with open(path, "wb") as file:
        file.truncate(IMAGE_BYTES)
    run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", path)


def children_of(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def send(number, processes):
    for pid in processes:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def state_of(pid):
    """T: it is stopped, and in no system call any more; Z or X: it has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


class PowerCuts(StateCase):
    programs = SERVER, STEPS

    def setUp(self):
        super().setUp()
        self.image = self.folder / "image"
        self.chance = random.Random(SEED)
        made_image(self.image)

    @contextlib.contextmanager
    def mounted(self, image):
        place = image.with_suffix(".mounted")
        place.mkdir()
        run("mount", "-o", OPTIONS, image, place)
        try:
            yield place
        finally:
            run("umount", "--lazy", place)

    def stopped_while_it_writes(self, worker, server):
        """All that change the file system's files, in the middle of a checkpoint."""
        while True:
            self.wait_until(lambda: children_of(server.process.pid))
            processes = [*children_of(server.process.pid), server.process.pid, worker.process.pid]
            send(signal.SIGSTOP, processes)
            self.wait_until(lambda: all(state_of(pid) in "TZX" for pid in processes))
            if state_of(processes[0]) == "T":
                return processes
            send(signal.SIGCONT, processes)

    def wait_until(self, holds):
        deadline = time.monotonic() + SOON
        while not holds() and time.monotonic() < deadline:
            time.sleep(0.001)
        self.assertTrue(holds())

    def copied(self, number):
        """The file as it is at one moment."""
        copy = self.folder / f"copy{number}"
        while True:
            before = self.image.stat().st_mtime_ns
            shutil.copyfile(self.image, copy)
            if self.image.stat().st_mtime_ns == before:
                return copy

    def check(self, copy, acknowledged, how):
        """Checks that a server starts from the copy and has everything that was acknowledged."""
        with self.mounted(copy) as place, contextlib.closing(self.job(workers=1)) as job:
            server = job.start_server(0, "--state", place / "state", *how)
            workers = job.start_workers("dist_sync", "found", 0, 2000)
            self.check_all_ended_well(job, [*workers, server, job.scheduler])
            steps = int(re.search(r"an earlier job has made (\d+) steps", workers[0].text)[1])
            self.assertGreaterEqual(steps, acknowledged, str(job))

    def cut_again_and_again(self, *how):
        """The file system as it was at each moment, and how many steps had been acknowledged by then."""
        with self.mounted(self.image) as place, contextlib.closing(self.job(workers=1)) as job:
            yield from self.cut(job, place, how)

    def cut(self, job, place, how):
        # A checkpoint every few steps.
        server = job.start_server(0, "--state", place / "state", "--journal-bytes", 20_000, *how)
        workers = job.start_workers("dist_sync", "each", 1_000_000, 2000)
        self.assertTrue(workers[0].wait_for(r"made 5 steps"), str(job))
        for number in range(TRIES):
            time.sleep(self.chance.uniform(0.01, 0.1))
            stopped = self.stopped_while_it_writes(workers[0], server)
            time.sleep(0.05)  # for what the worker has said to be read
            acknowledged = int(re.findall(r"made (\d+) steps\n", workers[0].text)[-1])
            copy = self.copied(number)
            send(signal.SIGCONT, stopped)
            yield copy, acknowledged
            copy.unlink()
            self.assertIsNone(server.process.poll(), str(job))

    def test_with_each_a_server_starts_again_and_has_all_that_was_acknowledged(self):
        how = ("--durable", "each")
        for copy, acknowledged in self.cut_again_and_again(*how):
            with self.subTest(acknowledged=acknowledged):
                self.check(copy, acknowledged, how)

    def test_with_seconds_it_starts_again_from_a_whole_step(self):
        how = ("--durable", "seconds=1")
        for copy, _ in self.cut_again_and_again(*how):
            with self.subTest(copy=copy.name):
                self.check(copy, 0, how)


def reason_to_skip():
    """The reason why no file system can be mounted here; None if one can."""
    if os.geteuid() != 0:
        return "only root mounts a file system"
    for program in ("mkfs.ext4", "mount", "unshare"):
        if shutil.which(program) is None:
            return f"there is no {program}"
    case = PowerCuts()
    try:
        case.setUp()
        with case.mounted(case.image):
            return None
    except subprocess.CalledProcessError as error:
        return f"{error.cmd[0]}: {error.stderr.strip()}"
    finally:
        case.doCleanups()


if __name__ == "__main__":
    if OWN_MOUNTS not in os.environ and os.geteuid() == 0 and shutil.which("unshare"):
        # They are gone with this process, however it ends.
        os.environ[OWN_MOUNTS] = "1"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, *sys.argv])
    REASON = reason_to_skip()
    if REASON is not None:
        print(f"skipped: {REASON}")
        sys.exit(SKIPPED)
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
