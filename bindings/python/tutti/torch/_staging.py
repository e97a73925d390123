"""Memory for tensors on their way between one of a group's ranks and several tensors of another."""
import threading

import torch

#: Less is as quick to get anew, in bytes.
LEAST = 1 << 20
#: A group keeps no more than this between its calls, in bytes.
MOST = 128 << 20


class Staging:
    """Keeps the memory of one call for the next: new memory costs a page fault every 4 KiB, which together take
    several times as long as the copies. Calls at the same time have memory of their own. Thread-safe."""

    def __init__(self):
        self._lock = threading.Lock()
        self._kept = None

    def room(self, count, dtype):
        """(a tensor of so many elements, the step that gives its memory back once nobody uses it, or None)."""
        size = count * torch.empty((), dtype=dtype).element_size()
        if not LEAST <= size <= MOST:
            return torch.empty(count, dtype=dtype), None
        with self._lock:
            memory, self._kept = self._kept, None
        if memory is None or memory.numel() < size:
            memory = torch.empty(size, dtype=torch.uint8)
        return memory[:size].view(dtype), lambda: self._keep(memory)

    def _keep(self, memory):
        with self._lock:
            if self._kept is None or self._kept.numel() < memory.numel():
                self._kept = memory

    def kept(self):
        """In bytes."""
        with self._lock:
            return 0 if self._kept is None else self._kept.numel()

    def clear(self):
        with self._lock:
            self._kept = None
