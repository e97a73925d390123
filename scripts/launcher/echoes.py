"""What several processes of a job write alike on standard error, such as a traceback: it is shown once, and then who
else wrote it.

The first to write a line is shown at once. Another that writes the same is compared with it line by line from there
on. When its text is over, or goes on otherwise, the launcher names it, and shows the rest. So no process is ever
silenced, whichever of them was the first.
"""
import collections
import re
import time

# After its last line a text is over.
QUIET_SECONDS = 0.5
# The launcher waits so long for a process that has written less than the one that it is compared with.
AHEAD_SECONDS = 0.3
# Older lines belong to another text, and are forgotten.
RECENT_SECONDS = 10.0
MOST_LINES = 2000
# Shorter texts are shown from each process: they drown nothing, and a reader may look for a certain process's line.
LEAST_LINES = 3

LOGGED = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} (tutti)(?:\[rank \d+\])?( .*)")
SECONDS = re.compile(r"\d+(?:\.\d+)? s\b")
# Open MPI's lines about a signal begin with host and process.
OF_PROCESS = re.compile(r"\[[^\]\s]+:\d+\]")
ADDRESS = re.compile(r"0x[0-9a-f]+")


def plain(text, title):
    """The line without that in which processes differ that mean the same."""
    logged = LOGGED.fullmatch(text)
    if logged:
        number = title.rpartition(" ")[2]
        text = re.sub(rf"\b(rank|worker|server) {number}\b", r"\1 N", SECONDS.sub("T s", logged[1] + logged[2]))
    return ADDRESS.sub("0x", OF_PROCESS.sub("[]", text))


def names_of(titles):
    """'worker 1', 'workers 0, 2 and server 1'."""
    numbers = collections.defaultdict(list)
    for title in titles:
        kind, _, number = title.rpartition(" ")
        numbers[kind or title].append(number if kind else "")
    return " and ".join(f"{kind}{'s' * (len(each) > 1)} {', '.join(each)}".rstrip() for kind, each in numbers.items())


class Speaker:
    """A process that writes: the lines of it that were shown lately, and what it is compared with."""

    def __init__(self, worker):
        self.worker = worker
        self.lines = collections.deque()  # (plain line, when)
        self.first = 0                    # the number of the first of these
        self.compared = {}                # Speaker: the number of that one's line that comes next
        self.leader = None                # with whom it is compared
        self.alike = []                   # the lines that it wrote like that one
        self.ahead = []                   # the lines that it wrote then, which are still to be compared
        self.since = 0.0                  # when the last of it came

    def end(self):
        return self.first + len(self.lines)

    def line(self, number):
        return self.lines[number - self.first][0] if number >= self.first else None

    def add(self, key, now):
        self.lines.append((key, now))
        while len(self.lines) > MOST_LINES or now - self.lines[0][1] > RECENT_SECONDS:
            self.lines.popleft()
            self.first += 1

    def find(self, key, start, now):
        """The number of its line like that, from there on; None: there is none."""
        return next((number for number, (line, at) in enumerate(self.lines, self.first)
                     if number >= start and line == key and now - at <= RECENT_SECONDS), None)


class Echoes:
    def __init__(self, printer, say, clock=time.monotonic):
        """`say(text)`: a line of the launcher's own."""
        self.printer, self.say, self.clock = printer, say, clock
        self.speakers = {}

    def take(self, worker, texts):
        if not self.printer.prefix:  # nobody sees whose line it is
            self.show(worker, texts)
            return
        me = self.speakers.setdefault(worker.title, Speaker(worker))
        me.ahead += texts
        me.since = self.clock()
        self.settle(me)

    def release(self, worker):
        """Shows all that it wrote, for more of its last line is to be shown."""
        me = self.speakers.get(worker.title)
        if me:
            self.part(me)
            self.print(me, me.ahead)
            me.ahead = []

    def deadline(self):
        """When `expire` has something to do; None: never."""
        waits = [one.since + (AHEAD_SECONDS if one.ahead else QUIET_SECONDS)
                 for one in self.speakers.values() if one.ahead or one.alike]
        return min(waits, default=None)

    def expire(self):
        now = self.clock()
        for one in self.speakers.values():
            if one.ahead and now >= one.since + AHEAD_SECONDS:
                self.part(one)
                self.settle(one)
        self.conclude(lambda one: now >= one.since + QUIET_SECONDS)

    def finish(self):
        """Nothing more comes."""
        for one in self.speakers.values():
            while one.ahead:
                self.part(one)
                self.settle(one)
        self.conclude(lambda one: True)

    def settle(self, me):
        """Compares what it wrote, as far as the other one has come."""
        fresh, now = [], self.clock()
        while me.ahead:
            key = plain(me.ahead[0], me.worker.title)
            if me.leader is None and not self.follow(me, key, now):
                me.add(key, now)
                fresh.append(me.ahead.pop(0))
                continue
            number = me.compared[me.leader]
            if number == me.leader.end():
                break
            if me.leader.line(number) == key:
                me.alike.append(me.ahead.pop(0))
                me.compared[me.leader] = number + 1
            else:
                self.part(me)
        if fresh:
            self.show(me.worker, fresh)
            for one in self.speakers.values():
                if one.leader is me:
                    self.settle(one)

    def follow(self, me, key, now):
        """Finds another that wrote this line. Blank ones begin no text."""
        if not key.strip():
            return False
        for one in self.speakers.values():
            found = None if one is me or one.leader is me else one.find(key, me.compared.get(one, 0), now)
            if found is not None:
                me.leader, me.compared[one] = one, found
                return True
        return False

    def show(self, worker, texts):
        worker.last += self.printer.lines(worker.title, 2, texts)

    def part(self, me):
        """It goes on otherwise than its leader. Of few lines alike all are compared with others again, and shown if
        they are like nobody's."""
        if len(me.alike) >= LEAST_LINES:
            self.name([me])
        me.ahead, me.alike, me.leader = me.alike + me.ahead, [], None

    def print(self, me, texts):
        now = self.clock()
        for text in texts:
            me.add(plain(text, me.worker.title), now)
        if texts:
            self.show(me.worker, texts)

    def conclude(self, is_over):
        """Names those whose text was like another's."""
        groups = collections.defaultdict(list)
        for one in self.speakers.values():
            if one.alike and not one.ahead:
                groups[one.leader, one.compared[one.leader], len(one.alike)].append(one)
        for (_, _, count), ones in groups.items():
            if not any(map(is_over, ones)):
                continue
            if count < LEAST_LINES:
                for one in ones:
                    texts, one.alike, one.leader = one.alike, [], None
                    self.print(one, texts)
                continue
            self.name(sorted(ones, key=lambda one: one.worker.rank))

    def name(self, ones):
        """Says who wrote as many lines like the same leader."""
        self.say(f"{names_of(one.worker.title for one in ones)} wrote the same {len(ones[0].alike)} lines as "
                 f"{ones[0].leader.worker.title}")
        for one in ones:
            one.worker.last += self.printer.as_shown(one.worker.title, 2, one.alike)
            one.alike, one.leader = [], None
