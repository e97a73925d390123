"""Connections to the launcher that come from no worker, of every kind."""
import json
import os
import socket
import struct

from link_ends import answer

RANKS_OF_NOBODY = (-1, 3, 10**9, 10**300, True, 0.5, "0", None, [0])


class Answer:
    """The first line of a process that has this token, with one change. The line depends on the nonce that the launcher
    sends.
    """

    def __init__(self, token, text, change=lambda line: line):
        self.token, self.text, self.change = token, text, change

    def line(self, connection):
        return self.change(answer(connection, self.token, self.text)[1])


def hello(token, change=lambda line: line, **said):
    return Answer(token, json.dumps(said).encode(), change)


def words_of_strangers(token):
    """{kind: bytes or Answer}: what strangers say, without the token and with it, to a job of three workers whose ranks
    are all taken.
    """
    wrong = ("0" if token[0] != "0" else "1") + token[1:]
    without = {
        "a number": b"5\n", "null": b"null\n", "a list without an end": b"[" * 3000 + b"\n", "an empty line": b"\n",
        "half a character": b'{"token":"\\ud800"}\n', "a token in JSON": b'{"token": "abc", "rank": 0, "host": "h"}\n',
        "a wrong token": hello("abc", rank=0, host="h"),
        "a wrong token of the right length": hello(wrong, rank=0, host="h"),
        "the token itself": f'{token} {{"rank": 0, "host": "h"}}\n'.encode(),
        "the token in capitals": hello(token.upper().replace("0", "O"), rank=0, host="h"),
        "the token cut short": hello(token[:-1], rank=0, host="h"),
        "a blank before the nonce": hello(token, lambda line: b" " + line, rank=0, host="h"),
        "a seal cut short": hello(token, lambda line: line[:40] + line[96:], rank=0, host="h"),
        "no seal": hello(token, lambda line: line[:32] + line[96:], rank=0, host="h"),
        "a hello that was changed": hello(token, lambda line: line.replace(b"0,", b"1,"), rank=0, host="h"),
        "a line without an end": b"x" * 70_000, "zeros": bytes(5000), "bytes": bytes(range(256)) * 4,
        "TLS": bytes.fromhex("16030100c8010000c40303") + os.urandom(180).replace(b"\n", b"-"),
        "HTTP": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        "nothing": b"",
    }
    behind = {"a list without an end": b"[" * 3000, "no JSON": b"{", "no object": b"5", "no end of line": b"x" * 5000}
    with_token = {f"the token, then {kind}": Answer(token, said) for kind, said in behind.items()}
    with_token |= {f"rank {rank!r:.20}": hello(token, rank=rank, host="h") for rank in RANKS_OF_NOBODY}
    with_token |= {"no host": hello(token, rank=0), "a host that is none": hello(token, rank=0, host=5),
                   "more than a hello": hello(token, rank=0, host="h", more=1),
                   "two lines": hello(token, lambda line: line + b'{"exit": 0, "told": false}\n', rank=0, host="h")}
    return without, with_token


def call(place):
    """A connection to HOST:PORT, or to an abstract socket's name."""
    host, colon, port = place.rpartition(":")
    if colon:
        return socket.create_connection((host, int(port)), timeout=20)
    connection = socket.socket(socket.AF_UNIX)
    connection.connect("\0" + place)
    connection.settimeout(20)
    return connection


def send(connection, data):
    try:
        connection.sendall(data)
    except OSError:
        pass  # turned away before its last word


def speak(connection, words):
    send(connection, words.line(connection) if isinstance(words, Answer) else words)


def is_turned_away(connection):
    """Whether the connection is turned away, perhaps after the nonce that everyone gets."""
    try:
        while connection.recv(4096):
            pass
    except (ConnectionError, TimeoutError) as error:
        return isinstance(error, ConnectionError)
    return True


class Siege:
    """Makes connections of every kind in turn. Some of them stay open as long as the launcher allows."""

    def __init__(self, contact):
        self.token, _, places = contact.partition("@")
        self.place = places.split(",")[0]
        without, with_token = words_of_strangers(self.token)
        taken = {f"rank {rank} again": hello(self.token, rank=rank, host="h") for rank in range(3)}
        self.kinds = [*without.values(), *with_token.values(), *taken.values(), "half-open", "drip", "reset"]
        self.held, self.dripping = [], []

    def attack(self, count):
        for number in range(count):
            kind = self.kinds[number % len(self.kinds)]
            connection = call(self.place)
            if kind in ("half-open", "drip"):
                (self.held if kind == "half-open" else self.dripping).append(connection)
            elif kind == "reset":
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                connection.close()
            else:
                speak(connection, kind)
                connection.close()
            if number % 1000 == 0:
                for slow in self.dripping:
                    send(slow, self.token[:1].encode())

    def all_are_turned_away(self):
        return all(map(is_turned_away, self.held + self.dripping))

    def end(self):
        for connection in self.held + self.dripping:
            connection.close()
