"""Helpers of the launcher's tests: a running launcher, and the processes that are left of its job."""
import os
import pathlib
import pty
import signal
import subprocess
import sys
import threading
import time
import unittest
import uuid

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAUNCH = ROOT / "scripts/launch.py"
# The address sanitizer slows everything down.
LIMIT = 180 if "ASAN_OPTIONS" in os.environ else 60
LOCAL = ("--launcher", "local")
MPI = ("--mode", "mpi", *LOCAL)
#: The launcher's options for what a sanitizer is told, in jobs whose processes do not get it from here.
CARRIED = [f"--env={name}" for name in ("ASAN_OPTIONS", "LSAN_OPTIONS", "UBSAN_OPTIONS") if name in os.environ]


def on_terminal(words, limit=LIMIT, **options):
    """Runs a program on a terminal. Returns (exit code, what the terminal gets)."""
    ours, theirs = pty.openpty()
    with subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
                          **options) as process:
        os.close(theirs)
        said = b""
        try:
            while data := os.read(ours, 65536):
                said += data
        except OSError:  # how a terminal says end of file
            pass
        os.close(ours)
        return process.wait(limit), said


#: An ssh to emulated hosts. As a real one it takes along no variable, and joins its words with blanks for a shell. It
#: knows hosts by address, too.
SSH = """#!/bin/sh
while [ "${{1#-}}" != "$1" ]; do [ "$1" = -l ] && shift; shift; done
host=${{1#*@}}
shift
host=$(sed -n "s/^$host //p" /etc/hosts | grep . || echo "$host")
exec env -i PATH={path} OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMP_NUM_THREADS=1 \\
  ip netns exec "$host" unshare --uts sh -c "hostname $host; cd /; $*"
"""


#: A worker that counts the signals that announce something, and prints its counts when it is asked to end. It reads
#: signals from a pipe: Python runs no handler while it waits in signal.pause(), if the signal came right before.
COUNTS = """
import collections, os, signal
came, wake = os.pipe()
os.set_blocking(wake, False)
signal.set_wakeup_fd(wake)
for name in ("USR1", "USR2", "ALRM", "VTALRM", "PROF", "XCPU", "PWR", "TERM"):
    signal.signal(getattr(signal, "SIG" + name), lambda *_: None)
print("up", flush=True)
counts = collections.Counter()
while (number := os.read(came, 1)[0]) != signal.SIGTERM:
    counts[number] += 1
    if len(counts) == 7 and counts[number] == 1:
        print("all came", flush=True)
print("counts", sorted(counts.values()), flush=True)
"""
ANNOUNCING = [getattr(signal, "SIG" + name) for name in ("USR1", "USR2", "ALRM", "VTALRM", "PROF", "XCPU", "PWR")]


def add_ssh(folder, path="/usr/local/bin:/usr/bin:/bin"):
    """Puts an ssh into this folder that finds programs in `path`."""
    ssh = folder / "ssh"
    ssh.write_text(SSH.format(path=path))
    ssh.chmod(0o755)


def variables_of(pid):
    try:
        return dict(text.partition("=")[::2] for text in
                    pathlib.Path("/proc", str(pid), "environ").read_text(errors="replace").split("\0"))
    except OSError:
        return {}


def role_of(pid):
    """The (role, rank) of a process in a job with servers. (None, None) for other processes and for dead ones."""
    known = variables_of(pid)
    return known.get("DMLC_ROLE"), known.get("DMLC_RANK")


def parent_of(pid):
    """The parent of a process; None if the process is gone."""
    try:
        return int(pathlib.Path("/proc", str(pid), "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


class LaunchCase(unittest.TestCase):
    """Every job of a test carries a mark in its environment, by which its processes are found."""

    def setUp(self):
        self.mark = f"LAUNCH_TEST_MARK={uuid.uuid4()}"
        self.addCleanup(self.end_marked)

    def environment(self, **more):
        """The environment of a job. It sets the number of threads, so that the launcher prints no line about threads.
        """
        name, _, value = self.mark.partition("=")
        return {"OMP_NUM_THREADS": "1", **os.environ, **more, name: value}

    def start(self, *words, command=(sys.executable, str(LAUNCH)), **env):
        return subprocess.Popen([*command, *map(str, words)], env=self.environment(**env), text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, errors="surrogateescape")

    def launch(self, *words, **how):
        """(exit code, stdout, stderr) of a launcher; it must end by itself."""
        process = self.start(*words, **how)
        try:
            out, err = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            self.fail(f"still running after {LIMIT} s\n{out}\n{err}")
        return process.returncode, out, err

    def marked(self):
        """Returns the ids of the launcher and the job's processes. Dead processes that are not reaped do not count."""
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                environment = pathlib.Path("/proc", name, "environ").read_bytes()
            except OSError:
                continue
            if self.mark.encode() in environment.split(b"\0"):
                found.append(int(name))
        return found

    def process_of(self, role, rank):
        """The process of the command itself: neither the shim that started it nor a process that it has started. A job
        that has begun to speak may still be starting it: until its program runs, its environment is the shim's.
        """
        known = {}

        def runs():
            known.clear()
            known.update((pid, parent_of(pid)) for pid in self.marked() if role_of(pid) == (role, str(rank)))
            return known
        self.wait_until(runs, f"{role} {rank} runs")
        return next(pid for pid, parent in known.items() if parent not in known)

    def kill(self, role, rank):
        """Kills a process and waits until it is dead, so that process_of finds the process that takes its place."""
        pid = self.process_of(role, rank)
        os.kill(pid, signal.SIGKILL)
        self.wait_until(lambda: role_of(pid) != (role, str(rank)), f"{role} {rank}, process {pid}, is dead")

    def end_marked(self):
        for pid in self.marked():
            try:
                os.kill(pid, 9)
            except ProcessLookupError:
                pass

    def wait_until(self, holds, what, seconds=20):
        deadline = time.monotonic() + seconds
        while not holds():
            self.assertLess(time.monotonic(), deadline, f"not within {seconds} s: {what}")
            time.sleep(0.02)

    def assert_nothing_left(self, seconds=20):
        self.wait_until(lambda: not self.marked(), "every process of the job has ended", seconds)

    def assert_announced_once(self, workers, process, signalled=None):
        """Checks that each worker of the job, which runs COUNTS, gets each of these signals once, from the launcher or
        from another process.
        """
        self.wait_for_lines(process, workers, "up")
        for number in ANNOUNCING:
            (signalled or process.send_signal)(number)
        self.wait_for_lines(process, workers, "all came")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=LIMIT)
        self.assertEqual(out.count(f"counts {[1] * 7}"), workers, out + err)

    def wait_for_lines(self, process, count, text):
        """Reads lines until this text has come this many times, and returns the lines. A process that takes too long is
        killed, which ends its output.
        """
        lines, limit = [], threading.Timer(LIMIT, process.kill)
        limit.start()
        try:
            while count:
                line = process.stdout.readline()
                self.assertNotEqual(line, "", f"the output ended, or {LIMIT} s passed, before {text!r}: {lines}")
                lines.append(line)
                count -= text in line
        finally:
            limit.cancel()
        return lines
