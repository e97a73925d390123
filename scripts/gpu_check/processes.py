"""Runs programs that may hang."""
import dataclasses
import os
import signal
import subprocess
import tempfile
import time

# A process that the driver holds in the kernel may not even die.
TO_DIE = 5


@dataclasses.dataclass(frozen=True)
class Done:
    status: int
    out: str
    errors: str
    overdue: bool  # it was ended at its limit
    seconds: float

    def last_words(self, most=3000):
        return (self.out + self.errors).strip()[-most:]


def text_of(file):
    file.seek(0)
    return file.read().decode(errors="replace")


def run(words, environment, limit):
    """Runs a program until it ends, or for `limit` seconds. Then kills it and all processes that it has started."""
    began = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        # There are no pipes, because a process that outlives its parent would keep them open.
        with open(os.devnull, "rb") as nothing:
            process = subprocess.Popen(words, env=environment, stdin=nothing, stdout=out, stderr=errors,
                                       start_new_session=True)  # pylint: disable=consider-using-with
        overdue = False
        try:
            status = process.wait(max(limit, 0.1))
        except subprocess.TimeoutExpired:
            overdue, status = True, -signal.SIGKILL
        end(process)
        return Done(status, text_of(out), text_of(errors), overdue, time.monotonic() - began)


def end(process):
    """Kills the remaining processes of the program's session."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(TO_DIE)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        pass
