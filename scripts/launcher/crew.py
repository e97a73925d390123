"""Starts the processes of a job, each through a program of its own such as ssh, and ends with the last of them.

Takes mpirun's place. Standard input has the plan in JSON: a list of
{"title": "worker 0 on h0", "host": "h0", "words": what to start, "told": its standard input}.
"""
import collections
import json
import os
import pathlib
import selectors
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from command_line import file_problem
from launcher.contact import IMPOSSIBLE
from launcher.memory_file import file_of
from launcher.processes import ANNOUNCING, dies_with_parent
from launcher.shim import UP

# An sshd turns callers away when ten have not shown who they are.
MOST_AT_ONCE = 8


def start(one):
    with file_of(one["told"].encode()) as told:
        return subprocess.Popen(one["words"], stdin=told, stdout=subprocess.PIPE,
                                preexec_fn=dies_with_parent(signal.SIGTERM, ANNOUNCING))


class Member:
    """The words and settings by which one process of the job is started."""

    def __init__(self, one):
        self.title, self.host, self.up, self.said = one["title"], one["host"], False, b""
        self.program = os.path.basename(one["words"][0])
        self.process = start(one)

    def hear(self):
        """Whether it goes on. One that ends before its helper is up ends the crew."""
        data = os.read(self.process.stdout.fileno(), 4096)
        *lines, self.said = (self.said + data).split(b"\n")
        self.said = self.said[:len(UP) + 1]  # however long the line is
        self.up = self.up or UP.encode() in lines
        if data:
            return True
        code = self.process.wait()
        if not self.up:
            print(f"{self.title} could not be started: {self.program} ended with {code}; what it said is above",
                  file=sys.stderr, flush=True)
            sys.exit(code if code > 0 else 1)
        return False


class Crew:
    """Starts a few processes at once on each host. They end when this process does."""

    def __init__(self, plan):
        self.events = selectors.DefaultSelector()
        self.waiting = collections.defaultdict(collections.deque)  # by host
        for one in plan:
            self.waiting[one["host"]].append(one)
        self.starting = collections.Counter()
        for host in self.waiting:
            self.start_more(host)

    def start_more(self, host):
        while self.waiting[host] and self.starting[host] < MOST_AT_ONCE:
            member = Member(self.waiting[host].popleft())
            self.starting[host] += 1
            self.events.register(member.process.stdout, selectors.EVENT_READ, member)

    def hear(self, file, member):
        was_up = member.up
        if not member.hear():
            self.events.unregister(file)
        if member.up and not was_up:
            self.starting[member.host] -= 1
            self.start_more(member.host)

    def run(self):
        while self.events.get_map():
            for key, _ in self.events.select():
                self.hear(key.fileobj, key.data)


def main():
    try:
        Crew(json.load(sys.stdin)).run()
    except OSError as error:
        sys.exit(f"{IMPOSSIBLE}no more programs can be started here: {file_problem(error)}")


if __name__ == "__main__":
    main()
