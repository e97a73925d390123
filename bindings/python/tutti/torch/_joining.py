"""Makes torch's process groups out of processes that mpirun has started."""
import datetime
import fcntl
import importlib
import os
import socket
import struct

import torch.distributed as dist

from tutti.errors import InvalidArgumentError, UnsupportedError
from tutti.torch._group import Group, create
from tutti.torch._shells import shell_class

#: Linux's SIOCGIFADDR.
ADDRESS_OF_INTERFACE = 0x8915
#: A rank tries each address of rank 0 for this many seconds.
REACH = 5.0


class World:
    """Keeps the store over all ranks of the job until torch's default group takes it."""

    def __init__(self):
        self._waiting = None
        #: The rank in MPI of each rank of torch.
        self.ranks = []

    def prepare(self, timeout):
        """Collective over all ranks of the job, and blocking."""
        self._waiting = create(timeout)
        self.ranks = list(range(self._waiting.num_workers))
        return self._waiting

    def give_back(self):
        """Closes the store if the default group is another backend's. Not collective."""
        kv, self._waiting = self._waiting, None
        if kv is not None:
            kv.close()

    def take(self, rank, size, timeout):
        """Returns the store of the default group. Collective over all ranks of the job, and blocking."""
        kv, self._waiting = self._waiting or create(timeout), None
        if kv.num_workers != size:
            kv.close()
            raise UnsupportedError(f"WORLD_SIZE is {size}, and mpirun has started {kv.num_workers} processes, which "
                                   f"all belong to torch's default group; type mpirun -n {size}, and make smaller "
                                   "groups with torch.distributed.new_group")
        told = kv.allgather_object(rank)
        if sorted(told) != list(range(size)):
            kv.close()
            raise InvalidArgumentError(f"init_process_group: MPI's ranks 0 to {size - 1} call themselves {told} in "
                                       "RANK; each has to be there once")
        self.ranks = sorted(range(size), key=told.__getitem__)
        return kv

    def ranks_of(self, members):
        """Translates ranks of torch's default group to ranks of MPI."""
        if not self.ranks:
            raise UnsupportedError("new_group: torch's default group is not tutti's, and counts its ranks by RANK, so "
                                   "that tutti cannot tell which of MPI's ranks they are; begin with "
                                   "init_process_group('tutti'), or unset RANK before it: MPI tells the ranks then")
        return [self.ranks[member] for member in members]


world = World()


def make_group(opts, _):
    """Makes a process group for torch. Collective over its members, and blocking."""
    rank, size, members = opts.group_rank, opts.group_size, list(opts.global_ranks_in_group)
    if not members:
        group = Group(world.take(rank, size, opts.timeout), world.ranks, opts.timeout)
    else:
        of_mpi = world.ranks_of(members)
        group = Group(create(opts.timeout, of_mpi), of_mpi, opts.timeout)
    return shell_class()(rank, size, group, opts.store, opts.timeout)


def addresses():
    """The IPv4 addresses of this machine in all of its networks, without loopback."""
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        for _, name in socket.if_nameindex():
            try:
                told = fcntl.ioctl(any_socket, ADDRESS_OF_INTERFACE, struct.pack("256s", name.encode()))
            except OSError:  # this network has no IPv4 address
                continue
            found.append(socket.inet_ntoa(told[20:24]))
    return [address for address in found if not address.startswith("127.")]


def reachable(candidates, port):
    for address in candidates:
        try:
            with socket.create_connection((address, port), REACH):
                return address
        except OSError:
            continue
    raise UnsupportedError(f"torch's TCPStore: rank 0 listens at port {port} of {', '.join(candidates)}, and this rank "
                           "reaches none of them; set MASTER_ADDR, MASTER_PORT, RANK and WORLD_SIZE on every rank")


def meet(timeout):
    """(TCPStore, rank, number of ranks), all told by MPI. Collective over all ranks of the job, and blocking."""
    kv = world.prepare(timeout)
    if kv.rank == 0:
        store = dist.TCPStore("0.0.0.0", 0, None, True, timeout, wait_for_workers=False)
        kv.broadcast_object((addresses(), store.port, socket.gethostname()))
    else:
        there, port, host = kv.broadcast_object()
        near = ["127.0.0.1"] if host == socket.gethostname() else []
        store = dist.TCPStore(reachable([*near, *there], port), port, None, False, timeout, wait_for_workers=False)
    return store, kv.rank, kv.num_workers


def by_environment_or_mpi(own):
    """A rendezvous for torch that asks MPI for rank and size if the environment does not tell them.

    own: torch's rendezvous, which serves if the environment tells. Torch does not say for which backend it asks. So
    MPI also tells the ranks of other backends.
    """
    def handler(url, timeout=datetime.timedelta(minutes=30), **how):
        if "RANK" in os.environ or "?" in url:
            world.ranks = []
            yield from own(url, timeout=timeout, **how)
            return
        try:
            yield meet(timeout)
        finally:  # torch lets go of this generator when it has made the default group
            world.give_back()
        raise RuntimeError("a second rendezvous through MPI is not possible; start the job again")
    return handler


def register():
    """Registers the backend with torch. Further calls do nothing."""
    if "TUTTI" in dist.Backend._plugins:
        return
    try:
        dist.Backend.register_backend("tutti", make_group, extended_api=True, devices=["cpu"])
    except TypeError:  # an old torch knows no devices
        dist.Backend.register_backend("tutti", make_group, extended_api=True)
    # torch.distributed.rendezvous is a function, which hides the module of that name.
    handlers = importlib.import_module("torch.distributed.rendezvous")._rendezvous_handlers
    handlers["env"] = by_environment_or_mpi(handlers["env"])
