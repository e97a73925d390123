"""Runs jobs in which a rank goes wrong, and remembers each line with its time."""
import concurrent.futures
import os
import pathlib
import re
import selectors
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lab"))
from hosts import why_not

# The reason why there can be no emulated hosts; empty if there can be.
NO_HOSTS = why_not()
WRONG = re.compile(r"rank (\d+) \(process (\d+)\) goes wrong: (\w+)")
# Jobs spend most of their time waiting: for a phase, and for mpirun to notice.
AT_ONCE = 3

ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    # A hang shows who waits for what before its time is up.
    "TUTTI_STALL_SECONDS": "5",
}


def mpirun(ranks, *words):
    return ["mpirun", "-n", str(ranks), *map(str, words)]


class Job:
    """A job that has ended: `code`, `output`, and how long it lived after its rank went wrong. One
    that takes longer than `limit`, or `limit_when_wrong` from then on, is an AssertionError with its
    output. A stopped rank goes on `continue_after` seconds later, if that is given. One that runs out
    of memory is killed from here, as the kernel would."""

    def __init__(self, words, limit=40, limit_when_wrong=40, continue_after=None, **env):
        self.words, self.output, self.wrong_at, self.code = words, "", None, None
        self.limit_when_wrong, self.continue_after, self.stopped = limit_when_wrong, continue_after, None
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              stdin=subprocess.DEVNULL, env={**os.environ, **ENVIRONMENT, **env},
                              start_new_session=True) as process:
            if not self._listen(process, time.monotonic() + limit):
                hung = "hung" if self.wrong_at is None else f"hung for {time.monotonic() - self.wrong_at:.1f} s"
                self._end(process)
                raise AssertionError(f"{hung}: {self}")
            self.code = process.wait()
        self.lived_on = None if self.wrong_at is None else time.monotonic() - self.wrong_at

    def __str__(self):
        return f"{' '.join(self.words)}\nended with {self.code}\n{self.output}"

    def lines(self, pattern):
        return [line for line in self.output.splitlines() if re.search(pattern, line)]

    def _listen(self, process, deadline):
        """Reads until the end of the output. Returns False if the end did not come in time."""
        with selectors.DefaultSelector() as events:
            events.register(process.stdout, selectors.EVENT_READ)
            while True:
                now = time.monotonic()
                if self.wrong_at is not None:
                    deadline = min(deadline, self.wrong_at + self.limit_when_wrong)
                if self.stopped and now >= self.wrong_at + self.continue_after:
                    os.kill(self.stopped, signal.SIGCONT)
                    self.stopped = None
                if now >= deadline:
                    return False
                until = self.wrong_at + self.continue_after if self.stopped else deadline
                if events.select(max(0, until - now)):
                    data = os.read(process.stdout.fileno(), 1 << 16)
                    if not data:
                        return True
                    self._hear(data.decode(errors="replace"))

    def _hear(self, text):
        self.output += text
        wrong = WRONG.search(self.output) if self.wrong_at is None else None
        if wrong:
            self.wrong_at = time.monotonic()
            if self.continue_after is not None:
                self.stopped = int(wrong[2])
            if wrong[3] == "oom":
                os.kill(int(wrong[2]), signal.SIGKILL)

    def _end(self, process):
        """Politely, so that mpirun takes its ranks along."""
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
        self.output += process.stdout.read().decode(errors="replace")


def each(test, cases, check, at_once=AT_ONCE):
    """Calls check(*case) for all cases, several at once. Each failure fails a subtest of its own."""
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        results = [(case, pool.submit(check, *case)) for case in cases]
        for case, result in results:
            with test.subTest(case=case):
                result.result()
