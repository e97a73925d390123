"""Where workers come in. Anyone may knock: what a connection says is bytes until it has shown that it knows the job's
token, and until then it gets little room, little time and no more than its share of the open files."""
import errno
import os
import resource
import selectors
import socket
import struct
import time

from launcher.contact import family_of, place_text
from launcher.options import UsageError
from launcher.sealed_lines import Forged, launchers_end, new_nonce
from launcher.worker import hello_of

# Of a worker's first line, which says `{"rank": 0, "host": "h0"}`.
HELLO_BYTES = 4096
HELLO_SECONDS = 5.0
# So long nobody is turned away for who comes after it: the time in which a worker answers, if its host is not busy.
ANSWER_SECONDS = 0.05
MOST_UNKNOWN = 128
# The files that the launcher may have open besides the workers' connections.
SPARE_FILES = 24
# How long nobody is let in when there is no file left, and nobody whose file could be had.
PAUSE_SECONDS = 0.1
OUT_OF_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
BACKLOG = 1024


def room_for(workers):
    """How many connections may be open that are not known yet."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if most == resource.RLIM_INFINITY:
        return MOST_UNKNOWN
    room = most - workers - SPARE_FILES
    if room < 1:
        raise UsageError(f"{workers} workers need {workers + SPARE_FILES + 1} open files here, and {most} are allowed; "
                         f"allow more: ulimit -n {max(1024, 2 * workers)}")
    return min(room, MOST_UNKNOWN)


def listen_at(address):
    try:
        listener = socket.create_server((address, 0), family=family_of(address), backlog=BACKLOG)
    except OSError as error:
        raise UsageError(f"cannot listen at {address}: {error.strerror}; "
                         "choose another network with DMLC_INTERFACE") from error
    return listener, place_text(*listener.getsockname()[:2])


def listen_here(name):
    """An abstract Unix socket: no network leads to it, and no file of it stays."""
    listener = socket.socket(socket.AF_UNIX)
    listener.bind("\0" + name)
    listener.listen(BACKLOG)
    return listener, name


def is_another_users(connection):
    if connection.family != socket.AF_UNIX:
        return False
    _, user, _ = struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))
    return user != os.getuid()


class Caller:
    """A connection that has not shown yet that it knows the token."""

    def __init__(self, connection, origin):
        self.connection, self.origin, self.nonce, self.said = connection, origin, new_nonce(), b""
        self.since = time.monotonic()
        self.until = self.since + HELLO_SECONDS

    def greet(self):
        """Whether it is there still: a new connection has room for a nonce."""
        try:
            self.connection.sendall(self.nonce + b"\n")
        except OSError:
            return False
        return True


class Door:
    """Listens at the addresses, or, without any, for processes of this machine. Never blocks. `admit(lines, rank,
    host)` is called for whoever knows the token. It takes the connection over, or returns False."""

    def __init__(self, events, token, workers, addresses, admit):
        self.events, self.token, self.admit = events, token.encode(), admit
        self.room = room_for(workers)
        self.callers = {}       # as keys, the oldest first
        self.turned_away, self.first_origin = 0, ""
        self.closed_until = None
        opened = [*map(listen_at, addresses)] or [listen_here(f"tutti-launch-{os.urandom(8).hex()}")]
        self.listeners = [listener for listener, _ in opened]
        self.places = [place for _, place in opened]
        for listener in self.listeners:
            listener.setblocking(False)
        self.open()

    def open(self):
        self.closed_until = None
        for listener in self.listeners:
            self.events.register(listener, selectors.EVENT_READ, lambda listener=listener: self.on_knock(listener))

    def on_knock(self, listener):
        if self.closed_until is not None or not self.has_room():
            return
        try:
            connection, peer = listener.accept()
        except OSError as error:
            if error.errno in OUT_OF_ROOM:
                self.make_room()
            return  # anything else: it has gone again
        caller = Caller(connection, peer[0] if listener.family != socket.AF_UNIX else "this machine")
        connection.setblocking(False)
        self.callers[caller] = True
        self.events.register(connection, selectors.EVENT_READ, lambda: self.on_words(caller))
        if is_another_users(connection) or not caller.greet():
            self.turn_away(caller)

    def has_room(self):
        """Makes it, unless those who are there had no time yet; then others wait at the door."""
        if len(self.callers) < self.room:
            return True
        settled = next(iter(self.callers)).since + ANSWER_SECONDS
        if time.monotonic() < settled:
            self.pause(settled)
            return False
        self.turn_away_oldest()
        return True

    def make_room(self):
        if self.callers:
            self.turn_away_oldest()
        else:
            self.pause(time.monotonic() + PAUSE_SECONDS)

    def pause(self, until):
        self.unregister()
        self.closed_until = until

    def unregister(self):
        for listener in self.listeners:
            self.events.unregister(listener)

    def on_words(self, caller):
        """Looks at a line only when it is complete, and at what it says only behind the right seal."""
        if caller not in self.callers:
            return
        try:
            data = caller.connection.recv(HELLO_BYTES - len(caller.said))
        except BlockingIOError:
            return
        except OSError:
            data = b""
        caller.said += data
        line, end, rest = caller.said.partition(b"\n")
        if end and not rest:  # a worker waits for its welcome
            self.on_hello(caller, line)
        elif not data or rest or len(line) == HELLO_BYTES:
            self.turn_away(caller)

    def on_hello(self, caller, line):
        try:
            lines, text = launchers_end(caller.connection, self.token, caller.nonce, line)
        except Forged:
            self.turn_away(caller)
            return
        hello = hello_of(text)
        if hello is not None and self.admit(lines, *hello):
            del self.callers[caller]
        else:
            self.turn_away(caller)

    def hang_up(self, caller):
        del self.callers[caller]
        self.events.unregister(caller.connection)
        caller.connection.close()

    def turn_away(self, caller):
        self.hang_up(caller)
        self.turned_away += 1
        self.first_origin = self.first_origin or caller.origin

    def turn_away_oldest(self):
        self.turn_away(next(iter(self.callers)))

    def deadline(self):
        """When to call `expire`, or None."""
        if self.closed_until is not None:
            return self.closed_until
        return next(iter(self.callers)).until if self.callers else None

    def expire(self):
        now = time.monotonic()
        while self.callers and next(iter(self.callers)).until <= now:
            self.turn_away_oldest()
        if self.closed_until is not None and self.closed_until <= now:
            self.open()

    def close(self):
        for caller in list(self.callers):
            self.hang_up(caller)
        if self.closed_until is None:
            self.unregister()
        for listener in self.listeners:
            listener.close()
