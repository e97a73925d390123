"""Objects between ranks; every rank of an MPI job runs all of it, at any number of ranks.

    mpirun -n N python package_objects.py

Run by the Python that the package is installed for.
"""
import threading
import unittest

import numpy as np

import tutti
from package_fixture import PATIENCE, Ranks


class Mine:
    """An object of a class that the program defines."""

    def __init__(self, value):
        self.value = value


class Unpicklable:
    def __reduce__(self):
        raise RuntimeError("keeps to itself")


class Objects(Ranks):
    def test_every_rank_gets_the_roots_object(self):
        for root in {0, self.last}:
            for obj in (None, {"lr": 0.1, "names": ["a"], "steps": (1, 2)}, np.arange(5), "x" * 1_000_000, b""):
                got = self.kv.broadcast_object(obj if self.rank == root else Unpicklable(), root)
                np.testing.assert_equal(got, obj)
        self.assertEqual(self.kv.broadcast_object(Mine(self.rank), root=self.last).value, self.last)

    def test_every_rank_gets_the_objects_of_all_in_the_order_of_ranks(self):
        own = Mine(self.rank)
        everyones = self.kv.allgather_object(own)
        self.assertEqual([each.value for each in everyones], list(range(self.size)))
        self.assertIs(everyones[self.rank], own)
        # The objects may have any size.
        texts = self.kv.allgather_object("x" * (self.rank * 100_000))
        self.assertEqual([len(text) for text in texts], [rank * 100_000 for rank in range(self.size)])

    def test_what_a_rank_gets_is_its_own_to_change(self):
        got = self.kv.broadcast_object({"array": np.zeros(3)})
        got["array"] += self.rank
        self.assertEqual(got["array"][0], self.rank)

    def test_an_object_that_cannot_be_pickled_is_an_error_on_all_ranks_and_the_store_lives_on(self):
        if self.size == 1:
            return
        for call in (lambda obj: self.kv.broadcast_object(obj, self.last), self.kv.allgather_object):
            with self.assertRaises(RuntimeError if self.rank == self.last else tutti.InvalidArgumentError) as raised:
                call(Unpicklable() if self.rank == self.last else 1)
            if self.rank != self.last:
                self.assertIn(f"rank {self.last} cannot be pickled", str(raised.exception))
                self.assertEqual(raised.exception.ranks, (self.last,))
            self.assertEqual(self.kv.broadcast_object(self.rank, self.last), self.last)

    def test_a_root_that_there_is_not_is_refused(self):
        with self.assertRaisesRegex(tutti.InvalidArgumentError, f"root rank {self.size}"):
            self.kv.broadcast_object(1, self.size)

    def test_an_error_names_the_call_and_no_key_that_the_program_never_gave(self):
        if self.size == 1:
            return
        with tutti.create("dist_sync_mpi", key_timeout=1, log_level="critical") as kv:
            for method in ("broadcast_object", "allgather_object", "fingerprint"):
                if kv.rank != self.last:
                    with self.assertRaisesRegex(tutti.TimedOutError, f"^{method}.*rank {self.last}") as raised:
                        getattr(kv, method)([])
                    self.assertNotIn("'tutti:", str(raised.exception))
                    self.assertEqual((raised.exception.key, raised.exception.ranks), (None, (self.last,)))
                self.kv.barrier()

    def test_objects_go_between_arrays_in_flight_in_another_thread(self):
        array = np.ones(4, np.float32)
        pending = self.kv.pushpull("behind", array) if self.rank == 0 else None
        got = []
        thread = threading.Thread(target=lambda: got.extend(self.kv.allgather_object(self.rank)))
        thread.start()
        self.kv.pushpull("beside", np.ones(1000)).wait()
        thread.join(PATIENCE)
        self.assertEqual(got, list(range(self.size)))
        (pending or self.kv.pushpull("behind", array)).wait()
        self.assertEqual(array[0], self.size)

    def test_they_go_whatever_the_stores_kind_of_key_and_do_not_decide_it(self):
        for key in ("text", 7):
            with tutti.create("dist_sync_mpi", log_level="error") as kv:
                self.assertEqual(kv.allgather_object(self.rank), list(range(self.size)))
                kv.pushpull(key, np.ones(1)).wait()
                self.assertEqual(kv.broadcast_object(self.rank), 0)
                with self.assertRaisesRegex(tutti.InvalidArgumentError, "integers or all strings"):
                    kv.pushpull(7 if key == "text" else "text", np.ones(1))


if __name__ == "__main__":
    # An exception that nobody handles would make the other ranks wait, so unittest handles them all.
    unittest.main()
