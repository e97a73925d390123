"""The memory that a store holds: it fits the formula, and does not grow; see contract.py."""
import ctypes
import os
import pathlib
import resource

import numpy as np

from contract_fixture import Contract, environment
from tutti import _core

BYTES_A_KEY = 1472


def resident():
    """The bytes of this process in memory, including shared memory that it has touched. A sanitizer keeps freed memory,
    and counts what is allocated."""
    allocated = getattr(ctypes.CDLL(None), "__sanitizer_get_current_allocated_bytes", None)
    if allocated is not None:
        allocated.restype = ctypes.c_size_t
        return allocated()
    return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def formula(kv):
    return _core.most_buffer_bytes(kv.num_workers // kv.nodes, kv.nodes)


def holds_most(kv):
    """Whether this job is the case for which the formula gives the most. Between nodes, and if each rank has a
    processor, a store may hold less.
    """
    return kv.nodes == 1 and (kv.num_workers == 1 or kv.num_workers > os.cpu_count())


class Memory(Contract):
    def test_a_fresh_store_holds_what_the_formula_says_or_less_whatever_the_slices(self):
        for slice_bytes in (0, 4096, 1 << 20):
            with environment(TUTTI_SLICE_BYTES=str(slice_bytes)):
                kv = self.store()
                most = formula(kv)
            counters = kv.counters()
            if holds_most(kv):
                self.assertEqual(counters.buffer_bytes, most)
            self.assertLessEqual(counters.buffer_bytes, most)
            self.assertEqual(counters.allocated_bytes, 0)

    def test_200_steps_of_varying_sizes_make_neither_the_buffers_nor_the_process_grow(self):
        kv, keys, largest = self.store(), 40, 1 << 20
        keys_of_classes = 1 + 3 + 7 + 15 + 31 + keys
        memory, draw = np.ones(largest, np.float32), np.random.default_rng(11)

        def steps(count):
            for i in range(count):
                most, arrays, used = largest if i % 4 == 0 else 1 << i % 20, [], 0
                while len(arrays) < keys and used < largest:
                    size = min(int(draw.integers(1, most + 1)), largest - used)
                    arrays.append(memory[used:used + size])
                    used += size
                kv.pushpull(list(range(len(arrays))), arrays).wait()
                memory[:] = 1
        steps(100)  # every key's and every length's first use costs memory of its own
        buffers, before = kv.counters().buffer_bytes, resident()
        steps(200)
        if kv.nodes == 1:
            self.assertEqual(kv.counters().buffer_bytes, buffers)
        if holds_most(kv):
            self.assertGreater(buffers, formula(kv))
        self.assertLessEqual(buffers, formula(kv) + keys_of_classes * BYTES_A_KEY)
        self.assertLess(resident(), before + (4 << 20))

    def test_allocated_tensors_are_counted_while_they_live_and_the_most_of_them_for_ever(self):
        kv, page = self.store(), 4096
        kept, large = kv.allocate(1, "uint8"), kv.allocate(5000)
        self.assertEqual(kv.counters().allocated_bytes, 6 * page)
        del large
        self.assertEqual(kv.counters().allocated_bytes, page)
        del kept
        counters = kv.counters()
        self.assertEqual((counters.allocated_bytes, counters.allocated_peak_bytes), (0, 6 * page))
        kv.barrier()
