"""How a process of a job reaches its launcher. A part of what runs on other hosts."""
import os
import socket
import struct
import time

from launcher.sealed_lines import NONCE_BYTES, SEAL_BYTES, WELCOME, Forged, helpers_end

CONNECT_SECONDS = 20
# Until the next try, where the launcher had no room for this process among strangers.
RETRY_SECONDS = 0.1
# For a peer whose host is silent: after which time it is asked, how often, and how many times.
KEEP_ALIVE = ((socket.TCP_KEEPIDLE, 10), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3))
# How long it may be silent with data on its way to it; then it is not asked.
SILENT_SECONDS = 25
# Where Linux's tcp_info says how often it has asked for room in vain, how many segments are on their way, and how many
# milliseconds ago the last word came.
PROBES, UNACKED, LAST_ACK = 3, 24, 56


# How a process's helper says, where no connection does, why the process cannot run.
IMPOSSIBLE = "launch.py, impossible: "


class TurnedAway(OSError):
    """The connection was there and ended before a welcome."""


class Unreachable(Exception):
    """The launcher is, so that the process cannot run; the text says how it was tried."""


def family_of(address):
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def place_text(address, port):
    """As users write it."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def notice_death(link):
    """A host that is cut off ends the connection, though it says nothing."""
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in KEEP_ALIVE:
        link.setsockopt(socket.IPPROTO_TCP, option, value)


def is_cut_off(link):
    """Whether there is data for a host that is silent. A launcher that reads nothing, such as one that is stopped, is
    on a host that answers whenever it is asked for room, though that is seldom; TCP_USER_TIMEOUT would end the
    connection. What cannot leave this host at all is not on its way, and the kernel asks for room then, too."""
    if link.family == socket.AF_UNIX:
        return False
    told = link.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, LAST_ACK + 4)
    on_its_way, silent = (struct.unpack_from("I", told, at)[0] for at in (UNACKED, LAST_ACK))
    # One question may just be on its way.
    return (on_its_way > 0 or told[PROBES] > 1) and silent > 1000 * SILENT_SECONDS


def read_line(link, length, until):
    """A line that is so long. It may come byte by byte, and nothing behind it is taken."""
    data = b""
    while len(data) <= length:
        link.settimeout(max(0.001, until - time.monotonic()))
        more = link.recv(length + 1 - len(data))
        if not more:
            raise TurnedAway("it turned this process away")
        data += more
    if data[length:] != b"\n":
        raise TurnedAway("the process that listens there is no launcher")
    return data[:length]


def introduce(link, token, hello, until):
    """Introduces this end. The listener must know the token, too: its welcome is sealed."""
    lines, first = helpers_end(link, token, read_line(link, NONCE_BYTES, until), hello)
    link.sendall(first)
    try:
        lines.opened(read_line(link, SEAL_BYTES + len(WELCOME), until))
    except Forged as error:
        raise TurnedAway("the process that listens there does not know this job's token") from error
    return lines


def call(place, token, hello, seconds):
    """The lines to the launcher at HOST:PORT, or, on its own machine, at the name of an abstract socket."""
    until = time.monotonic() + seconds
    host, colon, port = place.rpartition(":")
    if colon:
        link = socket.create_connection((host.strip("[]"), int(port)), timeout=seconds)
        notice_death(link)
    else:
        link = socket.socket(socket.AF_UNIX)
        link.settimeout(seconds)
    try:
        if not colon:
            link.connect("\0" + place)
        lines = introduce(link, token, hello, until)
    except (BlockingIOError, BrokenPipeError, ConnectionResetError) as error:  # the first: too many wait there
        link.close()
        raise TurnedAway(f"it turned this process away: {error.strerror}") from error
    except OSError:
        link.close()
        raise
    link.settimeout(None)
    return lines


def connect(places, token, hello):
    """The launcher may have several addresses; the first that welcomes this process is right. Raises Unreachable."""
    deadline = time.monotonic() + CONNECT_SECONDS
    while True:
        problems, turned_away = [], False
        for place in places:
            try:
                return call(place, token, hello, max(1.0, deadline - time.monotonic()) / len(places))
            except OSError as error:
                turned_away = turned_away or isinstance(error, TurnedAway)
                problems.append(f"{place}: {error}")
        if not turned_away or time.monotonic() > deadline:
            break
        time.sleep(RETRY_SECONDS)
    raise Unreachable(f"{os.uname().nodename} cannot reach the launcher at {', '.join(problems)}; "
                      "name the right network with DMLC_INTERFACE")
