"""Hosts: the host file, which host gets how many workers, this machine's interfaces, rsync."""
import fcntl
import os
import re
import shlex
import shutil
import socket
import struct
import subprocess
import sys
import time

from command_line import printable
from launcher.options import UsageError
from launcher.output import write

SIOCGIFADDR = 0x8915
# How rsync says that files went away while it copied, such as a program's temporary ones.
VANISHED = 24
# Nobody is there to answer a question.
SSH = ["ssh", "-oBatchMode=yes", "-oConnectTimeout=20"]


def read_hostfile(path):
    """[(host, slots or None)] in the file's order; a host on several lines counts as often."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape") as file:
            lines = file.readlines()
    except OSError as error:
        raise UsageError(f"-H {path}: {error.strerror}") from error
    hosts = []
    for number, line in enumerate(lines, 1):
        text = line.split("#")[0].strip()
        match = re.fullmatch(r"([^\s=]+)(?:\s+slots\s*=\s*([1-9]\d*))?", text)
        # ssh would take a leading dash for an option.
        if match and match[1].isprintable() and match[1][0] != "-":
            hosts.append((match[1], int(match[2]) if match[2] else None))
        elif text:
            raise UsageError(f"{path}:{number}: {text!r} is not `HOST` or `HOST slots=COUNT`")
    if not hosts:
        raise UsageError(f"-H {path}: names no host")
    return hosts


def deal(workers, hosts):
    """[(host, workers there)]: as many as slots where the file says so, otherwise even shares, the first
    hosts getting one more. Workers of one host have consecutive ranks."""
    if any(slots for _, slots in hosts):
        room = [slots or 1 for _, slots in hosts]
        if sum(room) < workers:
            raise UsageError(f"{workers} workers do not fit: the host file has {sum(room)} slots; "
                             "raise slots= there or lower -n")
        shares = []
        for slots in room:
            shares.append(min(slots, workers - sum(shares)))
    else:
        each, more = divmod(workers, len(hosts))
        shares = [each + (1 if i < more else 0) for i in range(len(hosts))]
    merged = {}
    for (host, _), share in zip(hosts, shares):
        if share:
            merged[host] = merged.get(host, 0) + share
    return list(merged.items())


def address_of(interface):
    """The interface's IPv4 address, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("256s", interface.encode()[:15])
        try:
            answer = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, request)
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])


def addresses(wanted=None):
    """{interface: address} of this machine; of the wanted one alone if it is given."""
    known = {name: address_of(name) for _, name in socket.if_nameindex()}
    known = {name: address for name, address in known.items() if address}
    if wanted is None:
        return known
    if wanted not in known:
        raise UsageError(f"DMLC_INTERFACE={wanted}: no such interface with an IPv4 address here; "
                         f"there are {', '.join(known)}")
    return {wanted: known[wanted]}


def route_to(host):
    """This host's address on the way to another, or None where its name says nothing here, as one of ssh's does."""
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((host, 9))  # sends nothing
            return probe.getsockname()[0]
    except OSError:
        return None


def reachable(interface=None, others=()):
    """The addresses at which other hosts may reach this one, best first: of its interfaces, or of the one asked for."""
    known = list(addresses(interface).values())
    routes = [route_to(host) for host in others]
    ordered = dict.fromkeys([*(address for address in routes if address in known), *known])
    # On another host this one's loopback address is that host.
    return [address for address in ordered if not address.startswith("127.")] or known


def rsync_words(source, host, folder):
    return ["rsync", "-a", "-e", shlex.join(SSH), f"{source}/", f"{host}:{folder}"]


def sync(hosts, folder):
    """Copies the current folder to every host; a log line each. To the first alone, then to the rest at once: on
    a file system that hosts share the rest find everything there and get in nobody's way."""
    if shutil.which("rsync") is None:
        raise UsageError("--sync-dst-dir needs rsync, here and on every host: apt-get install rsync")
    failed = copy_to(hosts[:1], folder) or copy_to(hosts[1:], folder)
    if failed:
        raise UsageError("--sync-dst-dir: rsync failed", failed)


def copy_to(hosts, folder):
    """To all at once. Lines that say what failed."""
    source = os.getcwd()
    copies = []
    for host in hosts:
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        write(sys.stdout, [f"{now} rsync {printable(source)}/ -> {printable(host)}:{printable(folder)}"])
        words = rsync_words(source, host, folder)
        copies.append((words, subprocess.Popen(words, stdin=subprocess.DEVNULL,
                                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)))
    failed = []
    for words, process in copies:
        said, _ = process.communicate()
        if process.returncode not in (0, VANISHED):
            failed += [f"{shlex.join(words)} failed with {process.returncode}:",
                       *said.decode("utf-8", "surrogateescape").rstrip().split("\n")]
    return failed
