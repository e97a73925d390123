"""How lines reach the user: whole, with the worker that wrote them, the moment they come."""
import sys

from command_line import printable


def as_on_terminal(line):
    """What a terminal would show of a line in which a progress display went back to its start."""
    return line.rstrip("\r").rpartition("\r")[2]


class Printer:
    def __init__(self, prefix):
        self.prefix = prefix

    def lines(self, rank, stream, texts):
        """Prints a worker's lines on its stream (1 or 2), byte by byte: its colours are its own. Returns them as
        printed."""
        head = f"[worker {rank}] " if self.prefix else ""
        shown = [head + as_on_terminal(text) for text in texts]
        self.write(sys.stdout if stream == 1 else sys.stderr, shown)
        return shown

    def note(self, line):
        """A line of mpirun's own, or of a host's that it could not start on."""
        self.write(sys.stderr, ["mpirun: " + printable(line.rstrip("\r"))])

    @staticmethod
    def write(file, texts):
        """Bytes that are no UTF-8 arrive as they left."""
        text = "".join(text + "\n" for text in texts)
        left = memoryview(text.encode("utf-8", "surrogateescape"))
        # With PYTHONUNBUFFERED a write that a signal interrupts takes only a part.
        while left:
            left = left[file.buffer.write(left):]
        file.buffer.flush()
