"""Runs one process's command on its host, and tells the launcher all there is to know about it.

mpirun, ssh or a batch system starts this in the command's place. Over a connection to the launcher it sends who it is,
the command's lines and its exit status; so what started it sees success whatever happens, and leaves the survivors
alone. When the launcher, what started this, or this process ends, the command and all that it started end too. This
file goes to other hosts as text, with the modules that helper.py names, which are all of ours that it may import.
"""
import errno
import json
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
import termios
import time

from launcher.beginning import (CannotBegin, index_of, listen_for_scheduler, node_name, part_of, place_of,
                                problem_text, surroundings)
from launcher.contact import IMPOSSIBLE, Unreachable, connect, is_cut_off
from launcher.lines import Lines
from launcher.notices import Notices
from launcher.processes import (ANNOUNCING, ENDING, PR_SET_PDEATHSIG, adopt_orphans, children, descendants,
                                dies_with_parent, end_all, lives_below, prctl, running_below, signal_all)
from launcher.sealed_lines import Forged
from launcher.threads import set_share
from launcher.trust import enter_folder, problem_of_program

# The line on standard output that tells the crew that the launcher has welcomed this process.
UP = "up"
# After the command has ended, how long what it started may still hold its output open without
# saying anything, and how much it may say.
DRAIN_SECONDS = 0.5
DRAIN_BYTES = 1 << 20
# From SIGTERM to SIGKILL, for a command that has had its time.
TERM_SECONDS = 3.0
# The name of the process that a server starts to write its state (lib/ps/durable/state_writer.cc).
WRITER = "tutti-state"
# In JSON those that a program which carries its own variables on must not have itself.
WORKERS_VARIABLES = "TUTTI_LAUNCH_VARIABLES"
# Python ends with such a line if it lacks a module, and a shell if it finds no program.
MISSING = re.compile(rb"^((ModuleNotFoundError|\S*python\S*): No module named .*|\S*sh: .*not found)\n\Z", re.M)
# Python ends with this line if it asks for a line and there is none.
NO_INPUT = re.compile(rb"^EOFError: EOF when reading a line\n\Z", re.M)
# The most processes that the launcher names of those that a command leaves running.
MOST_NAMED = 5
# The variables by which an order may tell the command the scheduler's address, and what Open MPI moves messages by.
ORDERED_VARIABLES = "DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT", "OMPI_MCA_btl"
# The exit status of a command that is not started because of what was asked for.
NOT_BEGUN = 2
# How often it looks whether the launcher's host is silent.
LOOK_SECONDS = 5.0
# A server that is killed now and then, in a long job, is none that is killed again and again.
RESTARTS_SECONDS = 3600.0


def open_terminal():
    """(our end, the command's end) of a terminal that changes no byte. On a pipe C programs would keep
    lines back until a block is full."""
    ours, theirs = os.openpty()
    mode = termios.tcgetattr(theirs)
    mode[1] &= ~termios.OPOST
    mode[3] &= ~termios.ECHO
    termios.tcsetattr(theirs, termios.TCSANOW, mode)
    return ours, theirs


class Restarts:
    """How often a command is started again: so many times within RESTARTS_SECONDS."""

    def __init__(self, most):
        self.most, self.times = most, []

    def take(self):
        """Whether there is one more, which is used then."""
        now = time.monotonic()
        self.times = [at for at in self.times if now - at < RESTARTS_SECONDS]
        if len(self.times) == self.most:
            return False
        self.times.append(now)
        return True


class Shim:
    """One event loop over the command's output, the launcher's orders, signals and deadlines."""

    def __init__(self, link, group):
        """`group`: of equal processes, one of which this is. `restarts` there: how often the command is started again,
        where signals that nobody ordered end it; `owners`: who may own it beside root and this user; `grace`: how many
        seconds it has to end where a signal to this process asks for that; `ignored`: signals that the command ignores
        unless it says otherwise."""
        self.link, self.command, self.owners = link, group["command"], group.get("owners")
        self.grace, self.ignored = group.get("grace", TERM_SECONDS), group.get("ignored", ())
        self.restarts, self.variables = Restarts(group.get("restarts", 0)), {}
        self.listener = None       # that the command takes over
        self.told = False          # did the launcher or mpirun order the end
        self.killed = False        # and once more
        self.code = None           # how the command ended; its status once what it started has ended, too
        self.wrote = False         # did it write its state when its time was last up
        self.asked = set()         # the processes that were asked to end, and those that are let be
        self.deadline = None       # of what comes next
        self.status = None         # of the command
        self.outputs = {}          # descriptor: its lines
        self.said = b""            # its last bytes on standard error
        self.drained = 0           # bytes of output since the command has ended
        self.events = selectors.DefaultSelector()
        self.wake, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write)
        # Others may send the announcing ones to this process and to the command alike. This one only outlives them. It
        # does not ignore them, for the command would inherit that.
        for number in (signal.SIGCHLD, *ENDING, *ANNOUNCING):
            signal.signal(number, lambda *_: None)
        # Also while it sends, which may block.
        signal.signal(signal.SIGALRM, self.look_at_link)
        signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)
        self.events.register(self.wake, selectors.EVENT_READ, self.on_signal)
        self.events.register(link.connection, selectors.EVENT_READ, self.on_order)
        self.notices = Notices(self.events, self.send)
        # Kept whole: a Popen that nobody holds would take the exit status with it.
        self.child = None

    def start(self, variables):
        self.variables = variables
        os.environ.update(variables)
        out, their_out = self.open_output()
        err, their_err = os.pipe()
        try:
            self.child = self.started(their_out, their_err)
        except OSError as error:
            program = self.command[0]
            os.write(their_err, f"cannot start {program}: {error.strerror}; {place_of(program)}\n".encode())
            if self.child is None:
                self.send(unable=True)
            self.status = 127 if isinstance(error, FileNotFoundError) else 126
        for stream, fd in ((1, out), (2, err)):
            os.close(their_out if stream == 1 else their_err)
            self.outputs[fd] = Lines(stream, self.send)
            self.events.register(fd, selectors.EVENT_READ, lambda fd=fd: self.on_output(fd))
        if self.status is not None:
            self.report_exit()

    def open_output(self):
        """(our end, the command's end) of its standard output."""
        try:
            return open_terminal()
        except OSError as error:
            self.send_line(f"launch.py: no terminal can be opened on {os.uname().nodename} ({error.strerror}), so "
                           "lines of this process may come late; mount devpts at /dev/pts, or raise the limit "
                           "/proc/sys/kernel/pty/max")
            return os.pipe()

    def started(self, out, err):
        problem = None if self.owners is None else problem_of_program(self.command[0], {0, os.geteuid(), *self.owners})
        if problem:
            raise PermissionError(errno.EACCES, problem)
        how = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": err,
               "preexec_fn": dies_with_parent(signal.SIGKILL, self.ignored)}
        if self.listener is None:
            return subprocess.Popen(self.command, **how)
        with self.listener as listener:  # once the command has ended nobody listens there
            number = listener.fileno()
            return subprocess.Popen([*self.command, "--listen-fd", str(number)], pass_fds=[number], **how)

    def listen(self, address):
        self.listener = listen_for_scheduler(address, os.environ)
        self.send(port=self.listener.getsockname()[1])

    def name_left(self):
        """Says what is ended with a command that ended by itself, such as a program that it put into the background."""
        left = {} if self.told else running_below()
        names = [f"{name} (process {pid})" for pid, name in left.items()]
        if names:
            more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
            self.send_line(f"launch.py: the command has ended, and left {', '.join(names[:MOST_NAMED])}{more} running, "
                           f"which {'ends' if len(names) == 1 else 'end'} with it")

    def give_up(self, reason):
        """Before the command was started."""
        self.send_line(reason)
        self.send(unable=True)
        self.send(exit=NOT_BEGUN, told=False)

    def send(self, **message):
        self.link.send(json.dumps(message).encode())

    def send_line(self, text):
        self.send(stream=2, lines=[text])

    def on_output(self, fd):
        try:
            data = os.read(fd, 65536)
        except OSError:  # how a terminal says end of file
            data = b""
        if self.status is not None:
            self.drained += len(data)
            self.deadline = time.monotonic() + DRAIN_SECONDS
        self.outputs[fd].take(data)
        if self.outputs[fd].stream == 2:
            self.said = (self.said + data)[-4096:]
        if not data:
            if self.outputs[fd].stream == 2 and MISSING.search(self.said):
                self.send_line(f"launch.py: {surroundings(self.command)}")
            if self.outputs[fd].stream == 2 and NO_INPUT.search(self.said):
                self.send_line("launch.py: a worker's standard input is empty; let it read a file")
            del self.outputs[fd]
            self.events.unregister(fd)
            os.close(fd)

    def look_at_link(self, *_):
        if is_cut_off(self.link.connection):
            self.link.connection.shutdown(socket.SHUT_RDWR)

    def on_order(self):
        """Variables in JSON, where the scheduler is, start the command; an empty line ends it, and so does {"grace":
        seconds}, which leaves it so much time. {"signal": number} is for the command itself, {"ended": [[title, what
        became of it] ...]} for processes that wait."""
        orders = self.link.receive()
        if orders is None:
            raise ConnectionError("the launcher is gone")
        for order in orders:
            told = json.loads(order) if order else {}
            if not order:
                self.end_command()
            elif "grace" in told:
                # The launcher ends it then. The time beyond is for one that is stopped.
                self.end_command(told["grace"] + TERM_SECONDS)
            elif "signal" in told:
                self.pass_on(told["signal"])
            elif "ended" in told:
                self.notices.tell(told["ended"])
            elif self.child is None and self.status is None:
                self.start({name: told[name] for name in ORDERED_VARIABLES if name in told})

    def pass_on(self, number):
        """A command that has not been started yet has nothing to be told of."""
        if number in ANNOUNCING and self.child is not None and self.code is None:
            os.kill(self.child.pid, number)

    def on_signal(self):
        numbers = os.read(self.wake, 4096)
        if any(number in ENDING for number in numbers):
            self.end_command(self.grace)
        while self.reap():
            pass
        if self.code is not None and self.status is None:
            self.report_when_all_ended()

    def end_command(self, seconds=TERM_SECONDS):
        """Asks the command to end the first time, and kills it the second. The shim asks for the second time itself
        after so many seconds. It continues stopped processes, for they would not get the signal."""
        if self.status is None and self.child is None:
            self.told, self.status = True, 128 + signal.SIGTERM
            self.report_exit()
        elif self.status is None:
            self.asked |= signal_all(signal.SIGKILL if self.told else signal.SIGTERM)
            signal_all(signal.SIGCONT)
            self.killed, self.told = self.told, True
            self.deadline = time.monotonic() + (TERM_SECONDS if self.killed else seconds)
            if self.code is not None:
                self.report_when_all_ended()

    def on_deadline(self):
        """A server that writes its state takes its time, for this would be the last one."""
        writes = lives_below(WRITER)
        if not writes and not self.wrote:
            self.end_command()
            return
        if writes:
            self.send(writes=True)
        self.wrote = writes  # if it has just written all, it has this time again to end
        self.deadline = time.monotonic() + TERM_SECONDS

    def reap(self):
        """Takes one ended process, if there is any; orphans of the command come to this process too."""
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return False
        if pid != 0 and self.told and not self.killed:
            self.ask_orphans(os.waitstatus_to_exitcode(status) == -signal.SIGTERM)
        if self.child and pid == self.child.pid:
            self.on_exit(os.waitstatus_to_exitcode(status))
        return pid != 0

    def ask_orphans(self, ended_by_signal):
        """Asks the children of a process that SIGTERM has ended to end, too: it may have started them while the others
        were asked. A process that ends otherwise may have left a child to save its state, which is let be."""
        orphans = set(children().get(os.getpid(), ())) - self.asked
        self.asked |= orphans
        if ended_by_signal:
            signal_all(signal.SIGTERM, orphans)

    def on_exit(self, code):
        if code < 0 and not self.told and self.restarts.take():
            name = signal.Signals(-code).name
            self.send_line(f"launch.py: {name} ended it; it is started again")
            self.start(self.variables)
            return
        self.code = code if code >= 0 else 128 - code
        self.report_when_all_ended()

    def report_when_all_ended(self):
        """A shell that is asked to end does so at once, while the program that it runs saves its state."""
        if self.told and not self.killed and descendants():
            return
        self.status = self.code
        self.report_exit()

    def report_exit(self):
        """At once, before its last lines: who failed first must not depend on how much it said."""
        self.send(exit=self.status, told=self.told)
        self.deadline = time.monotonic() + DRAIN_SECONDS

    def over(self):
        """Nothing is left to forward, or its time is up. On a busy machine time alone says nothing: the
        command's last lines may lie here unread."""
        if self.status is None:
            return False
        if not self.outputs or self.drained > DRAIN_BYTES:
            return True
        return time.monotonic() >= self.deadline and not self.events.select(0)

    def seconds_left(self):
        """Until the next deadline; None without one."""
        times = [lines.pause_at for lines in self.outputs.values()] + [self.deadline]
        times = [at for at in times if at is not None]
        return max(0.0, min(times) - time.monotonic()) if times else None

    def run(self):
        while not self.over():
            for key, _ in self.events.select(self.seconds_left()):
                key.data()
            for lines in self.outputs.values():
                lines.pause()
            if self.status is None and self.deadline and time.monotonic() >= self.deadline:
                self.on_deadline()
        for lines in self.outputs.values():
            lines.take(b"")


def enter(link, told, number, parent):
    group, rank = part_of(told["groups"], number)
    if "role" in group:
        os.environ.update(DMLC_ROLE=group["role"], DMLC_RANK=str(rank))
    shim = Shim(link, group)
    shim.send(node=node_name())
    if group is told["groups"][0]:
        shim.send(threads=set_share(told, parent))
    try:
        if "folder" in told:
            enter_folder(told["folder"], told["folder_owner"])
        if group.get("role") == "scheduler":
            shim.listen(group.get("address") or link.connection.getsockname()[0])
    except ConnectionError:
        raise
    except (CannotBegin, OSError) as error:
        shim.give_up(problem_text(error))
        return
    if os.getppid() != parent:
        raise ConnectionError("the process that started this one is gone")
    shim.run()
    shim.name_left()


def linked():
    """(the lines to the launcher, what it told this process, the process's number)."""
    told = json.loads(sys.argv[1] if len(sys.argv) > 1 else sys.stdin.readline())
    os.environ.update(told.get("env", {}))
    os.environ.update(json.loads(os.environ.pop(WORKERS_VARIABLES, "{}")))
    token, _, places = os.environ.pop("TUTTI_LAUNCH_CONTACT").partition("@")
    number = index_of(told)
    part_of(told["groups"], number)
    who = json.dumps({"rank": number, "host": os.uname().nodename})
    return connect(places.split(","), token.encode(), who.encode()), told, number


def main():
    parent = os.getppid()
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    adopt_orphans()
    try:
        link, told, number = linked()
    except (CannotBegin, Unreachable, OSError) as error:
        sys.exit(f"{IMPOSSIBLE}{problem_text(error)}")
    if "number" in told:
        print(f"\n{UP}", flush=True)  # on a line of its own: a .bashrc may have begun one
    try:
        enter(link, told, number, parent)
    except Forged as error:
        print(f"{os.uname().nodename}: from the launcher {error}; the command is ended", file=sys.stderr, flush=True)
    except ConnectionError:
        pass  # nobody is left to tell
    except OSError as error:
        sys.exit(f"{IMPOSSIBLE}{os.uname().nodename}: the helper cannot go on: {problem_text(error)}")
    finally:
        end_all()
