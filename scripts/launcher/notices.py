"""Tells the processes of a command, while they wait for others, which processes of the job have ended. A part of what
runs on other hosts.

A process that waits connects to an abstract Unix socket beside it, whose name is in NOTICES_VARIABLE. Each message is
a packet:
    process: the name of its job, as MPI or its place in a parameter-server job gives it; nothing else is heard before
    here:    "worker 1\\nworker 1 on h1 ended with exit code 3", for each process that has ended or ends later
    process: COMPLETE, of the scheduler, once all processes of its job have come
The kernel says whose the processes are; those of another user are not heard. lib/net/end_notices.h is the other end.
"""
import os
import secrets
import selectors
import socket
import struct

NOTICES_VARIABLE = "TUTTI_END_NOTICES"
COMPLETE = b"complete"
LONGEST_PACKET = 4096
# Processes that wait at a time; one command seldom has more than one.
MOST_WAITING = 64


def names_of_job():
    """By which the processes here know their job. Another job that a command starts has others."""
    names = {os.environ.get("PMIX_NAMESPACE", ""),
             ":".join(os.environ.get(name, "") for name in ("DMLC_PS_ROOT_URI", "DMLC_PS_ROOT_PORT"))}
    return {name.encode() for name in names - {"", ":"}}


def user_of(connection):
    """The effective user of the process that connected."""
    size = struct.calcsize("3i")
    return struct.unpack("3i", connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[1]


class Notices:
    """The listener, and the connections of those that wait, in the event loop of the shim."""

    def __init__(self, events, send):
        """`send`: tells the launcher {"waits": whether a process waits}, so that it says who has ended, and
        {"complete": true}."""
        self.events, self.send = events, send
        self.waiting = {}  # connection: has it named the job
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        name = f"tutti-ends-{secrets.token_hex(16)}"
        self.listener.bind("\0" + name)
        self.listener.listen()
        self.listener.setblocking(False)
        os.environ[NOTICES_VARIABLE] = name
        events.register(self.listener, selectors.EVENT_READ, self.on_caller)

    def on_caller(self):
        try:
            connection, _ = self.listener.accept()
        except OSError:  # it has gone, or there is no descriptor for it
            return
        if user_of(connection) != os.geteuid() or len(self.waiting) >= MOST_WAITING:
            connection.close()
            return
        connection.setblocking(False)
        self.waiting[connection] = False
        self.events.register(connection, selectors.EVENT_READ, lambda: self.on_packet(connection))

    def on_packet(self, connection):
        try:
            packet = connection.recv(LONGEST_PACKET)
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        if not self.waiting[connection]:
            if packet not in names_of_job():
                self.drop(connection)
                return
            self.waiting[connection] = True
            self.send(waits=True)
        elif packet == COMPLETE:
            self.send(complete=True)
        else:
            self.drop(connection)

    def drop(self, connection):
        self.events.unregister(connection)
        connection.close()
        if self.waiting.pop(connection) and not any(self.waiting.values()):
            self.send(waits=False)

    def tell(self, ended):
        """`ended`: [(title, what became of it)], as the launcher says."""
        for connection in [connection for connection, knows in self.waiting.items() if knows]:
            for title, text in ended:
                try:
                    connection.send(f"{title}\n{text}".encode())
                except OSError:  # it has gone, or has heard of more ends than it reads
                    break
