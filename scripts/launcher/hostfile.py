"""The file of hosts, as people write it for any launcher, on any system."""
import codecs
import ipaddress
import re

from launcher.options import UsageError

LINE_END = re.compile("\r\n|\n|\r")
# USER@HOST:COUNT; an IPv6 address has colons of its own, and stands in brackets where a count follows.
PLACE = re.compile(r"(?:(?P<user>[^@]*)@)?(?:\[(?P<address>.*)\]|(?P<name>[^:]*|.*:.*:.*))(?::(?P<count>[^:]*))?")
# A host or a user has such a name. ssh would take a leading dash for an option.
NAME = re.compile(r"\w[\w.-]*")
COUNT = re.compile(r"[1-9]\d{0,8}")
SLOTS, MOST_SLOTS = "slots", ("max_slots", "max-slots", "slots_max", "slots-max")
USUAL = ("write `HOST`, `HOST:COUNT` or `HOST slots=COUNT`, and `USER@HOST` where ssh needs a user; all else that ssh "
         "needs has its place in ~/.ssh/config")


class NoHost(Exception):
    """A line that cannot be read; the text says what to write, where it is known."""


def decoded(data):
    """Editors of Windows put a mark in front, and PowerShell writes UTF-16."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return data.decode("utf-16", "replace")
    return data.removeprefix(codecs.BOM_UTF8).decode("utf-8", "surrogateescape")


def is_ipv6(name):
    try:
        return ipaddress.ip_address(name).version == 6
    except ValueError:
        return False


def count_of(text):
    """A host's number of workers."""
    if text == "0":
        raise NoHost("to give a host no worker, put a # in front of it")
    if not COUNT.fullmatch(text):
        raise NoHost("a number of slots must be a whole number of 1 or more: write `HOST slots=4`")
    return int(text)


def place_of(word):
    """(the host as ssh takes it, its number of workers or None) of a line's first word."""
    match = PLACE.fullmatch(word)
    if match is None:
        raise NoHost
    user, name = match["user"], match["name"] if match["address"] is None else match["address"]
    if not is_ipv6(name) and (match["address"] is not None or not NAME.fullmatch(name)):
        raise NoHost
    if user is not None and not NAME.fullmatch(user):
        raise NoHost
    if match["count"] is not None and not match["count"].isdigit():
        raise NoHost
    return name if user is None else f"{user}@{name}", None if match["count"] is None else count_of(match["count"])


def another_way(text):
    """What to write in place of a line that is not understood. Another program may understand it."""
    words = text.split()
    if re.search(r"\[\d[\d,-]*\]", text):
        return f"`scontrol show hostnames '{words[0]}'` prints these hosts, one a line"
    if re.search("[,;]", text) or len(words) > 1 and all(map(NAME.fullmatch, words)) and not words[1].isdigit():
        return "write one host on each line"
    user = re.search(r"\buser[-_]?(?:name)?=(\S+)", text)
    if user:
        return f"write `{user[1]}@{words[0]}`"
    if re.search(r"\bport=|://", text):
        return "the port that ssh is to use has its place in ~/.ssh/config"
    number = re.match(r"(\w[\w.-]*) (?:[A-Za-z_-]+=)?([1-9]\d{0,8})(?= |$)", text)
    return f"write `{number[1]} slots={number[2]}`" if number else USUAL


def entry(text):
    """(host, slots or None) of a line, which has one blank between words and none beside =."""
    word, *options = text.split()
    host, slots = place_of(word)
    most = None
    for option in options:
        name, _, value = option.partition("=")
        if name == SLOTS and slots is None:
            slots = count_of(value)
        elif name in MOST_SLOTS and most is None:
            most = count_of(value)
        elif name in (SLOTS, *MOST_SLOTS):
            raise NoHost("it gives the number of slots more than once; write one number")
        else:
            raise NoHost
    if slots and most and most < slots:
        raise NoHost(f"it has {slots} slots, but may have at most {most}; write one number")
    return host, slots or most


def read_hostfile(path):
    """[(host, slots or None)] in the file's order; a host on several lines counts as often. `max_slots=` counts where
    there is no `slots=`, beyond which no host is filled anyway."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise UsageError(f"-H {path}: {error.strerror}; it takes a file with one host on each line") from error
    hosts = []
    for number, line in enumerate(LINE_END.split(decoded(data)), 1):
        text = re.sub(r" *= *", "=", " ".join(line.split("#")[0].split()))
        try:
            if text:
                hosts.append(entry(text))
        except NoHost as error:
            said = line.split("#")[0].strip()
            raise UsageError(f"{path}:{number}: cannot read {said!r}: {str(error) or another_way(text)}") from error
    if not hosts:
        raise UsageError(f"-H {path}: the file names no host")
    return hosts
