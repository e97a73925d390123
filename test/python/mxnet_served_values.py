"""Tests of values that an MXNet script keeps on servers. Every worker runs them."""
import time
import unittest

import mxnet as mx
import numpy as np

import tutti
from mxnet_fixture import EveryDtype
from mxnet_served_fixture import Served, devices

NAMES = ("dist", "dist_sync", "dist_device_sync", "dist_sync_device")


class Named(Served):
    def test_the_servers_names_are_tuttis_in_any_case(self):
        for name in (*NAMES, "Dist_Sync"):
            kv = mx.kv.create(name)
            self.assertEqual((kv.type, kv.rank, kv.num_workers), (name.lower(), self.rank, self.size))
            self.assertIsInstance(kv, mx.kv.KVStoreBase)
            self.assertTrue(kv)

    def test_a_store_updates_weights_and_knows_no_other_capability(self):
        for name in ("optimizer", "Optimizer"):
            self.assertIs(self.kv.is_capable(name), True)
            self.assertIs(type(self.kv).is_capable(name), True)
        self.refused(lambda: self.kv.is_capable("sparse"), "Unknown capability: sparse", ValueError)

    def test_a_job_of_one_kind_refuses_the_other_and_mpi(self):
        self.refused(lambda: mx.kv.create("dist_async"), "already has a store of type dist_sync.*dist_async")
        self.refused(lambda: mx.kv.create("dist_sync_mpi"), "--mode ps.*--mode mpi")

    def test_a_store_of_mxnets_own_that_would_take_the_scheduler_for_its_own_is_refused(self):
        self.refused(lambda: mx.kv.create("dist_p3"), "'dist_p3' is not known.*dist_sync", ValueError)

    def test_two_stores_of_one_program_have_their_own_keys(self):
        first, second = mx.kv.create("dist_sync"), mx.kv.create("dist_sync")
        first.init("same", mx.nd.ones(2))
        second.init("same", mx.nd.zeros(2))
        value = mx.nd.zeros(2)
        first.pull("same", out=value)
        self.same(value, 1)


class Values(EveryDtype, Served):
    def setUp(self):
        self.kv = mx.kv.create(self.ASKED)
        self.kv.init("v", self.mine())

    def pulled(self, key="v", shape=(3,)):
        value = mx.nd.zeros(shape)
        self.kv.pull(key, out=value)
        return value

    def test_init_stores_worker_0s_value_and_leaves_the_array(self):
        array = self.mine()
        self.kv.init("i", array)
        self.same(array, self.rank + 1)
        self.same(self.pulled("i"), 1)
        with self.assertRaisesRegex(tutti.InvalidArgumentError, r"'i of store \d+'") as caught:
            self.kv.init("i", array)
        self.assertEqual(caught.exception.key, "i")

    def test_push_replaces_the_value_by_the_sum_and_a_pull_follows_it(self):
        for _ in range(3):
            self.kv.push("v", self.mine(), priority=-1)
            self.same(self.pulled(), self.total)

    def test_a_pull_gives_the_value_to_every_out_whatever_ignore_sparse_says(self):
        outs = [mx.nd.zeros(3), mx.nd.zeros(3), mx.nd.zeros(3, ctx=mx.cpu(1))]
        for given in ({}, {"ignore_sparse": True}, {"ignore_sparse": False}):
            self.kv.pull("v", out=outs, **given)
            self.same(outs, 1)
        self.refused(lambda: self.kv.pull("v"), "out=", tutti.InvalidArgumentError)

    def test_pushpull_sums_in_place_or_into_outs(self):
        array, out = self.mine(), mx.nd.zeros(3)
        self.kv.pushpull("v", array, out=out)
        self.same(array, self.rank + 1)
        self.same(out, self.total)
        self.kv.pushpull("v", array, out=array)
        self.same(array, self.total)
        array = self.mine()
        self.kv.pushpull("v", array)
        self.same([array, self.pulled()], self.total)

    def test_values_of_several_devices_are_summed_first(self):
        arrays = [self.mine(ctx=device) for device in devices(3)]
        self.kv.push("v", arrays)
        self.same(self.pulled(), 3 * self.total)
        self.kv.pushpull("v", arrays)
        self.same(arrays, 3 * self.total)

    def test_lists_of_keys_are_taken_and_a_key_twice_is_summed(self):
        self.kv.init(["a", "b"], [mx.nd.zeros(3), mx.nd.zeros((2, 2))])
        self.kv.push(["a", "b", "a"], [self.mine(), self.mine((2, 2)), self.mine() * 10])
        self.same(self.pulled("a"), 11 * self.total)
        outs = [mx.nd.zeros(3), [mx.nd.zeros((2, 2)), mx.nd.zeros((2, 2))]]
        self.kv.pull(["a", "b"], out=outs)
        self.same(outs[1], self.total)
        self.refused(lambda: self.kv.push(["a", "b"], [self.mine()]), "an entry for each key", ValueError)

    def test_integer_keys_have_values_of_their_own(self):
        kv = mx.kv.create(self.ASKED)  # strings are another store's
        for key in (0, 7):
            kv.init(key, mx.nd.full(2, key))
        out = mx.nd.zeros(2)
        kv.pushpull(7, self.mine((2,)), out=out)
        self.same(out, self.total)
        kv.pull(0, out=out)
        self.same(out, 0)
        self.refused(lambda: kv.init("7", out), "all integers or all strings", tutti.InvalidArgumentError)
        self.refused(lambda: kv.push(1.5, out), "1.5", TypeError)

    def test_broadcast_gives_worker_0s_value_to_every_out_and_stores_it(self):
        value, outs = self.mine(), [mx.nd.zeros(3, ctx=device) for device in devices(2)]
        self.kv.broadcast("b", value, out=outs)
        self.same([*outs, self.pulled("b")], 1)
        self.same(value, self.rank + 1)

    def test_an_array_of_several_keys_of_a_list_is_read_for_each_before_it_is_written(self):
        self.kv.init(["w", "x"], [self.mine(), self.mine()])
        array = self.mine()
        self.kv.pushpull(["v", "w"], [array, array])
        self.same(array, self.total)
        first, second, third = self.mine(), self.mine() * 10, mx.nd.zeros(3)
        self.kv.pushpull(["v", "x"], [first, second], out=[second, third])
        self.same(second, self.total)
        self.same(third, 10 * self.total)

    def test_arrays_that_share_memory_are_summed_too(self):
        whole = self.mine((6,))
        self.kv.pushpull("v", [whole[:3], whole[3:]])
        self.same(whole, 2 * self.total)

    def test_a_gradient_is_read_when_it_is_written_and_the_caller_does_not_wait(self):
        start = time.monotonic()
        slow = mx.nd.ones((700, 700))
        for _ in range(12):
            slow = mx.nd.dot(slow, slow) * 0 + 1
        value = slow[0, :3] * (self.rank + 1)
        self.kv.pushpull("v", value)
        asked = time.monotonic() - start
        self.same(value, self.total)
        self.assertLess(asked, (time.monotonic() - start) / 2)

    def test_an_error_is_raised_where_the_array_is_waited_for(self):
        array = self.mine()
        self.kv.pull("unknown", out=array)
        with self.assertRaisesRegex(tutti.InvalidArgumentError, "unknown"):
            array.wait_to_read()
        array = self.mine((4,))
        self.kv.push("v", array)
        with self.assertRaises(tutti.Error):
            array.wait_to_read()
        self.same(self.pulled(), 1)

    def test_sparse_arrays_that_have_no_place_are_refused_by_key(self):
        rows, csr = (self.mine((4, 2)).tostype(stype) for stype in ("row_sparse", "csr"))
        for stype, call in (("csr", lambda: self.kv.push("s", csr)), ("csr", lambda: self.kv.init("s", csr)),
                            ("row_sparse", lambda: self.kv.pull("s", out=rows, ignore_sparse=False)),
                            ("row_sparse", lambda: self.kv.pushpull("s", rows)),
                            ("csr", lambda: self.kv.row_sparse_pull("s", out=csr, row_ids=mx.nd.zeros(1)))):
            self.refused(call, f"'s'.*{stype}.*dense")
        self.kv.pull("v", out=rows)  # as MXNet's own, which leaves them to row_sparse_pull
        self.same(rows, self.rank + 1)

    def rows(self, expected, shape=(4, 3)):
        """The rows of a value whose elements are 1, 2, 3, ..."""
        value = np.arange(1, 1 + np.prod(shape)).reshape(shape)
        value[[row for row in range(shape[0]) if row not in expected]] = 0
        return value

    def test_rows_are_pulled_by_ids_of_any_kind_into_dense_and_row_sparse_arrays(self):
        self.kv.init("rows", mx.nd.array(self.rows(range(4))))
        for ids, expected in ((mx.nd.array([2, 0], dtype="int64"), [0, 2]), (mx.nd.array([1]), [1]),
                              (mx.nd.array([[3, 3], [1, 3]]), [1, 3]), (mx.nd.array([2], dtype="uint8"), [2]),
                              (mx.nd.array([]), [])):
            for stype in ("default", "row_sparse"):
                out = mx.nd.ones((4, 3)).tostype(stype)
                self.kv.row_sparse_pull("rows", out=out, row_ids=ids)
                self.assertEqual(out.stype, stype)
                np.testing.assert_array_equal(out.asnumpy(), self.rows(expected))

    def test_rows_come_to_several_devices_of_several_keys(self):
        names = ["first", "second"]
        self.kv.init(names, [mx.nd.array(self.rows(range(4))) for _ in names])
        outs = [mx.nd.ones((4, 3), ctx=device) for device in devices(2)]
        one, other = mx.nd.array([0]), mx.nd.array([3, 1])
        self.kv.row_sparse_pull("first", out=outs, row_ids=one)
        for out in outs:
            np.testing.assert_array_equal(out.asnumpy(), self.rows([0]))
        self.kv.row_sparse_pull("first", out=outs, row_ids=[one, other])
        np.testing.assert_array_equal(outs[1].asnumpy(), self.rows([1, 3]))
        self.kv.row_sparse_pull(names, out=[outs, outs[0].copy()], row_ids=[other, one], priority=-1)
        np.testing.assert_array_equal(outs[0].asnumpy(), self.rows([1, 3]))

    def test_rows_follow_this_workers_pushes_and_one_without_rows_counts(self):
        self.kv.init("sparse", self.mine((4, 3)).tostype("row_sparse"))
        self.same(self.pulled("sparse", (4, 3)), 1)
        mine = mx.nd.sparse.zeros("row_sparse", (4, 3))
        if self.rank == 0:
            mine = mx.nd.sparse.row_sparse_array((np.full((1, 3), 5.0, np.float32), [2]), shape=(4, 3))
        self.kv.push("sparse", mine)
        out = mx.nd.sparse.zeros("row_sparse", (4, 3))
        self.kv.row_sparse_pull("sparse", out=out, row_ids=mx.nd.array([0, 2]))
        np.testing.assert_array_equal(out.asnumpy()[:, 0], [0, 0, 5, 0])

    def test_rows_that_are_not_there_are_refused(self):
        out, ids = mx.nd.zeros((3,)), mx.nd.array([0])
        for call, words in ((lambda: self.kv.row_sparse_pull("v", out=out), "'v'.*row_ids="),
                            (lambda: self.kv.row_sparse_pull("v", row_ids=ids), "'v'.*out="),
                            (lambda: self.kv.row_sparse_pull("v", out=out, row_ids=mx.nd.array([3])), "3 is no row"),
                            (lambda: self.kv.row_sparse_pull("v", out=out, row_ids=mx.nd.array([0.5])), "0.5 is no"),
                            (lambda: self.kv.row_sparse_pull("nowhere", out=out, row_ids=ids), "nowhere.*initialised"),
                            (lambda: self.kv.row_sparse_pull("v", out=out, row_ids=[ids] * 2), "2 row_ids for 1"),
                            (lambda: self.kv.row_sparse_pull(["v"], out=[out], row_ids=[ids] * 2), "lists of out")):
            self.refused(call, words, tutti.InvalidArgumentError)

    def test_no_node_is_dead_and_only_all_are_counted(self):
        self.assertEqual((self.kv.num_dead_node(), self.kv.get_num_dead_node(7, timeout=1)), (0, 0))
        self.refused(lambda: self.kv.get_num_dead_node(4), "node_id 4.*node_id 7")

    def test_two_pushes_of_one_worker_are_of_two_rounds(self):
        """MXNet's own servers only count pushes: for them, two pushes of one worker are a round of two workers."""
        self.kv.init("ahead", mx.nd.zeros(3))
        if self.rank == 0:
            for value in (1, 10):
                self.kv.push("ahead", mx.nd.full(3, value))
            time.sleep(0.2)  # on their way to the servers
        self.kv.barrier()
        if self.rank > 0:
            self.same(self.pulled("ahead"), 0)
            for value in (1, 10):
                self.kv.push("ahead", mx.nd.full(3, 100 * value))
                self.same(self.pulled("ahead"), value * (1 + 100 * (self.size - 1)))
        self.same(self.pulled("ahead"), 10 * (1 + 100 * (self.size - 1)))

    def waits_for_all(self, call):
        """Checks that a call waits for all workers, of which worker 0 comes late. All workers run on one machine, so
        they have the same clock.
        """
        if self.rank == 0:
            time.sleep(0.2)
        came = np.array([time.monotonic()])
        call()
        went = time.monotonic()
        kv = mx.kv.create(self.ASKED)
        latest = [mx.nd.array(came, dtype="float64") for _ in range(self.size)]
        for rank in range(self.size):
            own = mx.nd.array(came if rank == self.rank else [0], dtype="float64")
            kv.pushpull(f"came {rank}", own, out=latest[rank])
        self.assertGreaterEqual(went, max(each.asscalar() for each in latest))

    def test_the_barrier_of_scripts_waits_for_all_workers(self):
        self.waits_for_all(self.kv._barrier)

    def test_init_waits_for_all_workers(self):
        self.waits_for_all(lambda: self.kv.init("waits", mx.nd.zeros(1)))


if __name__ == "__main__":
    unittest.main()
