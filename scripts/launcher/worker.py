"""The launcher's knowledge of a worker, and the connection from which it has it."""
import collections
import json
import re
import signal

from command_line import printable
from launcher.output import as_on_terminal
from launcher.sealed_lines import WELCOME, Forged

LAST_LINES = 10
# In characters. A longer line is cut there, because a line is kept in memory until it ends.
LONGEST_LINE = 16 << 20
# How a line begins that tutti logs, where it begins. The same words elsewhere are the program's own, or a quotation.
LOGGED = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} tutti\[rank (\d{1,9})\] (?:error|critical): "
# Lines that a process logs when it survives a peer, or gives up waiting for one.
LOST = re.compile(LOGGED + r"rank (\d{1,9}) is lost: "
                  r"(\d+ heartbeats of it are missing|its process, \d+, has been stopped)?")
AWAITED = re.compile(LOGGED + r"rank \d{1,9} has waited .* ranks? (\d[\d, ]{0,999}) (?:has|have) not called create")
# What a call throws whose peer closed its store. No line of the log says it, so it stands within the program's words;
# it tells only which of those that failed began it.
LEFT = re.compile(r"\b(?:rank|worker) (\d{1,9}) has left the store")
# Lines that the processes of a parameter-server job log. The name is that of `Request.title`.
SERVED_LOST = re.compile(r"(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} tutti(?:\[rank \d{1,9}\])? error: |"
                         r"tutti-server: peer_lost: )(?:the job ends: )?(?:the )?"
                         r"(worker \d{1,9}|server \d{1,9}|scheduler)(?: at \S+)? is lost: "
                         r"(\d+ heartbeats are missing)?")
# Their lines about processes that have not come to a create in time.
SERVED_AWAITED = re.compile(r"(?:\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} tutti(?:\[rank \d{1,9}\])? error: |"
                            r"tutti-server: timeout: )(?:the job ends: )?the scheduler gave up waiting for "
                            r"((?:worker|server) \d{1,9}(?:, (?:worker|server) \d{1,9}){0,999}): ")
ORDER = b""


class Worker:
    """A process of the job: a worker, or what serves it."""

    def __init__(self, rank, host, title=None, numbers=()):
        """`numbers`: {title: rank} of all processes, where they lose each other by title."""
        self.rank, self.host, self.title = rank, printable(host, 64), title or f"worker {rank}"
        self.numbers = dict(numbers)
        self.node = None      # equal for those on one host
        self.unable = False   # could its command not be started
        self.status = None    # exit code; 128 + N after signal N
        self.told = False     # did its end come from an order
        self.writes = False   # whether a server that was told to end writes its state first
        self.cut_off = None   # why its connection was ended here
        self.last = collections.deque(maxlen=LAST_LINES)
        self.parts = {}       # of lines that are not finished, by stream
        self.lost = None      # the rank that it says it lost
        self.lost_left = False  # which left in order
        self.silent = set()   # the ranks that run perhaps, but say nothing any more

    def joined(self, stream, texts, is_open):
        """(the lines that are complete now, how far the next one is). `texts` go on where the last ones ended, and the
        last one is not finished where `is_open`."""
        text = "".join([*self.parts.pop(stream, ()), texts[0]])
        whole = [text, *texts[1:]]
        if not is_open or len(whole[-1]) > LONGEST_LINE:
            return whole, ""
        rest = whole.pop()
        self.parts[stream] = [rest]
        return whole, rest

    def unfinished(self):
        """The streams whose last line has begun."""
        return list(self.parts)

    def hear(self, lines):
        """The first loss counts, for it is the cause of others."""
        for line in map(as_on_terminal, lines):
            said, awaited, left = LOST.match(line), AWAITED.match(line), LEFT.search(line)
            served, served_awaited = SERVED_LOST.match(line), SERVED_AWAITED.match(line)
            is_first = self.lost is None or self.lost_left
            if said and int(said[1]) == self.rank and is_first:
                self.lost, self.lost_left = int(said[2]), False
                self.silent = {self.lost} if said[3] else set()
            elif served and served[1] in self.numbers and is_first:
                self.lost, self.lost_left = self.numbers[served[1]], False
                self.silent = {self.lost} if served[2] else set()
            elif served_awaited and is_first:
                self.silent = {self.numbers[title] for title in served_awaited[1].split(", ") if title in self.numbers}
                self.lost, self.lost_left = min(self.silent, default=None), False
            elif awaited and int(awaited[1]) == self.rank and is_first:
                self.silent = {int(rank) for rank in re.findall(r"\d+", awaited[2])}
                self.lost, self.lost_left = min(self.silent), False
            elif left and self.lost is None:
                self.lost, self.lost_left = int(left[1]), True

    def name(self):
        return f"{self.title} on {self.host}"

    def fate(self):
        if self.status is None and self.cut_off:
            return f"was cut off: {self.cut_off}"
        if self.status is None:
            return "vanished without an exit code: its host or its launcher's helper died"
        how = "did not end by itself when the others had lost it, and " if self.told else ""
        if self.status > 128:
            try:
                number = signal.Signals(self.status - 128)
                return f"{how}was ended by signal {number} ({number.name}), exit code {self.status}"
            except ValueError:
                pass
        return f"{how}ended with exit code {self.status}"

    def code(self):
        return 1 if self.status is None else self.status


def lost_in_turn(workers, failed):
    """From the worker whose failure was heard of first, whom each one says it lost: exits are heard of in any order,
    and the last one here began it. Of two that lost each other the other did, for nothing else made the first fail."""
    found, worker = [], failed
    while worker is not None and worker not in found:
        found.append(worker)
        worker = workers.get(worker.lost)
    return found


def parsed(line):
    """The content of a line of JSON; None if it is no JSON. Python's parser gives up in more than one way."""
    try:
        return json.loads(line.decode("ascii"))
    except (ValueError, RecursionError):
        return None


def is_whole(number, least, most):
    return type(number) is int and least <= number <= most


def hello_of(line):
    """(rank, host) of what a worker's first line says, or None."""
    said = parsed(line)
    if not isinstance(said, dict) or said.keys() != {"rank", "host"}:
        return None
    if not is_whole(said["rank"], 0, 1 << 31) or not isinstance(said["host"], str):
        return None
    return said["rank"], said["host"]


def are_lines(texts):
    """Whether they are one line each, and can be written as they came."""
    if not isinstance(texts, list) or not texts:
        return False
    if not all(isinstance(text, str) and "\n" not in text for text in texts):
        return False
    try:
        "".join(texts).encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def message_of(line):
    """{"stream": 1 or 2, "lines": [text ...]}, with "open": "more" or "pause" where the last text is a part of a line,
    which goes on or has come to a pause, {"exit": code, "told": whether by order}, {"port": one that is free for the
    scheduler}, {"writes": true} of a server that is to end and writes its state, {"waits": whether its processes
    wait for others}, {"complete": true} of the scheduler to which all others have come, {"node": equal on one host},
    {"threads": how many were given to a worker, 0: it was left alone}, {"unable": true} where the command cannot be
    started, or None."""
    said = parsed(line)
    if not isinstance(said, dict):
        return None
    if said.keys() - {"open"} == {"stream", "lines"} and is_whole(said["stream"], 1, 2) and are_lines(said["lines"]):
        return said if said.get("open", "more") in ("more", "pause") else None
    if said.keys() == {"exit", "told"} and is_whole(said["exit"], 0, 255) and isinstance(said["told"], bool):
        return said
    if said.keys() == {"port"} and is_whole(said["port"], 1, 65535):
        return said
    if said.keys() == {"node"} and isinstance(said["node"], str):
        return said
    if said.keys() == {"threads"} and is_whole(said["threads"], 0, 1 << 20):
        return said
    for word in ("writes", "complete", "unable"):
        if said.keys() == {word} and said[word] is True:
            return said
    if said.keys() == {"waits"} and isinstance(said["waits"], bool):
        return said
    return None


class Link:
    """The connection to a worker's shim, which knows the token."""

    def __init__(self, lines, worker):
        self.lines, self.connection, self.worker = lines, lines.connection, worker
        self.waits = False  # its processes want to know who has ended

    def read(self):
        """(the messages that are complete, perhaps none yet, whether more may come): none come at the end of the
        connection, and behind what makes no sense."""
        try:
            texts, more = self.lines.receive(), True
        except Forged as error:
            self.worker.cut_off = str(error)
            texts, more = error.before, False
        if texts is None:
            return [], False
        messages = [message_of(text) for text in texts]
        if None in messages:
            self.worker.cut_off = "what its launcher's helper sent is no message"
            return messages[:messages.index(None)], False
        return messages, more

    def welcome(self):
        """Tells the shim that it has come to the right place."""
        self.send(WELCOME)

    def begin(self, variables):
        """Tells the shim to start its command, with these variables."""
        self.send(json.dumps(variables).encode())

    def address(self):
        """Whence it comes; None: it is gone."""
        try:
            return self.connection.getpeername()[0]
        except OSError:
            return None

    def tell_ended(self, workers):
        """Tells the shim's processes who has ended, and how."""
        self.send(json.dumps({"ended": [[one.title, f"{one.name()} {one.fate()}"] for one in workers]}).encode())

    def ask(self, seconds):
        """Tells the shim to ask its command to end, and to end it after this time."""
        self.send(json.dumps({"grace": seconds}).encode())

    def order(self):
        """Tells the shim to end its command; told again, at once."""
        self.send(ORDER)

    def pass_on(self, number):
        """Tells the shim to send its command this signal."""
        self.send(json.dumps({"signal": number}).encode())

    def kill(self):
        """Tells the shim to end its command at once."""
        self.order()
        self.order()

    def send(self, text):
        try:
            self.lines.send(text)
        except OSError:
            pass  # it is gone, and its end of file is on its way
