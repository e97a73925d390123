"""The classes that torch sees: a Backend, or with an old torch a ProcessGroup."""
import torch
from torch._C import _distributed_c10d as c10d

from tutti.errors import UnsupportedError
from tutti.torch import _buffers
from tutti.torch._group import Group, create
from tutti.torch._moving import Moving
from tutti.torch._reducing import Reducing
from tutti.torch._synchronizing import Synchronizing
from tutti.torch._work import Held, Work


ANY_SOURCE = ("recv from any rank: this PyTorch does not let a group of Python's tell whose tensor it took; name the "
              "rank, or make another group for such calls, on every rank: torch.distributed.new_group(backend='gloo')")


class Collectives(Reducing, Moving, Synchronizing):
    """The part that both classes have in common."""

    def _take(self, group, store, timeout):
        self._group = group
        self._c10d_store = store
        self._timeout = timeout
        self._sequence = 0

    def _set_sequence_number_for_group(self):
        """Does nothing: torch compares how many calls the ranks have made, and all ranks begin with 0."""

    def _get_sequence_number_for_group(self):
        return self._sequence

    def _work(self, parts, results, opts):
        """The Work of these parts: [(submission, last step or None)]."""
        self._sequence += 1
        submissions, steps = zip(*parts) if parts else ((), ())
        return Work(submissions, list(results), steps, limit_of(opts))

    def getBackendName(self):  # pylint: disable=invalid-name  # C++ calls it by this name
        return "tutti"

    def shutdown(self):
        """Closes the store after the calls whose data already moves are done. Not collective."""
        self._group.close()

    abort = shutdown


def limit_of(opts):
    """The timeout in a call's options, in seconds; None if there is none."""
    timeout = getattr(opts, "timeout", None)
    return timeout.total_seconds() if timeout is not None and timeout.total_seconds() > 0 else None


class OldProcessGroup(Collectives, c10d.ProcessGroup):
    """The process group for a torch whose Backend cannot have subclasses in Python."""

    def __init__(self, rank, size, group, store, timeout):
        c10d.ProcessGroup.__init__(self, rank, size)
        self._held = Held()
        self._size, self._rank = size, rank
        self._take(group, store, timeout)

    def _work(self, parts, results, opts):
        return self._held.hold(super()._work(parts, results, opts))

    def getRank(self):  # pylint: disable=invalid-name
        return self._rank

    def getSize(self):  # pylint: disable=invalid-name
        return self._size


#: The backends that are not shut down yet.
kept = set()

if hasattr(c10d, "Backend"):
    class TuttiBackend(Collectives, c10d.Backend):
        """The backend for torch 2. It defines every property, because torch recurses for ever into a missing one."""

        supports_splitting = True
        supports_coalescing = False
        supports_shrinking = False
        supports_reconfigure = False
        supports_window = False
        supports_abort_hooks = False
        supports_completion_hooks = False
        _supports_time_estimate = False

        def __init__(self, rank, size, group, store, timeout):
            c10d.Backend.__init__(self, rank, size)
            self._options = c10d.Backend.Options("tutti")
            self._options._timeout = timeout
            self._take(group, store, timeout)
            # In its debug mode torch keeps only the C++ part of the object, which cannot call methods in Python.
            kept.add(self)

        def shutdown(self):
            kept.discard(self)
            super().shutdown()

        abort = shutdown

        @property
        def options(self):
            return self._options

        def split(self, store, ranks, options):
            """Makes a group of some of this group's ranks. Collective over these ranks, and blocking."""
            if self.rank() not in ranks:
                return None
            members = [self._group.members[rank] for rank in ranks]
            timeout = options._timeout if options is not None else self._timeout
            group = Group(create(timeout, members), members, timeout)
            return TuttiBackend(list(ranks).index(self.rank()), len(ranks), group, store, timeout)

        def recv_anysource(self, tensors, tag):
            raise UnsupportedError(ANY_SOURCE)

        def supports_tensor_alloc(self, device):
            """Whether `allocate_tensor` serves this device. C++ passes the number of a GPU, which it does not serve."""
            return isinstance(device, torch.device) and device.type == "cpu"

        def allocate_tensor(self, size, *, dtype, device):
            """A tensor in memory that the ranks of a machine share. The store exchanges it without copies."""
            return torch.from_numpy(self._group.spares.take(_buffers.bytes_of(size, dtype))).view(dtype)


def shell_class():
    """The class for this torch. It tries to derive from Backend, which some versions of torch do not allow."""
    try:
        type("Probe", (c10d.Backend,), {})(0, 1)
    except (AttributeError, TypeError):
        return OldProcessGroup
    return TuttiBackend
