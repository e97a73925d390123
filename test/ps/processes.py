"""A parameter-server job whose processes a test starts one by one, ends and starts again."""
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

#: A test waits this long for an event that should come at once.
SOON = 30


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Process:
    """One that runs, and all it has said so far."""

    def __init__(self, title, words, env, stdin=subprocess.DEVNULL):
        self.title, self.text, self.news = title, "", threading.Condition()
        self.process = subprocess.Popen([str(word) for word in words], env=env, stdin=stdin, text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, errors="replace")
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def __str__(self):
        return f"--- {self.title} ({self.process.poll()})\n{self.text}"

    def _read(self):
        for line in self.process.stdout:
            with self.news:
                self.text += line
                self.news.notify_all()

    def wait_for(self, pattern, seconds=SOON):
        """Returns the match once the process has written it, or None if the process ends first or the time is up."""
        deadline = time.monotonic() + seconds
        with self.news:
            while not (found := re.search(pattern, self.text)):
                left = deadline - time.monotonic()
                if left <= 0 or not self.reader.is_alive():
                    break
                self.news.wait(min(left, 0.1))
            return found or re.search(pattern, self.text)

    def send(self, number):
        self.process.send_signal(number)

    def kill(self, number=signal.SIGKILL):
        self.send(number)
        return self.end()

    def end(self, seconds=SOON):
        """Its exit code, or None: it still runs."""
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        self.reader.join(5)
        return code


def stopped_writer_of(server):
    """The process that writes a server's checkpoint, stopped."""
    children = pathlib.Path(f"/proc/{server.process.pid}/task/{server.process.pid}/children")
    deadline = time.monotonic() + SOON
    while time.monotonic() < deadline:
        for pid in map(int, children.read_text().split()):
            # One that is stopped before it has its name outlives a killed server, and keeps its files locked.
            if pathlib.Path(f"/proc/{pid}/comm").read_text() == "tutti-state\n":
                os.kill(pid, signal.SIGSTOP)
                return pid
        time.sleep(0.001)
    raise AssertionError(f"{server.title} has started no process that writes")


class Job:
    """Its scheduler runs from the beginning. `server`: the program, or the words that start it. `env` is every
    process's."""

    def __init__(self, server, worker, workers=2, servers=1, **env):
        self.program = list(server) if isinstance(server, (list, tuple)) else [server]
        self.worker, self.workers, self.servers = worker, workers, servers
        self.started = []
        folder = str(pathlib.Path(self.program[-1]).parent)
        self.env = {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "DMLC_PS_ROOT_URI": "127.0.0.1",
                    "DMLC_PS_ROOT_PORT": str(free_port()), "DMLC_NUM_WORKER": str(workers),
                    "DMLC_NUM_SERVER": str(servers), "TUTTI_JOB_KEY": "5a" * 31 + "5b", "TUTTI_CREATE_SECONDS": "20",
                    "TUTTI_TIMEOUT_SECONDS": "20", "MXNET_KVSTORE_BIGARRAY_BOUND": "1000", **env}
        self.scheduler = self.start("scheduler", self.program)

    def start(self, role, words, rank=None, make=Process, **env):
        ranked = {} if rank is None else {"DMLC_RANK": str(rank)}
        process = make(role if rank is None else f"{role} {rank}", words,
                       {**self.env, "DMLC_ROLE": role, **ranked, **env})
        self.started.append(process)
        return process

    def start_server(self, rank, *words, **env):
        return self.start("server", [*self.program, *words], rank, **env)

    def start_workers(self, *words, **env):
        return [self.start("worker", [self.worker, *words], rank, **env) for rank in range(self.workers)]

    def close(self):
        for one in self.started:
            if one.process.poll() is None:
                one.kill()
            one.reader.join(5)
            if one.process.stdin:
                one.process.stdin.close()
            one.process.stdout.close()

    def __str__(self):
        return "\n".join(map(str, self.started))


class StateCase(unittest.TestCase):
    """A test of servers that keep states in a folder. `programs`: tutti-server, and the program of workers."""
    programs = ()

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def job(self, **how):
        job = Job(*self.programs, **how)
        self.addCleanup(job.close)
        return job

    def files(self, folder=None, word=""):
        return sorted(path for path in (folder or self.folder).iterdir() if word in path.name)

    def check_all_ended_well(self, job, processes):
        for one in processes:
            self.assertEqual(one.end(60), 0, str(job))
