"""Promises of the package; every rank of an MPI job runs all of it, at any number of ranks.

    mpirun -n N python package_ranks.py

Run by the Python that the package is installed for. The last line of each rank is unittest's.
"""
import gc
import os
import signal
import threading
import time
import unittest
import weakref

import numpy as np

import tutti
from package_fixture import PATIENCE, Ranks, make_store, until


class Exchange(Ranks):
    def test_a_store_knows_its_type_and_the_ranks(self):
        self.assertEqual(self.kv.type, "dist_sync_mpi")
        self.assertEqual(self.size, int(os.environ["OMPI_COMM_WORLD_SIZE"]))
        self.assertEqual(self.rank, int(os.environ["OMPI_COMM_WORLD_RANK"]))
        self.assertEqual(self.kv.local_rank, int(os.environ["OMPI_COMM_WORLD_LOCAL_RANK"]))
        self.assertEqual((self.kv.local_size, self.kv.nodes), (self.size, 1))

    def test_pushpull_sums_in_place(self):
        array = self.mine((3, 5))
        self.kv.pushpull("in place", array).wait()
        np.testing.assert_array_equal(array, np.full((3, 5), self.total))

    def test_pushpull_leaves_the_input_alone_when_there_is_an_output(self):
        array, out = self.mine(), np.zeros(4, np.float32)
        array.flags.writeable = False
        self.kv.pushpull("with output", array, out, priority=3).wait()
        np.testing.assert_array_equal(array, self.mine())
        np.testing.assert_array_equal(out, np.full(4, self.total))

    def test_every_dtype_and_reduction_is_offered(self):
        for dtype in ("float16", "float32", "float64", "int8", "uint8", "int32", "int64"):
            for op, expected in (("sum", self.total), ("min", 1), ("max", self.size)):
                array = self.mine(7, dtype)
                self.kv.pushpull(f"{dtype} {op}", array, op=op).wait()
                np.testing.assert_array_equal(array, np.full(7, expected, dtype), f"{dtype} {op}")
        array = self.mine()
        self.kv.pushpull("average", array, op="average").wait()
        np.testing.assert_allclose(array, np.full(4, self.total / self.size))

    def test_a_list_of_keys_takes_a_list_of_arrays_of_any_size(self):
        sizes = [(), (0,), (1,), (1000, 100)]
        arrays = [self.mine(size) for size in sizes]
        keys = [f"list {size}" for size in sizes]
        self.kv.pushpull(keys, arrays).wait()
        for array, size in zip(arrays, sizes):
            np.testing.assert_array_equal(array, np.full(size, self.total))

    def test_the_arrays_of_several_devices_are_summed_too(self):
        arrays = [self.mine(), self.mine()]
        self.kv.pushpull("devices", arrays).wait()
        for array in arrays:
            np.testing.assert_array_equal(array, np.full(4, 2 * self.total))

    def test_broadcast_gives_the_roots_values_to_all(self):
        root = self.size - 1
        array = self.mine(9, np.int64)
        self.kv.broadcast("broadcast", array, root_rank=root).wait()
        np.testing.assert_array_equal(array, np.full(9, root + 1))

    def test_reduce_scatter_and_allgather_are_the_halves_of_pushpull(self):
        begin, end = 10 * self.rank // self.size, 10 * (self.rank + 1) // self.size
        shard, whole = np.zeros(end - begin, np.float32), np.zeros(10, np.float32)
        self.kv.reduce_scatter("halves", np.arange(10, dtype=np.float32), shard).wait()
        np.testing.assert_array_equal(shard, self.size * np.arange(begin, end))
        self.kv.allgather("halves", shard, whole).wait()
        np.testing.assert_array_equal(whole, self.size * np.arange(10))

    def test_a_rank_that_knows_its_own_row_alone_passes_it_and_the_rows_are_gathered(self):
        counts = [[(3 * sender + receiver) % 5 for receiver in range(self.size)] for sender in range(self.size)]
        mine = [np.full(count, 10 * self.rank + to) for to, count in enumerate(counts[self.rank])]
        expected = [np.full(row[self.rank], 10 * sender + self.rank) for sender, row in enumerate(counts)]
        for turn in range(3):
            outs = np.zeros(sum(len(share) for share in expected), int)
            self.kv.all_to_all(f"rows {turn % 2}", np.concatenate(mine), outs, counts[self.rank]).wait()
            np.testing.assert_array_equal(outs, np.concatenate(expected))

    def test_allreduce_returns_when_the_sum_is_there(self):
        for _ in range(20):
            array = self.mine(1000)
            self.assertIsNone(self.kv.allreduce("allreduce", array))
            np.testing.assert_array_equal(array, np.full(1000, self.total))

    def test_send_and_recv_pass_an_array_on_around_a_ring(self):
        if self.size == 1:
            self.skipTest("alone there is nobody to send to")
        theirs = np.zeros(4, np.float32)
        sent = self.kv.send(self.mine(), (self.rank + 1) % self.size, tag=3)
        received = self.kv.recv(theirs, tag=3)
        received.wait()
        sent.wait()
        self.assertEqual(received.source, (self.rank - 1) % self.size)
        np.testing.assert_array_equal(theirs, np.full(4, received.source + 1))

    def test_an_allocated_array_is_exchanged_like_any_other_and_outlives_its_name(self):
        array = self.kv.allocate((2, 3), "float64")
        array[:] = self.rank + 1
        pending = self.kv.pushpull("allocated", array)
        part = array[1]
        del array
        pending.wait()
        np.testing.assert_array_equal(part, np.full(3, self.total))

    def test_barrier_comes_back_on_every_rank(self):
        self.kv.barrier()

    def test_the_spellings_of_the_first_design_are_accepted(self):
        self.assertEqual(self.kv.Rank, self.rank)
        for key, name in (("outs=", "outs"), ("out=", "out")):
            out = np.zeros(4, np.float32)
            self.kv.pushpull(key=key, ins=self.mine(), **{name: out}, priority=1).wait()
            np.testing.assert_array_equal(out, np.full(4, self.total))
        with self.assertRaisesRegex(TypeError, "outs and out"):
            self.kv.pushpull("both", ins=self.mine(), outs=self.mine(), out=self.mine())

    def test_a_store_counts_what_it_does_and_says_what_it_chose(self):
        before = self.kv.counters()
        self.kv.pushpull(["counted 1", "counted 2"], [self.mine(), self.mine()]).wait()
        after = self.kv.counters()
        self.assertIsInstance(after, tutti.Counters)
        self.assertEqual(after.tensors_reduced - before.tensors_reduced, 2)
        self.assertEqual(after.bytes_reduced - before.bytes_reduced, 32)
        self.assertEqual(after.nodes, 1)
        array = self.kv.allocate(1 << 20)
        self.assertGreaterEqual(self.kv.counters().allocated_bytes, array.nbytes)
        self.assertIn(tutti.Choice("replay", "on", "default"), self.kv.choices())


class Groups(Ranks):
    def test_a_store_may_be_over_some_of_the_ranks(self):
        mine = [rank for rank in range(self.size) if rank % 2 == self.rank % 2]
        with tutti.create("dist_sync_mpi", ranks=reversed(mine)) as kv:
            self.assertEqual((kv.rank, kv.num_workers), (self.rank // 2, len(mine)))
            array = self.mine()
            kv.pushpull("group", array).wait()
            np.testing.assert_array_equal(array, np.full(4, sum(mine) + len(mine)))

    def test_ranks_are_given_as_any_iterable_of_integers(self):
        for ranks in (range(self.size), np.arange(self.size), tuple(range(self.size))):
            with tutti.create("dist_sync_mpi", ranks=ranks) as kv:
                self.assertEqual(kv.rank, self.rank)

    def test_ranks_that_make_no_store_are_refused(self):
        others = [rank for rank in range(self.size) if rank != self.rank] or [1]
        cases = {"is empty.*leave it out": (), "rank": (self.rank, self.rank), "": others,
                 f"{self.size}": (self.rank, self.size), "-1": (self.rank, -1)}
        for text, ranks in cases.items():
            with self.subTest(ranks=ranks), self.assertRaisesRegex(tutti.InvalidArgumentError, text):
                tutti.create("dist_sync_mpi", ranks=ranks)
        for ranks in ("01", 0, ["0"], [0.5]):
            with self.subTest(ranks=ranks), self.assertRaisesRegex(TypeError, "a list of ranks, which are ints"):
                tutti.create("dist_sync_mpi", ranks=ranks)


class Memory(Ranks):
    def test_allocated_arrays_are_counted_while_they_live(self):
        with make_store() as kv:
            page = 4096
            kept, large = kv.allocate(1, "uint8"), kv.allocate(5000)
            self.assertEqual(kv.counters().allocated_bytes, 6 * page)
            del large
            self.assertEqual(kv.counters().allocated_bytes, page)
            del kept
            self.assertEqual(kv.counters()[-2:], (0, 6 * page))

    def test_an_array_is_kept_until_its_call_is_done_and_no_longer(self):
        array = self.mine(1000)
        seen = weakref.ref(array)
        if self.rank == 0:
            pending = self.kv.pushpull("kept", array)
            del array
            gc.collect()
            if self.size > 1:
                self.assertFalse(pending.done())
                self.assertIsNotNone(seen())
        self.kv.barrier()
        if self.rank > 0:
            pending = self.kv.pushpull("kept", array)
            del array
        pending.wait()
        self.assertTrue(until(lambda: seen() is None))

    def test_an_array_whose_call_nobody_waits_for_is_freed_too(self):
        array = self.mine(1000)
        seen = weakref.ref(array)
        self.kv.pushpull("forgotten", array)
        del array
        self.assertTrue(until(lambda: seen() is None))

    def test_arrays_are_freed_soon_after_their_calls_though_tutti_is_not_called_again(self):
        # There are more calls than the interpreter can note down.
        arrays = [[self.mine(1000) for _ in range(10)] for _ in range(100)]
        seen = [weakref.ref(array) for of_call in arrays for array in of_call]
        pending = []
        while arrays:
            first = 10 * len(pending)
            pending.append(self.kv.pushpull([f"left {first + i}" for i in range(10)], arrays.pop()))
        self.assertTrue(until(lambda: not any(array() is not None for array in seen)))
        self.assertTrue(all(one.done() for one in pending))

    def test_arrays_of_a_thread_that_has_ended_are_freed_too(self):
        array = self.mine(1000)
        seen = weakref.ref(array)
        thread = threading.Thread(target=self.kv.pushpull, args=("of a thread", array))
        thread.start()
        del array
        thread.join()
        self.assertTrue(until(lambda: seen() is None))


class Waiting(Ranks):
    """Tests in which rank 0 waits for calls that the other ranks submit after a barrier."""

    def setUp(self):
        if self.size == 1:
            self.skipTest("alone nothing is waited for")

    def submit(self, key):
        return self.kv.pushpull(key, self.mine())

    def others_submit(self, key):
        self.kv.barrier()
        if self.rank > 0:
            self.submit(key).wait()

    def test_wait_gives_up_after_the_timeout(self):
        if self.rank == 0:
            pending = self.submit("timeout")
            self.assertFalse(pending.wait(timeout=0.05))
            self.assertFalse(pending.wait(0))
            self.assertFalse(pending.done())
        self.others_submit("timeout")
        if self.rank == 0:
            self.assertTrue(pending.wait(timeout=PATIENCE))
            self.assertTrue(pending.done())

    def test_other_threads_run_while_one_waits(self):
        if self.rank == 0:
            pending = self.submit("threads")
            waiter = threading.Thread(target=pending.wait)
            waiter.start()
            self.assertEqual(sum(range(100_000)), 4_999_950_000)  # needs the GIL, again and again
            self.assertTrue(waiter.is_alive())
        self.others_submit("threads")
        if self.rank == 0:
            waiter.join(PATIENCE)
            self.assertFalse(waiter.is_alive())

    def test_ctrl_c_interrupts_a_wait_and_the_call_goes_on(self):
        if self.rank == 0:
            pending = self.submit("interrupted")
            with self.assertRaises(KeyboardInterrupt):
                threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGINT)).start()
                pending.wait()
        self.others_submit("interrupted")
        if self.rank == 0:
            self.assertTrue(pending.wait())


class Closing(unittest.TestCase):
    def test_every_thread_that_closes_a_store_waits_until_it_is_closed(self):
        with tutti.create("dist_sync_mpi", log_level="error") as before:
            kv = tutti.create("dist_sync_mpi", log_level="error")
            began, took = time.monotonic(), []

            def close():
                kv.close()
                took.append(time.monotonic() - began)
            threads = [threading.Thread(target=close) for _ in range(2)]
            if kv.rank > 0:
                time.sleep(0.5)
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            # Rank 0 leaves last.
            self.assertGreater(min(took), 0.4 if kv.num_workers > 1 else 0)
            before.barrier()

    def test_a_store_is_closed_at_the_end_of_its_block_and_says_so(self):
        with tutti.create("DIST_SYNC_MPI") as kv:
            kv.barrier()
        kv.close()
        self.assertEqual(kv.type, "dist_sync_mpi")
        with self.assertRaisesRegex(tutti.AbortedError, "barrier of a store that is closed"):
            kv.barrier()


if __name__ == "__main__":
    # An exception that nobody handles would make the other ranks wait, so unittest handles them all.
    unittest.main()
