"""What the launcher knows of a worker, and the connection it knows it from."""
import collections
import json
import re
import signal

HELLO_BYTES = 4096
LAST_LINES = 10
# tutti's words in a process that survives a peer.
LOST = re.compile(r"\brank (\d+) is lost\b")


class Worker:
    def __init__(self, rank, host):
        self.rank, self.host = rank, host
        self.status = None  # exit code; 128 + N after signal N
        self.told = False   # did its end come from an order
        self.last = collections.deque(maxlen=LAST_LINES)
        self.lost = None    # the rank that it says it lost

    def hear(self, lines):
        said = next(filter(None, map(LOST.search, lines)), None)
        if said and self.lost is None:
            self.lost = int(said[1])

    def name(self):
        return f"worker {self.rank} on {self.host}"

    def fate(self):
        if self.status is None:
            return "vanished without an exit code: its host or its launcher's helper died"
        if self.status > 128:
            try:
                number = signal.Signals(self.status - 128)
                return f"was ended by signal {number} ({number.name}), exit code {self.status}"
            except ValueError:
                pass
        return f"ended with exit code {self.status}"

    def code(self):
        return 1 if self.status is None else self.status


class Link:
    """A shim's connection. It has a worker once it has shown the token; before, it gets little room."""

    def __init__(self, connection):
        self.connection, self.worker, self.pending = connection, None, b""

    def read(self):
        """The messages that are complete, perhaps none yet; None at the end of the connection."""
        try:
            data = self.connection.recv(1 << 18)
        except OSError:
            data = b""
        *lines, self.pending = (self.pending + data).split(b"\n")
        # What a worker says at once after its first words may come with them.
        first_words = lines[0] if lines else self.pending
        if not data or (self.worker is None and len(first_words) > HELLO_BYTES):
            return None
        try:
            return [json.loads(line) for line in lines]
        except ValueError:
            return None

    def order(self):
        """Tells the shim to end its command; told again, at once."""
        try:
            self.connection.sendall(b"\n")
        except OSError:
            pass  # it is gone, and its end of file is on its way
