"""Misuse of arrays and processes that a store uses: each case is safe, or a clear error; every rank of an MPI job runs
all of it.

    mpirun -n N python package_misuse.py

Run by the Python that the package is installed for.
"""
import asyncio
import gc
import mmap
import multiprocessing
import os
import sys
import threading
import unittest
import weakref

import numpy as np

import tutti
from package_fixture import PATIENCE, Ranks, until

#: Of the process that forked them, for workers find globals as they were.
STORES = []


def batch(seed):
    """A batch as a worker of a data loader makes it. The worker never touches the store."""
    return np.random.default_rng(seed).integers(0, 100, 1000).astype(np.float32)


def touch(name):
    getattr(STORES[-1], name)()


def exchange_in_child(_):
    STORES[-1].pushpull("from a worker", np.ones(4)).wait()


class Holding(np.ndarray):
    """Unlike numpy's own arrays, these have attributes."""


class Workers(Ranks):
    def setUp(self):
        STORES.append(self.kv)
        self.addCleanup(STORES.clear)

    def workers(self):
        pool = multiprocessing.get_context("fork").Pool(2)
        self.addCleanup(pool.join)
        self.addCleanup(pool.close)
        return pool

    def test_forked_workers_that_never_touch_the_store_feed_it(self):
        pending = self.kv.pushpull("in flight", self.mine())
        seeds = range(100 * self.rank, 100 * self.rank + 20)
        for i, array in enumerate(self.workers().imap(batch, seeds)):
            self.kv.pushpull("batch", array).wait()
            np.testing.assert_array_equal(array, sum(batch(100 * rank + i) for rank in range(self.size)))
        pending.wait()

    def test_a_forked_worker_that_touches_the_store_gets_an_error_that_reaches_the_parent(self):
        pool = self.workers()
        for call, args in ((exchange_in_child, (0,)), (touch, ("barrier",)), (touch, ("join",))):
            with self.assertRaisesRegex(tutti.UnsupportedError, "fork") as raised:
                pool.apply(call, args)
            self.assertEqual(raised.exception.code, tutti.ErrorCode.unsupported)
        array = self.mine()
        self.kv.pushpull("after workers", array).wait()
        np.testing.assert_array_equal(array, np.full(4, self.total))

    def test_a_worker_that_ends_while_a_call_of_its_parent_is_in_flight_ends_in_order(self):
        array = self.mine(100_000)
        pending = self.kv.pushpull("in flight over a fork", array) if self.rank == 0 else None
        for way in (lambda: None, STORES[-1].close, STORES.clear, lambda: os._exit(0)):
            child = multiprocessing.get_context("fork").Process(target=way)
            child.start()
            child.join(PATIENCE)
            self.assertEqual(child.exitcode, 0)
        self.kv.barrier()
        (pending or self.kv.pushpull("in flight over a fork", array)).wait()
        np.testing.assert_array_equal(array, np.full(100_000, self.total))


def create_in_child(_):
    tutti.create("dist_sync_mpi", create_timeout=5)


class Children(Ranks):
    def test_a_child_that_was_started_anew_is_no_rank_and_is_told_which_process_is(self):
        for how in ("spawn", "forkserver"):
            with multiprocessing.get_context(how).Pool(1) as pool:
                with self.assertRaisesRegex(
                        tutti.UnsupportedError,
                        rf"cannot be rank {self.rank} of the job: process {os.getpid()} is.*multiprocessing"):
                    pool.apply(create_in_child, (0,))
        self.kv.barrier()


def leave_a_callback(pending):
    def callback(_):
        pass
    seen = weakref.ref(callback)
    try:
        pending.then(callback)
        os._exit(1)
    except tutti.UnsupportedError:
        del callback
    os._exit(0 if seen() is None else 2)


async def awaiting(pending):
    await pending


def count_calls_that_go(calls):
    """Ends this forked child. Its status is the number of the calls that do not say that it is one."""
    wrong = 100
    try:
        wrong = sum(not is_refused_in_child(call) for call in calls)
    finally:
        os._exit(wrong)


def is_refused_in_child(call):
    try:
        call()
    except tutti.UnsupportedError as error:
        return "fork" in str(error)
    return False


class InFlight(Ranks):
    """Tests in which rank 0 tries something wrong while its calls wait. The other ranks make their calls afterwards."""

    def misuse(self, key, submit, attempt):
        pending = submit(key) if self.rank == 0 else None
        if pending and self.size > 1:
            attempt()
            self.assertFalse(pending.done())
        self.kv.barrier()
        (pending or submit(key)).wait()

    def test_memory_that_an_array_borrows_cannot_be_resized_or_closed(self):
        for kind, release in ((bytearray, lambda memory: memory.extend(bytes(10**6))),
                              (lambda size: mmap.mmap(-1, size), lambda memory: memory.close())):
            memory = kind(4096)
            np.frombuffer(memory, np.float32)[:] = self.rank + 1

            def attempt(memory=memory, release=release):
                gc.collect()
                with self.assertRaises(BufferError):
                    release(memory)
            self.misuse("borrowed", lambda key, memory=memory: self.kv.pushpull(key, np.frombuffer(memory, np.float32)),
                        attempt)
            np.testing.assert_array_equal(np.frombuffer(memory, np.float32), np.full(1024, self.total))
            until(lambda memory=memory, release=release: self.succeeds(release, memory))
            self.assertFalse(isinstance(memory, bytearray) and len(memory) == 4096)

    @staticmethod
    def succeeds(call, *args):
        try:
            call(*args)
        except BufferError:
            return False
        return True

    def test_an_array_may_be_the_input_of_several_calls_in_flight(self):
        array, outs = self.mine(), [np.zeros(4, np.float32) for _ in range(3)]
        seen = weakref.ref(array)
        pendings = [self.kv.pushpull(f"input {i}", array, out) for i, out in enumerate(outs)]
        del array
        for pending, out in zip(pendings, outs):
            pending.wait()
            np.testing.assert_array_equal(out, np.full(4, self.total))
        self.assertTrue(until(lambda: seen() is None))

    def test_an_output_of_two_keys_or_devices_is_refused_for_one_result_would_be_lost(self):
        array, other = self.mine(8), self.mine(8)
        for text, keys, ins, outs in (
                ("key 'list 1': its output and that of key 'list 2'", ["list 1", "list 2"], [array, array], None),
                ("key 'list 1': its output and that of key 'list 3'", ["list 1", "list 2", "list 3"],
                 [other[:5], self.mine(8), self.mine(5)], [array[:5], other, array[3:]]),
                ("key 'devices': two outputs of this key", "devices", [array[:5], array[3:]], None)):
            with self.subTest(text), self.assertRaisesRegex(tutti.InvalidArgumentError, text) as raised:
                self.kv.pushpull(keys, ins, outs)
            self.assertEqual(raised.exception.key, text.split("'")[1])
        np.testing.assert_array_equal(array, self.mine(8))

    def test_an_array_may_be_the_input_of_several_keys(self):
        array, outs = self.mine(), [np.zeros(4, np.float32) for _ in range(3)]
        self.kv.pushpull(["input 1", "input 2", "input 3"], [array, array, array], outs).wait()
        for out in outs:
            np.testing.assert_array_equal(out, np.full(4, self.total))

    def test_an_array_in_place_in_two_calls_in_flight_is_held_until_both_are_done(self):
        array = self.mine(1000)
        seen = weakref.ref(array)
        pendings = [self.kv.pushpull(f"in place {i}", array) for i in range(2)]
        del array
        for pending in pendings:
            pending.wait()
        self.assertTrue(until(lambda: seen() is None))

    def test_an_array_that_holds_its_own_binding_is_collected(self):
        array = self.mine().view(Holding)
        array.binding = self.kv.bind("its own", array)
        array.binding.run()
        np.testing.assert_array_equal(array, np.full(4, self.total))
        seen = weakref.ref(array)
        del array

        def is_gone():
            gc.collect()
            return seen() is None
        self.assertTrue(until(is_gone))

    def test_an_array_of_a_call_in_flight_is_not_collected(self):
        array = self.mine().view(Holding)
        array.binding = self.kv.bind("its own, in flight", array)
        seen, lives = weakref.ref(array), True
        last = self.kv.num_workers - 1
        if self.kv.rank == last:
            self.kv.barrier()
            pending = array.binding.start()
        else:
            # The call is in flight until the last rank starts it.
            pending = array.binding.start()
            del array
            gc.collect()
            lives = seen() is not None
            self.kv.barrier()
        pending.wait()
        self.assertTrue(lives)

    def test_a_callback_that_is_refused_in_a_forked_child_is_dropped(self):
        pendings = []

        def submit(key):
            pendings.append(self.kv.pushpull(key, self.mine()))
            return pendings[-1]

        def attempt():
            child = multiprocessing.get_context("fork").Process(target=leave_a_callback, args=(pendings[-1],))
            child.start()
            child.join(PATIENCE)
            self.assertEqual(child.exitcode, 0)
        self.misuse("called back", submit, attempt)

    def test_every_way_to_wait_is_refused_in_a_forked_child_even_after_it_closed_the_store(self):
        pendings = []

        def submit(key):
            pendings.append(self.kv.pushpull(key, self.mine()))
            return pendings[-1]

        def attempt():
            pending, = pendings
            waits = [pending.wait, lambda: pending.wait(0), pending.result, lambda: pending.then(print),
                     lambda: asyncio.run(awaiting(pending))]
            calls = [*waits, lambda: self.kv.close() or pending.wait(), *waits]
            child = multiprocessing.get_context("fork").Process(target=count_calls_that_go, args=(calls,))
            child.start()
            child.join(PATIENCE)
            self.assertEqual(child.exitcode, 0)
        self.misuse("waited for in a child", submit, attempt)

    def test_the_same_call_again_in_flight_is_refused_and_the_first_goes_on(self):
        array = self.mine()

        def attempt():
            with self.assertRaises(tutti.DuplicateKeyError) as raised:
                self.kv.pushpull("again", array)
            self.assertEqual(raised.exception.key, "again")
        self.misuse("again", lambda key: self.kv.pushpull(key, array), attempt)
        np.testing.assert_array_equal(array, np.full(4, self.total))

    def test_a_pending_may_be_waited_for_by_many_threads_and_dropped_by_one(self):
        outcomes = []

        def wait(pending):
            outcomes.append(pending.wait(PATIENCE))
        array = self.mine()
        pending = self.kv.pushpull("many wait", array)
        threads = [threading.Thread(target=wait, args=(pending,)) for _ in range(8)]
        for thread in threads:
            thread.start()
        del pending
        for thread in threads:
            thread.join()
        self.assertEqual(outcomes, [True] * 8)


class Callbacks(Ranks):
    def test_a_callback_that_raises_harms_neither_its_call_nor_later_ones(self):
        seen, end = [], threading.Event()
        self.addCleanup(setattr, sys, "unraisablehook", sys.unraisablehook)
        sys.unraisablehook = lambda what: seen.append(what.exc_type)
        kinds = [ValueError, KeyboardInterrupt, GeneratorExit, RecursionError, MemoryError]
        for kind in kinds:
            array = self.mine()
            pending = self.kv.pushpull("raises", array)
            pending.then(lambda _, kind=kind: raising(kind))
            pending.wait()
            np.testing.assert_array_equal(array, np.full(4, self.total))
        self.kv.pushpull("last", self.mine()).then(lambda _: end.set())
        self.assertTrue(end.wait(PATIENCE))
        self.assertCountEqual(seen, kinds)  # the calls end in any order

    def test_a_callback_may_close_another_store_and_create_one(self):
        end, other = threading.Event(), tutti.create("dist_sync_mpi", log_level="error")

        def again(_):
            other.close()
            with tutti.create("dist_sync_mpi", log_level="error") as kv:
                kv.barrier()
            end.set()
        other.pushpull("once", self.mine()).then(again)
        self.assertTrue(end.wait(PATIENCE))


def raising(kind):
    raise kind("of a callback")


if __name__ == "__main__":
    # An exception that nobody handles would make the other ranks wait, so unittest handles them all.
    unittest.main()
