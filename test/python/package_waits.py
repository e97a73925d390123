"""Promises of the package about ways to wait other than Pending.wait; every rank of an MPI job runs all of it.

    mpirun -n N python package_waits.py
"""
import asyncio
import sys
import threading
import unittest
import weakref

import tutti
from package_fixture import PATIENCE, Ranks, interrupt, until


class Waits(Ranks):
    def exchange(self, key):
        return self.kv.pushpull(key, self.mine())

    def released(self, key):
        """A call that is not done until every rank has called `release`, unless there is only one rank."""
        return self.exchange(key) if self.rank == 0 else None

    def release(self, key, pending):
        """Lets `released` calls end. Barriers keep the ranks from submitting too soon."""
        self.kv.barrier()
        return pending or self.exchange(key)


class Callbacks(Waits):
    def called(self, *pendings):
        """The arguments that the callbacks of these calls got, and the threads on which they ran."""
        outcomes, end = [], threading.Semaphore(0)

        def note(error):
            outcomes.append((error, threading.current_thread().name))
            end.release()
        for pending in pendings:
            pending.then(note)
        for _ in pendings:
            self.assertTrue(end.acquire(timeout=PATIENCE))
        return outcomes

    def test_a_callback_is_called_once_on_a_thread_of_the_packages_own(self):
        done = self.exchange("called")
        done.wait()
        self.assertEqual(self.called(done, self.exchange("called")), [(None, "tutti-callbacks")] * 2)

    def test_a_callback_is_given_the_error(self):
        if self.size == 1:
            self.skipTest("alone nobody disagrees")
        (error, _), = self.called(self.kv.pushpull("callback differs", self.mine(3 + self.rank)))
        self.assertIsInstance(error, tutti.MismatchError)
        self.assertEqual(error.key, "callback differs")

    def test_callbacks_are_called_in_the_order_given(self):
        order, end = [], threading.Event()
        pending = self.released("order")
        pending = self.release("order", pending)
        for i in range(5):
            pending.then(lambda _, i=i: order.append(i))
        pending.then(lambda _: end.set())
        self.assertTrue(end.wait(PATIENCE))
        self.assertEqual(order, list(range(5)))

    def test_a_callback_may_submit_and_wait(self):
        sums, end = [], threading.Event()

        def more(_):
            array = self.mine()
            self.kv.pushpull("from a callback", array).wait()
            self.kv.barrier()
            sums.append(array[0])
            end.set()
        pending = self.exchange("before a callback")
        pending.then(more)
        self.assertTrue(pending.wait(PATIENCE))
        self.assertTrue(end.wait(PATIENCE))
        self.assertEqual(sums, [self.total])

    def test_what_a_callback_raises_goes_to_the_hook_and_the_next_is_called(self):
        seen, end = [], threading.Event()

        def fails(_):
            raise ValueError("of a callback")
        hook = sys.unraisablehook
        self.addCleanup(setattr, sys, "unraisablehook", hook)
        sys.unraisablehook = lambda what: seen.append((what.exc_type, str(what.exc_value), bool(what.exc_traceback),
                                                       what.object))
        pending = self.exchange("raises")
        pending.then(fails)
        pending.then(lambda _: sys.exit(3))
        pending.then(lambda _: end.set())
        self.assertTrue(end.wait(PATIENCE))
        self.assertEqual(seen[0], (ValueError, "of a callback", True, fails))
        self.assertEqual(seen[1][0], SystemExit)

    def test_what_is_no_callback_is_a_type_error(self):
        with self.assertRaises(TypeError):
            self.exchange("no callback").then(None)

    def test_a_callback_is_dropped_when_it_has_been_called(self):
        end = threading.Event()

        def callback(_):
            end.set()
        seen = weakref.ref(callback)
        self.exchange("dropped").then(callback)
        del callback
        self.assertTrue(end.wait(PATIENCE))
        self.assertTrue(until(lambda: seen() is None))


class Results(Waits):
    def test_a_result_that_takes_longer_is_a_timeout_error_and_the_call_goes_on(self):
        if self.size == 1:
            self.skipTest("alone a call is done at once")
        pending = self.released("late")
        if pending:
            with self.assertRaisesRegex(TimeoutError, "not done within the timeout of 0.01 s; it goes on") as raised:
                pending.result(0.01)
            self.assertNotIsInstance(raised.exception, tutti.Error)
        self.assertIsNone(self.release("late", pending).result(timeout=PATIENCE))

    def test_a_result_raises_what_the_call_failed_with(self):
        if self.size == 1:
            self.skipTest("alone nobody disagrees")
        with self.assertRaises(tutti.MismatchError):
            self.kv.pushpull("result differs", self.mine(3 + self.rank)).result(PATIENCE)

    def test_a_timeout_that_is_none_is_refused(self):
        pending = self.exchange("refused timeout")
        with self.assertRaises(tutti.InvalidArgumentError):
            pending.result(-1)
        with self.assertRaises(TypeError):
            pending.result("1")
        self.assertIsNone(pending.result())


class Await(Waits):
    def test_calls_are_awaited_side_by_side_while_the_loop_runs(self):
        async def work():
            ticks = 0

            async def tick():
                nonlocal ticks
                while True:
                    ticks += 1
                    await asyncio.sleep(0)
            ticking = asyncio.create_task(tick())
            early = self.released("awaited early")
            await asyncio.sleep(0.01)
            early = self.release("awaited early", early)
            arrays = [self.mine() for _ in range(4)]
            await asyncio.gather(early, *(self.kv.pushpull(f"awaited {i}", array) for i, array in enumerate(arrays)))
            self.assertEqual([array[0] for array in arrays], [self.total] * 4)
            ticking.cancel()
            return ticks
        self.assertGreater(asyncio.run(work()), 1)

    def test_awaiting_raises_what_the_call_failed_with(self):
        if self.size == 1:
            self.skipTest("alone nobody disagrees")

        async def work():
            await self.kv.pushpull("await differs", self.mine(3 + self.rank))
        with self.assertRaisesRegex(tutti.MismatchError, "await differs"):
            asyncio.run(work())

    def test_a_done_call_is_awaited_at_once(self):
        async def work():
            pending = self.exchange("done before")
            pending.wait()
            return await pending
        self.assertIsNone(asyncio.run(work()))

    def test_a_cancelled_wait_leaves_the_call_alone(self):
        if self.size == 1:
            self.skipTest("alone nothing is waited for")

        async def work(pending):
            with self.assertRaises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await pending
        pending = self.released("cancelled")
        if pending:
            asyncio.run(work(pending))
        self.assertTrue(self.release("cancelled", pending).wait(PATIENCE))

    def test_a_callback_that_waits_for_the_loop_delays_no_await(self):
        async def work():
            loop, end = asyncio.get_running_loop(), threading.Event()

            async def more():
                await self.exchange("awaited by a callback")

            def callback(_):
                asyncio.run_coroutine_threadsafe(more(), loop).result(PATIENCE)
                end.set()
            pending = self.exchange("called back")
            pending.then(callback)
            await pending
            return await asyncio.to_thread(end.wait, PATIENCE)
        self.assertTrue(asyncio.run(work()))


class Interrupts(Waits):
    """Tests in which rank 0 is interrupted while it waits for the others. The others come when rank 0 tells them."""

    def setUp(self):
        if self.size == 1:
            self.skipTest("alone nothing is waited for")

    def both(self, key, call):
        """Interrupts rank 0 in its call; then the others make their calls."""
        if self.rank == 0:
            interrupt(self, call)
            self.exchange(key).wait()
            return None
        self.exchange(key).wait()
        return call()

    def test_ctrl_c_interrupts_a_barrier_to_which_this_rank_has_come(self):
        self.both("barrier", self.kv.barrier)
        self.kv.barrier()

    def test_ctrl_c_interrupts_a_join(self):
        with tutti.create("dist_sync_mpi", key_timeout=PATIENCE) as kv:
            last = self.both("join", kv.join)
            if last is not None:
                self.assertIn(last, range(1, self.size))

    def test_ctrl_c_interrupts_create_and_the_store_that_comes_of_it_is_closed(self):
        def create():
            return tutti.create("dist_sync_mpi", log_level="error")
        store = self.both("create", create)
        if store:
            self.assertEqual(store.num_workers, self.size)
            store.close()
        with create() as kv:
            array = self.mine()
            kv.pushpull("after", array).wait()
            self.assertEqual(array[0], self.total)

    def test_ctrl_c_interrupts_close(self):
        kv = tutti.create("dist_sync_mpi", key_timeout=PATIENCE)
        self.both("close", kv.close)
        with self.assertRaisesRegex(tutti.AbortedError, "closed"):
            kv.barrier()


if __name__ == "__main__":
    unittest.main()
