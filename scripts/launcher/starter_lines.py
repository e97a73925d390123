"""Reads the lines of the programs that start the processes, such as mpirun or ssh, and of their helpers that reach
nobody.
"""
from launcher.contact import IMPOSSIBLE
from launcher.lines import PIECE_BYTES
from launcher.mpirun import NOISE


class StarterLines:
    def __init__(self):
        self.rest = b""

    def take(self, data):
        """The lines that are complete now and worth showing. Empty data is the end."""
        *whole, self.rest = (self.rest + data).split(b"\n")
        if self.rest and (not data or len(self.rest) > PIECE_BYTES):
            whole, self.rest = whole + [self.rest], b""
        texts = [line.decode("utf-8", "surrogateescape") for line in whole]
        return [text for text in texts if not NOISE.search(text)]


def impossible_in(text):
    """Why a process cannot run, where its helper says so in this line; or None."""
    _, said, reason = text.partition(IMPOSSIBLE)
    return reason.rstrip("\r") if said else None
