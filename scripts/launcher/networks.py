"""This machine's networks, and the addresses at which other hosts reach it."""
import fcntl
import ipaddress
import socket
import struct

from launcher.options import UsageError

SIOCGIFADDR = 0x8915
# Of Linux's /proc/net/if_inet6: an address that is valid beyond its link and this machine, and the marks of one that
# cannot be used: another host has it, or it may be another's yet.
GLOBAL, UNUSABLE = 0x00, 0x08 | 0x40


def ipv4_of(interface):
    """The interface's IPv4 address, or None."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("256s", interface.encode()[:15])
        try:
            answer = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, request)
        except OSError:
            return None
    return socket.inet_ntoa(answer[20:24])


def ipv6_of_all():
    """[(interface, address)] of those that other hosts may use."""
    try:
        with open("/proc/net/if_inet6", encoding="ascii") as file:
            rows = [line.split() for line in file]
    except OSError:  # a kernel without IPv6
        return []
    return [(name, str(ipaddress.IPv6Address(bytes.fromhex(address)))) for address, _, _, scope, flags, name in rows
            if int(scope, 16) == GLOBAL and not int(flags, 16) & UNUSABLE]


def addresses(wanted=None):
    """{interface: its addresses, at least one} of this machine; of the wanted one alone if it is given."""
    known = {}
    for _, name in socket.if_nameindex():
        known.setdefault(name, []).extend(filter(None, [ipv4_of(name)]))
    for name, address in ipv6_of_all():
        known.setdefault(name, []).append(address)
    known = {name: each for name, each in known.items() if each}
    if wanted is None:
        return known
    if wanted not in known:
        raise UsageError(f"DMLC_INTERFACE={wanted}: no such interface with an address here; "
                         f"there are {', '.join(known)}")
    return {wanted: known[wanted]}


def name_of(host):
    """The host in ssh's USER@HOST."""
    return host.rpartition("@")[2]


def resolved(host):
    """[(family, address)] of a host; none where its name says nothing here, as one of ssh's does."""
    try:
        found = socket.getaddrinfo(name_of(host), 9, type=socket.SOCK_DGRAM)
    except (OSError, UnicodeError):
        return []
    return [(family, address) for family, _, _, _, address in found]


def route_to(host):
    """This host's address on the way to another, or None."""
    for family, address in resolved(host):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect(address)  # sends nothing
                return probe.getsockname()[0]
        except OSError:
            continue
    return None


def is_loopback(address):
    return ipaddress.ip_address(address.partition("%")[0]).is_loopback


def is_here(host):
    """Whether its name leads to this machine."""
    own = {address for each in addresses().values() for address in each}
    found = {address[0] for _, address in resolved(host)}
    return any(address in own or is_loopback(address) for address in found)


def reachable(interface=None, others=()):
    """The addresses at which the other hosts may reach this one, best first: of its interfaces, or of the one asked
    for."""
    known = [address for each in addresses(interface).values() for address in each]
    routes = [route_to(host) for host in others]
    ordered = dict.fromkeys([*(address for address in routes if address in known), *known])
    # On another host this one's loopback address is that host.
    usable = [address for address in ordered if not is_loopback(address)]
    far = [host for host in others if not is_here(host)] if not usable else []
    if far and interface:
        raise UsageError(f"DMLC_INTERFACE={interface} leads only to this machine, but {far[0]} is another host; there "
                         f"are {', '.join(addresses())}")
    if far:
        raise UsageError(f"{far[0]} is another host, but this machine has no address by which other hosts can reach it")
    return usable or known
