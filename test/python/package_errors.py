"""The errors of wrong calls, and of ranks that disagree; every rank of an MPI job runs all of it, at any number of
ranks.

    mpirun -n N python package_errors.py

Run by the Python that the package is installed for.
"""
import pathlib
import unittest

import numpy as np

import tutti
from package_fixture import PATIENCE, Ranks


class Errors(Ranks):
    def refused(self, error, text, call, *args):
        with self.assertRaisesRegex(error, text):
            call(*args)

    def test_what_is_no_array_or_no_key_is_a_type_error(self):
        array = self.mine()
        self.refused(TypeError, "a value is a numpy array.*not float.*numpy.asarray", self.kv.pushpull, "k", 1.0)
        self.refused(TypeError, "not NoneType", self.kv.pushpull, "k", [None])
        self.refused(TypeError, "a key is an int or a str.*not float", self.kv.pushpull, 0.5, array)
        self.refused(TypeError, "a list of keys takes a list of values.*not ndarray", self.kv.pushpull, ["k"], array)

    def test_numbers_out_of_range_and_what_is_none_are_told_by_name(self):
        array, wait = self.mine(), self.kv.pushpull("waited for", self.mine()).wait
        out_of_range = {f"key {2**70} is out of range.*a str": (self.kv.pushpull, 2**70, array),
                        f"key {-2**63 - 1} is out of range": (self.kv.pushpull, [-2**63 - 1], [array]),
                        f"priority is {2**40}, which is out of range": (self.kv.pushpull, "k", array, None, 2**40),
                        f"root_rank is {2**40}, which is out": (self.kv.broadcast, "k", array, 2**40),
                        "timeout is -1; it takes a number of seconds from 0, or None": (wait, -1),
                        "timeout is nan; it takes": (wait, float("nan"))}
        for text, (call, *args) in out_of_range.items():
            with self.subTest(text):
                self.refused(tutti.InvalidArgumentError, text, call, *args)
        no_number = {"priority is an int, not float": (self.kv.pushpull, "k", array, None, 0.5),
                     "a key is an int or a str; several.*not ndarray": (self.kv.pushpull, np.arange(2), array),
                     "op is a str, not NoneType": (lambda: self.kv.pushpull("k", array, op=None),),
                     "compression is a str, not 3": (self.kv.set_gradient_compression, 3),
                     "type of stores is a str, not 3": (tutti.create, 3),
                     "a list of keys.*not NoneType": (self.kv.pushpull, ["k"], None),
                     "a key is an int or a str.*not NoneType": (self.kv.pushpull, None, array),
                     "root_rank is an int, not str": (self.kv.broadcast, "k", array, "0"),
                     "timeout is a number of seconds, or None, not str": (wait, "1")}
        for text, (call, *args) in no_number.items():
            with self.subTest(text):
                self.refused(TypeError, text, call, *args)
        self.kv.pushpull(np.str_("numpy's"), array, None, np.int8(3)).wait(np.float32(PATIENCE))
        self.assertTrue(wait(1e300))

    def test_a_key_that_is_not_utf_8_is_refused_by_python(self):
        self.refused(UnicodeError, "surrogates", self.kv.pushpull, "not UTF-8: \udcff", self.mine())

    def test_a_key_twice_in_flight_raises_duplicate_key(self):
        with self.assertRaisesRegex(tutti.DuplicateKeyError, "twice") as raised:
            self.kv.pushpull(["twice", "twice"], [self.mine(), self.mine()])
        self.assertEqual((raised.exception.key, raised.exception.ranks), ("twice", ()))

    def test_an_error_names_key_and_ranks_as_data(self):
        if self.size == 1:
            self.skipTest("alone nobody disagrees or is late")
        with tutti.create("dist_sync_mpi", key_timeout=0.2, log_level="critical") as kv:
            with self.assertRaises(tutti.MismatchError) as raised:
                kv.pushpull(7, self.mine(3 + min(self.rank, 1))).wait()
            others = tuple(range(1, self.size))
            self.assertEqual((raised.exception.key, raised.exception.ranks), (7, others))
            if self.rank == 0:
                with self.assertRaises(tutti.TimedOutError) as raised:
                    kv.pushpull(8, self.mine()).wait()
                self.assertEqual((raised.exception.key, raised.exception.ranks), (8, others))
                self.assertIsInstance(raised.exception, TimeoutError)
            self.kv.barrier()  # which waits longer

    def test_what_the_type_does_not_offer_is_not_implemented(self):
        array = self.mine()
        calls = {"init": ("k", array), "push": ("k", array), "pull": ("k", array),
                 "row_sparse_pull": ("k", array, np.arange(2)), "set_optimizer": ("sgd",),
                 "save_optimizer_states": (pathlib.Path("file"),), "load_optimizer_states": ("file",),
                 "num_dead_node": ()}
        for name, args in calls.items():
            with self.assertRaisesRegex(NotImplementedError, f"{name}.*dist_sync_mpi") as raised:
                getattr(self.kv, name)(*args)
            self.assertIsInstance(raised.exception, tutti.UnsupportedError)
            self.assertEqual(raised.exception.code, tutti.ErrorCode.unsupported)

    def test_a_wrong_reduction_or_root_is_an_invalid_argument(self):
        with self.assertRaisesRegex(tutti.InvalidArgumentError, "'sum', 'average', 'min' or 'max', not 'mean'"):
            self.kv.pushpull("k", self.mine(), op="mean")
        self.refused(tutti.InvalidArgumentError, "root", self.kv.broadcast, "k", self.mine(), self.size)

    def test_the_librarys_words_for_dtypes_and_options_are_told_in_those_of_python(self):
        self.refused(tutti.InvalidArgumentError, r"input is float32 \(3\), but the output is float64", self.kv.pushpull,
                     "f32", self.mine(3), self.mine(3, np.float64))
        self.refused(tutti.InvalidArgumentError, "key 'f32'", self.kv.pushpull, "f32", self.mine(3), self.mine(4))
        if self.size > 1:
            pending = self.kv.pushpull("f64", self.mine(3, np.float64 if self.rank else np.float32))
            self.refused(tutti.MismatchError, r"'f64'.* rank 0 has float32, ranks? 1.* ha\w+ float64", pending.wait)
        with self.assertRaisesRegex(tutti.InvalidArgumentError, r"\(ranks\), but the job's ranks"):
            tutti.create("dist_sync_mpi", ranks=[self.rank, self.size])

    def test_stores_pendings_and_errors_say_what_they_are(self):
        self.assertEqual(repr(self.kv), f"<tutti.KVStore dist_sync_mpi, rank {self.rank} of {self.size}>")
        if self.size > 1:
            pending = self.kv.pushpull("shown", self.mine()) if self.rank == 0 else None
            self.assertIn(repr(pending), ("<tutti.Pending: in flight>", "None"))
            self.kv.barrier()
            (pending or self.kv.pushpull("shown", self.mine())).wait()
            pending = self.kv.pushpull("shown", self.mine(3 + self.rank))
            with self.assertRaises(tutti.MismatchError):
                pending.wait()
            self.assertRegex(repr(pending), r"<tutti.Pending: failed with MismatchError\(.*key='shown', ranks=\(1,")
        pending = self.kv.pushpull("shown", self.mine())
        pending.wait()
        self.assertEqual(repr(pending), "<tutti.Pending: done>")

    def test_ranks_that_disagree_all_get_mismatch_and_the_store_lives_on(self):
        if self.size > 1:
            pending = self.kv.pushpull("differs", self.mine(3 + self.rank))
            for _ in range(2):
                self.refused(tutti.MismatchError, "differs", pending.wait)
        array = self.mine()
        self.kv.pushpull("differs", array).wait()
        np.testing.assert_array_equal(array, np.full(4, self.total))


if __name__ == "__main__":
    # An exception that nobody handles would make the other ranks wait, so unittest handles them all.
    unittest.main()
