"""Either end of the launcher's link, for tests of the other one."""
import pathlib
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

from launcher.contact import read_line
from launcher.sealed_lines import NONCE_BYTES, WELCOME, helpers_end, launchers_end, new_nonce

SECONDS = 20


def answer(connection, token, text):
    """(the end of a helper that has this token, its first line) for the nonce that comes."""
    nonce = read_line(connection, NONCE_BYTES, time.monotonic() + SECONDS)
    connection.settimeout(SECONDS)
    return helpers_end(connection, token.encode(), nonce, text)


def first_line(connection):
    """Reads a helper's first line byte by byte; if the connection ends, returns the part that came."""
    line = b""
    while not line.endswith(b"\n") and (byte := connection.recv(1)):
        line += byte
    return line


def welcome(connection, token):
    """(the end of a launcher that has this token and lets the helper in, the helper's first text)."""
    nonce = new_nonce()
    connection.settimeout(SECONDS)
    connection.sendall(nonce + b"\n")
    lines, text = launchers_end(connection, token.encode(), nonce, first_line(connection)[:-1])
    lines.send(WELCOME)
    return lines, text


def pair(token):
    """(launcher's end, helper's end) of a connection on which both have said their first words."""
    ours, theirs = socket.socketpair()
    nonce = new_nonce()
    helper, line = helpers_end(theirs, token.encode(), nonce, b"hello")
    launcher, _ = launchers_end(ours, token.encode(), nonce, line[:-1])
    helper.opened(launcher.sealed(WELCOME)[:-1])
    return launcher, helper
