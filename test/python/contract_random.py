"""Calls of every kind, and waits of every kind, drawn at random; see contract.py."""
import asyncio
import dataclasses
import os
import random
import threading
import time

import numpy as np

from contract_fixture import DTYPES, OPS, Contract, from_bits, handed, make_store, numpy_dtype, stderr_to, to_bits

KEYS, TURNS, STORES = 48, 5, 2
#: Turns of waiting in every way. STORE_TEST_WAITS makes them more.
WAITS = int(os.environ.get("STORE_TEST_WAITS", "100"))
STALL_SECONDS = 1
WAITED_FOR = (126505, 59, 692, 1186, 45, 36, 24, 49, 2826)
FRACTION_BITS = {"float16": 10, "bfloat16": 7, "float32": 23, "float64": 52}


@dataclasses.dataclass
class Plan:
    """The facts of one key on which the ranks agree."""
    method: str
    dtype: str
    op: str
    root: int
    count: int
    devices: list  # of each rank
    allocated: bool  # on every rank; otherwise each does as it likes
    salt: int
    joined: int | None = None  # the rank that has joined and brings nothing

    def brought(self, rank, device):
        """Whole numbers that are so small that every dtype holds their sum over 8 ranks with 3 devices each."""
        draw = np.random.default_rng([self.salt, rank, device])
        return draw.integers(0, 11, self.count) - (0 if self.dtype == "uint8" else 5)

    def result(self):
        """The expected result, and the error that is allowed."""
        if self.method == "broadcast":
            return self.brought(self.root, 0), 0
        ranks = [rank for rank in range(len(self.devices)) if rank != self.joined]
        brought = np.array([self.brought(rank, device) for rank in ranks for device in range(self.devices[rank])])
        if self.op in ("min", "max"):
            return getattr(brought, self.op)(axis=0), 0
        if self.op == "sum":
            return brought.sum(axis=0), 0
        average = brought.sum(axis=0) / len(ranks)
        if self.dtype not in FRACTION_BITS:
            return np.trunc(average), 0
        # Between nodes 16 bits hold what each node has of an average.
        return average, 2.0 ** -FRACTION_BITS[self.dtype] * np.abs(brought).sum(axis=0) / len(ranks)


def random_plan(shared, ranks):
    count = shared.choice([0, 1, 100_000 + shared.randrange(1000)] + 2 * [shared.randrange(40_000)] +
                          27 * [shared.randrange(300)])
    devices = [1 + shared.randrange(3) if shared.randrange(4) == 0 else 1 for _ in range(ranks)]
    return Plan("broadcast" if shared.randrange(8) == 0 else "pushpull", shared.choice(DTYPES), shared.choice(OPS),
                shared.randrange(ranks), count, devices, shared.randrange(3) == 0, shared.randrange(2**32))


def random_options(shared):
    return {"replay": shared.random() < 0.5, "fusion_bytes": shared.choice((0, 1000, 100_000, 2 << 20)),
            "part_bytes": shared.choice((0, 10_000, 300_000, 4 << 20)),
            "slice_bytes": shared.choice((0, 2048, 4096, 50_000))}


class Part:
    """The arrays of one key on this rank. Each rank chooses for itself where they lie."""

    def __init__(self, kv, plan, own):
        self.kv, self.plan, self.own = kv, plan, own
        self.brought = [plan.brought(kv.rank, device) for device in range(plan.devices[kv.rank])]
        self.ins = [self.make() for _ in self.brought]
        for array, numbers in zip(self.ins, self.brought):
            array[:] = to_bits(numbers, plan.dtype)
        self.in_place = plan.method == "broadcast" or own.random() < 0.5
        self.outs = self.ins if self.in_place else [self.make() for _ in self.ins]

    def make(self):
        count, dtype = self.plan.count, np.dtype(numpy_dtype(self.plan.dtype))
        if self.plan.dtype != "bfloat16" and (self.plan.allocated or self.own.randrange(4) == 0):
            return self.kv.allocate(count, dtype)
        offset = self.own.choice((0, self.own.randrange(64)))
        return np.frombuffer(bytearray(dtype.itemsize * count + 64), dtype, count, offset)

    def handed(self, arrays):
        return [handed(array, self.plan.dtype) for array in arrays]

    def is_right(self):
        """Whether the results are right and the inputs have not changed."""
        expected, off = self.plan.result()
        inputs = self.in_place or all(np.array_equal(from_bits(array, self.plan.dtype), numbers)
                                      for array, numbers in zip(self.ins, self.brought))
        return inputs and all((np.abs(from_bits(out, self.plan.dtype) - expected) <= off).all() for out in self.outs)


class Random(Contract):
    def submit(self, kv, parts, own):
        """Submits the keys in an order and at times of this rank's own, sometimes several keys in one call."""
        order, pendings = own.sample(range(KEYS), KEYS), []
        while order:
            together = [order.pop()]
            like = self.kind(parts[together[0]].plan)
            while order and own.random() < 0.5 and self.kind(parts[order[-1]].plan) == like:
                together.append(order.pop())
            keys, method = [f"tensor {key}" for key in together], getattr(kv, like[0])
            ins, outs = ([parts[key].handed(getattr(parts[key], side)) for key in together] for side in ("ins", "outs"))
            priority = own.randrange(10)
            pendings.append(method(keys, outs, like[2], priority) if like[0] == "broadcast" else
                            method(keys, ins, outs, priority, op=like[1]))
            if own.randrange(16) == 0:
                time.sleep(own.random() * 1e-3)
        own.shuffle(pendings)
        for pending in pendings:
            pending.wait()

    @staticmethod
    def kind(plan):
        return plan.method, plan.op, plan.root

    def exchange(self, kv, shared, own):
        """The last turns are the same with other values, so that replay has something to do. In some a rank has joined.
        """
        plans = []
        for turn in range(TURNS):
            if turn < 3:
                plans = [random_plan(shared, kv.num_workers) for _ in range(KEYS)]
            joined = shared.randrange(kv.num_workers) if kv.num_workers > 1 and shared.randrange(3) == 0 else None
            mine = [dataclasses.replace(plan, salt=plan.salt + turn, joined=joined,
                                        root=(plan.root + (plan.root == joined)) % kv.num_workers) for plan in plans]
            if joined != kv.rank:
                parts = [Part(kv, plan, own) for plan in mine]
                self.submit(kv, parts, own)
                for key, part in enumerate(parts):
                    self.assertTrue(part.is_right(), f"seed {self.seed}, turn {turn}, key {key}: {part.plan}")
            if joined is not None:
                kv.join()

    def test_any_dtype_operation_size_memory_device_order_and_setting_gives_the_right_result(self):
        with make_store() as kv:
            self.seed = kv.broadcast_object(random.randrange(2**32))
            rank = kv.rank
        shared = random.Random(self.seed)
        for i in range(STORES):
            self.exchange(self.store(**random_options(shared)), shared, random.Random(self.seed * 31 + rank + 100 * i))


class Waits(Contract):
    @staticmethod
    def poll(pending):
        while not pending.done():
            time.sleep(0.0005)

    @staticmethod
    def await_callback(pending):
        called = threading.Event()
        pending.then(lambda _: called.set())
        called.wait()

    @staticmethod
    def await_in_a_loop(pending):
        async def work():
            await pending
        asyncio.run(work())

    def ways(self, own):
        def a_little(pending):
            while not pending.wait(own.random() * 0.01):
                pass
        return (lambda pending: pending.wait(), a_little, self.poll, self.await_callback, self.await_in_a_loop)

    @staticmethod
    def submit(kv, arrays, own):
        """Submits the parts in a random order, one by one or in one call."""
        order = own.sample(range(len(arrays)), len(arrays))
        if own.randrange(3) == 0:
            return [kv.pushpull(order, [arrays[i] for i in order])]
        return [kv.pushpull(i, arrays[i]) for i in order]

    def take_turns(self, kv, turns, own):
        arrays, ways = [np.empty(count, np.float32) for count in WAITED_FOR], self.ways(own)
        for _ in range(turns):
            start = time.monotonic()
            for array in arrays:
                array[:] = 1
            pendings = self.submit(kv, arrays, own)
            if own.randrange(3) == 0:
                time.sleep(own.random() * 3e-3)
            own.shuffle(pendings)
            for pending in pendings:
                own.choice(ways)(pending)
            for array in arrays:
                self.assertTrue((array == kv.num_workers).all())
            # A sleeping call may go on when the time for a report has come, and none is written.
            self.assertLess(time.monotonic() - start, STALL_SECONDS)

    def test_calls_end_without_a_stall_in_whatever_ways_their_ranks_wait_for_them(self):
        lines = []
        with stderr_to(lines):
            for options in ({}, {"fusion_bytes": 4096, "part_bytes": 4096}):
                with make_store(stall_report_after=STALL_SECONDS, log_level="warning", **options) as kv:
                    self.take_turns(kv, WAITS // 2, random.Random(kv.rank))
        self.assertEqual([line for line in lines if "nothing has moved" in line], [])
