"""How lines reach the user: whole, with the worker that wrote them, the moment they come."""
import os
import re
import signal
import sys

from command_line import printable, program

# What moves a terminal's cursor, clears it or colours it: ECMA-48's control sequences, strings such as a window's
# title, and the short ones.
CONTROL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
LONGEST_TEXT = 2000


class CannotWrite(Exception):
    """A stream takes no more of the workers' lines, so the job is over."""

    def __init__(self, stream, error):
        super().__init__(f"cannot write to standard {stream}: {error.strerror}; the job was ended")
        # A reader that has gone is how `launch.py ... | head` ends.
        self.code = 128 + signal.SIGPIPE if isinstance(error, BrokenPipeError) else 1


def open_standard_streams():
    """Of a stream that was closed what is written goes nowhere. Else the next file that is opened would take its
    place, and get it."""
    while True:
        fd = os.open(os.devnull, os.O_RDWR)
        if fd > 2:
            os.close(fd)
            break
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)


def settle_standard_streams():
    """What they hold and do not take goes nowhere. Else Python would try again at its end, and change the exit code."""
    for fd, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), fd)


def as_on_terminal(line):
    """What a terminal would show of a line in which a progress display went back to its start."""
    return line.rstrip("\r").rpartition("\r")[2]


def say(text, lines=()):
    """A line of the launcher's own, told apart from the workers' by its name, and others that belong to it. Here
    all of it becomes fit for a terminal, whoever named the hosts and wrote the lines."""
    try:
        print("\n".join([f"{program()}: {printable(text, LONGEST_TEXT)}", *(f"  {printable(line)}" for line in lines)]),
              file=sys.stderr, flush=True)
    except OSError:
        pass  # nobody is left to tell, and the exit code says the rest


def write(file, texts):
    """Whole lines. Bytes that are no UTF-8 arrive as they left."""
    text = "".join(text + "\n" for text in texts)
    left = memoryview(text.encode("utf-8", "surrogateescape"))
    try:
        # With PYTHONUNBUFFERED a write that a signal interrupts takes only a part.
        while left:
            left = left[file.buffer.write(left):]
        file.buffer.flush()
    except OSError as error:
        raise CannotWrite("output" if file is sys.stdout else "error", error) from error


class Printer:
    def __init__(self, prefix):
        self.prefix = prefix

    def lines(self, title, stream, texts):
        """Prints a process's lines on its stream (1 or 2), byte by byte: on a terminal its colours are its own, and
        elsewhere, where they mean nothing, they are left out. Returns them as printed."""
        file = sys.stdout if stream == 1 else sys.stderr
        head = f"[{title}] " if self.prefix else ""
        shown = [head + as_on_terminal(text) for text in texts]
        if not file.isatty():
            shown = [CONTROL.sub("", text) for text in shown]
        write(file, shown)
        return shown

    @staticmethod
    def note(name, line):
        """A line of what starts the processes, such as mpirun, or of a host's that it could not start on."""
        text = printable(line.rstrip("\r"))
        write(sys.stderr, [text if text.startswith(f"{name}: ") else f"{name}: {text}"])
