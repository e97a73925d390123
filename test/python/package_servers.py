"""Python programs that use values on servers. Every worker of a job runs it.

    package_servers.py FILE_FOR_STATES
"""
import os
import pathlib
import signal
import sys
import unittest
from unittest import mock

import numpy as np

import tutti
from tutti import _objects
from package_fixture import interrupt, until

FILE = sys.argv.pop()


class Stores(unittest.TestCase):
    def test_one_follows_another_with_its_own_keys_and_type_and_none_is_beside_it(self):
        for turn, kind in enumerate(("dist_sync", "dist_async", "dist_sync", "dist_sync")):
            with self.subTest(turn):
                kv = tutti.create(kind, key_timeout=30)
                with self.assertRaisesRegex(tutti.InvalidArgumentError, "has a store .* still open.* kv.close"):
                    tutti.create("dist_sync")
                value = np.full(2, 5, np.float32)
                kv.init("w", value)
                kv.pull("w", value).wait()
                np.testing.assert_array_equal(value, np.full(2, 5, np.float32))
                # A notebook that runs its cell again does the same.
                if turn == 2:
                    del kv
                else:
                    kv.close()


class Values(unittest.TestCase):
    def test_what_servers_keep(self):
        with tutti.create("dist_sync", key_timeout=30) as kv:
            self.compression(kv)
            table = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
            kv.init("table", table)
            self.rows(kv, table)
            self.states(kv)
            self.objects(kv)
            self.forks(kv)
            self.interrupts(kv)
            self.assertEqual(kv.num_dead_node(), 0)

    def compression(self, kv):
        with self.assertRaisesRegex(tutti.InvalidArgumentError, "the threshold is nan"):
            kv.set_gradient_compression("2bit", float("nan"))
        with self.assertRaisesRegex(tutti.UnsupportedError, "did you mean '2bit'"):
            kv.set_gradient_compression("2bits")
        self.late(kv, "set_gradient_compression", lambda: kv.set_gradient_compression("2bit", threshold=0.25))
        gradient, before = np.full(10_000, 0.3, np.float32), kv.counters().bytes_between_nodes
        kv.pushpull("gradient", gradient).wait()
        np.testing.assert_array_equal(gradient, np.full(10_000, 0.25 * kv.num_workers, np.float32))
        self.assertLess(kv.counters().bytes_between_nodes - before, 10_000)
        with self.assertRaisesRegex(tutti.InvalidArgumentError, "'2bit' takes float32, float16 and bfloat16"):
            kv.pushpull("whole", np.ones(3, np.int32))

    def objects(self, kv):
        """Exchanges objects, also large ones after small ones."""
        with mock.patch.object(_objects, "PART", 1000):
            for size in (1, 5000, 10, 2000):
                self.assertEqual(len(kv.broadcast_object("x" * size if kv.rank == 0 else None)), size)
            everyones = kv.allgather_object("y" * (kv.rank * 1500))
            self.assertEqual([len(each) for each in everyones], [rank * 1500 for rank in range(kv.num_workers)])
        self.assertEqual(len(set(kv.allgather_object(kv.fingerprint([np.arange(3)])))), 1)
        if kv.num_workers > 1:
            with self.assertRaisesRegex(tutti.MismatchError, "1 of 1 tensors differ"):
                kv.fingerprint([np.array([kv.rank])])

    def rows(self, kv, table):
        for ids in (np.array([[2, 0], [0, 2]]), np.array([0.0, 2.0], np.float32), np.zeros(0, np.int64)):
            out = np.full_like(table, -1)
            kv.row_sparse_pull("table", out, ids)
            kept = np.unique(ids.astype(int))
            np.testing.assert_array_equal(out[kept], table[kept])
            self.assertEqual(np.count_nonzero(out.any(axis=1)), len(kept))
        with self.assertRaisesRegex(tutti.InvalidArgumentError, "4 is no row of"):
            kv.row_sparse_pull("table", table, np.array([4]))

    def states(self, kv):
        value, gradient = np.zeros(2, np.float32), np.full(2, 0.25, np.float32)
        kv.init("weight", value)
        kv.set_optimizer("sgd", learning_rate=1, momentum=0.5)
        kv.push("weight", gradient).wait()
        if kv.rank == 0:
            kv.save_optimizer_states(FILE, dump_optimizer=True)
        kv.barrier()
        kv.load_optimizer_states(FILE)
        kv.push("weight", np.zeros(2, np.float32)).wait()
        kv.pull("weight", value).wait()
        np.testing.assert_array_equal(value, np.full(2, -0.25 * 1.5 * kv.num_workers, np.float32))

    def forks(self, kv):
        """Forks children during a call. The last worker makes the call when all children have ended, so until then the
        call is under way.
        """
        array, late = np.ones(3, np.float32), kv.rank == kv.num_workers - 1
        kv.init("in flight", array)
        pending = None if late else kv.pushpull("in flight", array)
        child = None if late else os.fork()
        if child == 0:
            wrong = 100
            try:
                signal.alarm(20)
                wrong = sum(not self.never_ends(wait) for wait in (pending.wait, lambda: pending.wait(1),
                                                                   lambda: pending.then(print)))
            finally:
                os._exit(wrong)
        if not late:
            self.assertEqual(os.waitpid(child, 0), (child, 0))
        kv.barrier()
        (kv.pushpull("in flight", array) if late else pending).wait()

    @staticmethod
    def never_ends(wait):
        try:
            wait()
        except tutti.UnsupportedError:
            return True
        return False

    def interrupts(self, kv):
        mine, out = np.full((2, 3), kv.rank + 1, np.float32), np.zeros((2, 3), np.float32)
        self.late(kv, "init", lambda: kv.init("late", mine))
        self.late(kv, "set_optimizer", lambda: kv.set_optimizer("sgd", learning_rate=1, momentum=0.25))
        self.late(kv, "load_optimizer_states", lambda: kv.load_optimizer_states(FILE))
        # These calls wait for this worker's push, and so for those of the others.
        value, momentum = 1, 0
        for name, call in (("row_sparse_pull", lambda: kv.row_sparse_pull("late", out, np.array([1]))),
                           ("save_optimizer_states", lambda: kv.save_optimizer_states(f"{FILE} of {kv.rank}"))):
            self.late(kv, name, call, before=lambda: kv.push("late", mine))
            momentum = 0.5 * momentum - 0.25 * kv.num_workers  # as the file has it, and in 2 bits
            value += momentum
            kv.pull("late", out).wait()
            np.testing.assert_array_equal(out, np.full((2, 3), value))

    def late(self, kv, name, call, before=lambda: None):
        """Interrupts worker 0 while it waits for the others. Then the others make their calls, and worker 0's call
        counts all the same.
        """
        interrupted = pathlib.Path(f"{FILE}, interrupted in {name}")
        if kv.rank == 0 and kv.num_workers > 1:
            before()
            interrupt(self, call)
            interrupted.touch()
        else:
            self.assertTrue(kv.num_workers == 1 or until(interrupted.exists), name)
            before()
            call()
        kv.barrier()


if __name__ == "__main__":
    unittest.main()
