"""Process groups as torch has them: a Backend of one, or under an old torch the group itself."""
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
    """What both have in common."""

    def _take(self, group, store, timeout):
        self._group = group
        self._c10d_store = store
        self._timeout = timeout
        self._sequence = 0

    def _set_sequence_number_for_group(self):
        """Torch's debugging compares how many calls the ranks have made. It begins with 0 on all of them."""

    def _get_sequence_number_for_group(self):
        return self._sequence

    def _work(self, parts, results, opts):
        """Of [(submission, last step or None)]."""
        self._sequence += 1
        submissions, steps = zip(*parts) if parts else ((), ())
        return Work(submissions, list(results), steps, limit_of(opts))

    def getBackendName(self):  # pylint: disable=invalid-name  # C++ asks for it
        return "tutti"

    def shutdown(self):
        """Closes the store, once what has begun to move is exchanged. Not collective."""
        self._group.close()

    abort = shutdown


def limit_of(opts):
    """The seconds that a call's options ask for; None where they ask for none."""
    timeout = getattr(opts, "timeout", None)
    return timeout.total_seconds() if timeout is not None and timeout.total_seconds() > 0 else None


class OldProcessGroup(Collectives, c10d.ProcessGroup):
    """For a torch whose Backend Python cannot derive from."""

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


#: Backends until they are shut down.
kept = set()

if hasattr(c10d, "Backend"):
    class TuttiBackend(Collectives, c10d.Backend):
        """Each property is defined: where torch asks for one that is not, it asks itself without end."""

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
            # Torch's debugging keeps what C++ has of it alone, which knows nothing of Python's methods.
            kept.add(self)

        def shutdown(self):
            kept.discard(self)
            super().shutdown()

        abort = shutdown

        @property
        def options(self):
            return self._options

        def split(self, store, ranks, options):
            """A group of some of this one's ranks. Collective over them, and blocking."""
            if self.rank() not in ranks:
                return None
            members = [self._group.members[rank] for rank in ranks]
            timeout = options._timeout if options is not None else self._timeout
            group = Group(create(timeout, members), members, timeout)
            return TuttiBackend(list(ranks).index(self.rank()), len(ranks), group, store, timeout)

        def recv_anysource(self, tensors, tag):
            raise UnsupportedError(ANY_SOURCE)

        def supports_tensor_alloc(self, device):
            """C++ asks with the number of a GPU."""
            return isinstance(device, torch.device) and device.type == "cpu"

        def allocate_tensor(self, size, *, dtype, device):
            """In memory that the ranks of a machine share, which is exchanged without copies."""
            return torch.from_numpy(self._group.spares.take(_buffers.bytes_of(size, dtype))).view(dtype)


def shell_class():
    """Tried, not looked up: a torch between the two has a Backend that Python cannot derive from."""
    try:
        type("Probe", (c10d.Backend,), {})(0, 1)
    except (AttributeError, TypeError):
        return OldProcessGroup
    return TuttiBackend
