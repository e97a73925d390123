"""Tests of an MXNet script that calls a store of type dist_sync_mpi itself. Every rank runs them."""
import time
import unittest
from unittest import mock

import mxnet as mx
import numpy as np

import tutti
import tutti.mxnet
from mxnet_fixture import EveryDtype, Ranks, devices

KEPT = []


class Named(Ranks):
    def test_a_store_is_found_by_its_name_in_any_case(self):
        for name in ("dist_sync_mpi", "DIST_SYNC_MPI", "Dist_Sync_MPI"):
            kv = mx.kv.create(name)
            self.assertEqual((kv.type, kv.rank, kv.num_workers), ("dist_sync_mpi", self.rank, self.size))

    def test_a_store_is_one_of_mxnet_and_true(self):
        self.assertIsInstance(self.kv, mx.kv.KVStoreBase)
        self.assertNotIsInstance(self.kv, mx.kv.KVStore)
        self.assertTrue(self.kv)

    def test_mxnet_keeps_its_own_types(self):
        for name in ("local", "local_update_cpu", "local_allreduce_cpu", "local_allreduce_device", "Device"):
            self.assertIsInstance(mx.kv.create(name), mx.kv.KVStore)
        self.assertIsInstance(mx.kv.create("teststore"), mx.kv.KVStoreBase)
        self.assertNotIn("dist_sync", mx.kv.KVStoreBase.kv_registry)
        with self.assertRaisesRegex(TypeError, "must be a string"):
            mx.kv.create(3)

    def test_a_name_that_nobody_knows_is_refused_and_no_store_of_one_process(self):
        for name, words in (("nonsense", "'nonsense' is not known.*known: .*dist_sync_mpi.*local"),
                            ("dist_sync_mpl", "did you mean 'dist_sync_mpi'"), ("mpi", "not known"),
                            ("", "not known")):
            with self.subTest(name), self.assertRaisesRegex(tutti.InvalidArgumentError, words):
                mx.kv.create(name)
            with self.subTest(name), self.assertRaisesRegex(ValueError, words):
                mx.model._create_kvstore(name, 1, {})

    def test_a_store_that_a_program_registers_is_known(self):
        try:
            @mx.kv.KVStoreBase.register
            class Their(mx.kv.KVStoreBase):  # pylint: disable=unused-variable
                pass
            self.assertEqual(type(mx.kv.create("THEIR")).__name__, "Their")
        finally:
            del mx.kv.KVStoreBase.kv_registry["their"]

    def test_a_store_updates_no_weights_and_knows_no_other_capability(self):
        for name in ("optimizer", "Optimizer", mx.kv.KVStoreBase.OPTIMIZER):
            self.assertIs(self.kv.is_capable(name), False)
            self.assertIs(type(self.kv).is_capable(name), False)
        with self.assertRaisesRegex(ValueError, "Unknown capability: sparse"):
            self.kv.is_capable("sparse")


class Refused(Ranks):
    def refused(self, call, words):
        with self.subTest(words), self.assertRaisesRegex(NotImplementedError, words) as caught:
            call()
        self.assertIsInstance(caught.exception, tutti.UnsupportedError)

    def test_push_and_pull_say_what_to_call(self):
        array = self.mine()
        for given in ({}, {"ignore_sparse": True}, {"ignore_sparse": False}):
            self.refused(lambda: self.kv.pull("k", out=array, **given), "^pull .*dist_sync_mpi.* pushpull.* broadcast")
        self.refused(lambda: self.kv.push("k", array, priority=1), "^push .*dist_sync_mpi.* pushpull")

    def test_row_sparse_pull_says_what_to_do_whatever_its_row_ids_are(self):
        for ids in ([0.0, 1.0], [[0, 1], [2, 3]], [1, 1, 1], []):
            ids = mx.nd.array(np.array(ids, np.float32)) if ids else None
            self.refused(lambda: self.kv.row_sparse_pull("k", out=self.mine(), row_ids=ids), "row_sparse_pull .* dense")

    def test_what_is_done_on_servers_is_refused_with_what_to_do_instead(self):
        for call, words in ((lambda: self.kv.set_optimizer(mx.optimizer.SGD()), "update_on_kvstore=False"),
                            (lambda: self.kv.save_optimizer_states("f", dump_optimizer=True), "save_states"),
                            (lambda: self.kv.load_optimizer_states("f"), "load_states"),
                            (self.kv.num_dead_node, "PeerLostError"),
                            (lambda: self.kv.get_num_dead_node(7), "PeerLostError"),
                            (lambda: self.kv._set_updater(lambda *_: None), "pushpull"),
                            (lambda: self.kv._send_command_to_servers(0, "x"), "no servers")):
            self.refused(call, words)

    def test_compression_of_another_type_says_which_stores_have_it(self):
        for kind in ("2bit", "1bit"):
            self.refused(lambda: self.kv.set_gradient_compression({"type": kind, "threshold": 0.5}),
                         f"{kind} .*dist_sync, dist_async.* fp16, bf16 or none")
        self.refused(lambda: self.kv.set_gradient_compression({"type": "3bit"}), "3bit.*fp16")
        with self.assertRaisesRegex(tutti.InvalidArgumentError, "'type'"):
            self.kv.set_gradient_compression({"threshold": 0.5})

    def test_sparse_arrays_are_refused_by_key(self):
        sparse = self.mine((4, 2)).tostype("row_sparse")
        for call in (lambda: self.kv.pushpull("s", sparse), lambda: self.kv.init("s", sparse),
                     lambda: self.kv.pushpull("s", self.mine((4, 2)), out=sparse),
                     lambda: self.kv.broadcast("s", sparse, out=self.mine((4, 2))),
                     lambda: self.kv.push("s", sparse), lambda: self.kv.push("s", [sparse])):
            self.refused(call, "'s'.*row_sparse.*dense")

    def on_gpu(self):
        """An array that has a device and no memory yet: MXNet for CPUs makes no other. It stays until the program ends:
        where an operation on it is not quite over its end waits for the device's thread, which is not there."""
        KEPT.append(mx.nd.NDArray(mx.nd.ndarray._new_alloc_handle((3,), mx.gpu(1), True)))
        return KEPT[-1]

    def test_arrays_of_devices_are_refused_by_key_before_anything_is_exchanged(self):
        array = self.mine()
        for call in (lambda: self.kv.pushpull(["a", "g"], [array, self.on_gpu()]),
                     lambda: self.kv.pushpull("g", [array, self.on_gpu()]),
                     lambda: self.kv.pushpull("g", array, out=self.on_gpu()), lambda: self.kv.init("g", self.on_gpu()),
                     lambda: self.kv.broadcast("g", array, out=[array, self.on_gpu()])):
            self.refused(call, "'g'.*gpu\\(1\\).*as_in_context\\(mx.cpu")
        self.same(array, self.rank + 1)
        for context in (mx.cpu_pinned(), mx.Context("cpu_shared", 0)):
            with mock.patch.object(mx.nd.NDArray, "context", context):
                self.assertEqual(tutti.mxnet.values.dense("g", [array]), [array])

    def test_memory_of_a_device_is_never_taken_for_the_processs_own(self):
        array, exchange = self.on_gpu(), self.kv._exchange
        exchange.start("pushpull", "g", [array], [array], 0)
        with self.assertRaisesRegex(tutti.UnsupportedError, "gpu\\(1\\)"):
            array.wait_to_read()

    def test_what_is_no_array_is_refused_by_key_before_anything_is_exchanged(self):
        for call, words in ((lambda: self.kv.pushpull("n", np.ones(3)), "'n'.*NDArray.*not ndarray"),
                            (lambda: self.kv.pushpull(["a", "n"], [self.mine(), None]), "'n'.*NDArray"),
                            (lambda: self.kv.broadcast("n", self.mine(), out=None), "'n'.*NDArray")):
            with self.subTest(words), self.assertRaisesRegex(TypeError, words):
                call()
        for call, words in ((lambda: self.kv.pushpull(["a", "n"], [self.mine()]), "an entry for each key"),
                            (lambda: self.kv.pushpull(["a"], self.mine()), "an entry for each key"),
                            (lambda: self.kv.pushpull("n", []), "'n': pass at least one array"),
                            (lambda: self.kv.broadcast("n", self.mine(), out=[]), "'n': pass at least one array")):
            with self.subTest(words), self.assertRaisesRegex(ValueError, words):
                call()
        array = self.mine()
        self.kv.pushpull("a", array)
        self.same(array, self.total)

    def test_a_key_twice_in_one_list_is_refused(self):
        with self.assertRaisesRegex(tutti.DuplicateKeyError, "'twice'") as caught:
            self.kv.pushpull(["once", "twice", "twice"], [self.mine() for _ in range(3)])
        self.assertEqual(caught.exception.key, "twice")


class Exchanged(EveryDtype, Ranks):
    def test_pushpull_sums_in_place(self):
        array = self.mine()
        self.kv.pushpull("in place", array, priority=-1)
        self.same(array, self.total)
        array = self.mine()
        self.kv.pushpull("in place", array, out=array)
        self.same(array, self.total)

    def test_pushpull_sums_into_one_or_several_outs_and_leaves_the_value(self):
        array, outs = self.mine(), [mx.nd.zeros(3), mx.nd.zeros(3, ctx=mx.cpu(1))]
        self.kv.pushpull("outs", array, out=outs)
        self.same(outs, self.total)
        self.kv.pushpull("outs", array, out=outs[0])
        self.same(outs[0], self.total)
        self.same(array, self.rank + 1)

    def test_pushpull_sums_over_the_devices_of_a_rank(self):
        arrays = [self.mine(ctx=device) for device in devices(3)]
        self.kv.pushpull("devices", arrays)
        self.same(arrays, 3 * self.total)
        arrays, out = [self.mine(ctx=device) for device in devices(2)], mx.nd.zeros(3)
        self.kv.pushpull("devices", arrays, out=out)
        self.same(out, 2 * self.total)
        self.same(arrays, self.rank + 1)

    def test_pushpull_takes_lists_of_keys_with_outs_and_devices(self):
        arrays = [self.mine(), self.mine((2, 2)) * 10]
        self.kv.pushpull(["a", "b"], arrays)
        self.same(arrays[0], self.total)
        self.same(arrays[1], 10 * self.total)
        values = [[self.mine(ctx=device) for device in devices(2)] for _ in range(2)]
        outs = [[mx.nd.zeros(3, ctx=device) for device in devices(2)], mx.nd.zeros(3)]
        self.kv.pushpull(["c", "d"], values, out=outs, priority=2)
        self.same([*outs[0], outs[1]], 2 * self.total)

    def test_keys_are_integers_or_strings_and_a_store_has_one_of_the_two(self):
        for keys, other in (((7, -7, 2**40, np.int64(8)), "7"), (("7", "", "a b/ü"), 7)):
            kv = mx.kv.create("dist_sync_mpi")
            arrays = [self.mine() * (i + 1) for i in range(len(keys))]
            for key, array in zip(keys, arrays):
                kv.pushpull(key, array)
            for i, array in enumerate(arrays):
                self.same(array, self.total * (i + 1))
            with self.assertRaisesRegex(tutti.InvalidArgumentError, "all integers or all strings"):
                array = self.mine()
                kv.pushpull(other, array)
                array.wait_to_read()
            for key in (1.5, None, b"7"):
                with self.assertRaisesRegex(TypeError, "key"):
                    kv.pushpull(key, self.mine())

    def test_priorities_are_passed_on_with_each_key_of_a_list(self):
        with mock.patch.object(tutti.mxnet.store._Exchange, "start") as start:
            self.kv.pushpull(["a", "b"], [self.mine(), self.mine()], priority=-7)
            self.kv.pushpull("a", self.mine(), out=self.mine(), priority=3)
            self.kv.broadcast("a", self.mine(), out=self.mine(), priority=5)
            self.kv.init("a", self.mine())
        self.assertEqual([(call.args[0], call.args[1], call.args[4]) for call in start.call_args_list],
                         [("pushpull", "a", -7), ("pushpull", "b", -7), ("pushpull", "a", 3), ("broadcast", "a", 5),
                          ("broadcast", "a", 0)])

    def test_arrays_that_share_memory_are_summed_too(self):
        whole = self.mine((4,))
        self.kv.pushpull("shared", [whole[:2], whole[2:]])
        self.same(whole, 2 * self.total)
        whole = self.mine((4,))
        self.kv.pushpull(["first", "second"], [whole[:2], whole[2:]])
        self.same(whole, self.total)

    def test_an_array_of_several_keys_of_a_list_is_read_for_each_before_it_is_written(self):
        array = self.mine()
        self.kv.pushpull(["a", "b", "c"], [array] * 3)
        self.same(array, self.total)
        whole = self.mine((2, 2))
        self.kv.pushpull(["d", "e"], [whole, whole.reshape((4,))])
        self.same(whole, self.total)
        arrays = [[mx.nd.ones(3, ctx=device) for device in devices(4)]] * 3
        self.kv.pushpull(["f", "g", "h"], arrays)
        self.same(arrays[0], 4 * self.size)
        first, second, third = self.mine(), self.mine() * 10, mx.nd.zeros(3)
        self.kv.pushpull(["i", "j"], [first, second], out=[second, third])
        self.same(second, self.total)
        self.same(third, 10 * self.total)
        self.kv.broadcast(["k", "l"], [second, third], out=[third, first])
        self.same(third, self.total)
        self.same(first, 10 * self.total)

    def test_a_key_may_be_called_again_before_it_is_done_and_no_rank_closes_a_round_alone(self):
        arrays = [self.mine() * (i + 1) for i in range(20)]
        ahead = 10 if self.rank == 0 else 0  # calls that the others have not made
        for array in arrays[:ahead]:
            self.kv.pushpull("again", array)
        self.others.barrier()
        for array in arrays[ahead:]:
            self.kv.pushpull("again", array)
        for i, array in enumerate(arrays):
            self.same(array, self.total * (i + 1))

    def test_broadcast_gives_the_value_of_rank_0_to_every_out(self):
        value, outs = self.mine(), [mx.nd.zeros(3, ctx=device) for device in devices(2)]
        self.kv.broadcast("b", value, out=outs)
        self.same(outs, 1)
        self.same(value, self.rank + 1)
        self.kv.broadcast("single", value, out=outs[0], priority=5)
        self.same(outs[0], 1)
        self.kv.broadcast(["b", "c"], [value, value * 2], out=[outs, [value]])
        self.same(outs, 1)
        self.same(value, 2)

    def test_a_value_may_be_one_of_its_outs_wherever_it_stands_there(self):
        value, other = self.mine(), mx.nd.zeros(3, ctx=mx.cpu(1))
        self.kv.broadcast("b", value, out=[other, value])
        self.same([value, other], 1)

    def test_init_gives_the_value_of_rank_0_and_says_so(self):
        array = self.mine()
        self.kv.init("init", array)
        self.same(array, 1)
        self.assertIn("rank 0's", type(self.kv).init.__doc__)
        arrays = [self.mine(), self.mine()]
        self.kv.init(["first", "second"], arrays)
        self.same(arrays, 1)

    def test_compression_leaves_first_values_and_other_dtypes_alone(self):
        for kind in ("fp16", "bf16", "none"):
            kv = mx.kv.create("dist_sync_mpi")
            kv.set_gradient_compression({"type": kind})
            third, double = mx.nd.ones(3) / 3, mx.nd.ones(3, dtype="float64") / 3
            kv.broadcast("first", third, out=third)
            self.same(third, np.float32(1) / np.float32(3))
            kv.pushpull("double", double)
            np.testing.assert_allclose(double.asnumpy(), self.size / 3, rtol=1e-12)
            array = self.mine()
            kv.pushpull("compressed", array)
            self.same(array, self.total)

    def test_compression_comes_before_the_first_array(self):
        kv = mx.kv.create("dist_sync_mpi")
        array = self.mine()
        kv.pushpull(0, array)
        array.wait_to_read()
        with self.assertRaisesRegex(ValueError, "right after create"):
            kv.set_gradient_compression({"type": "fp16"})

    def test_a_compression_that_the_store_has_may_be_asked_for_again(self):
        """The second of two Trainers on one store does that."""
        kv = mx.kv.create("dist_sync_mpi")
        for _ in range(2):
            kv.set_gradient_compression({"type": "fp16"})
            array = self.mine()
            kv.pushpull(0, array)
            self.same(array, self.total)
        with self.assertRaisesRegex(ValueError, "right after create"):
            kv.set_gradient_compression({"type": "bf16"})

    def test_the_barrier_of_scripts_waits_for_all_ranks(self):
        for barrier in (self.kv.barrier, self.kv._barrier):
            if self.rank == 0:
                time.sleep(0.2)
            came = time.monotonic()  # the same clock for all, on one machine
            barrier()
            went = time.monotonic()
            times = self.others.allgather_object((came, went))
            self.assertGreaterEqual(min(went for _, went in times), max(came for came, _ in times))

    def test_a_rank_that_ran_out_of_data_joins_and_brings_zeros(self):
        kv = mx.kv.create("dist_sync_mpi")
        for i in range(self.rank + 1):
            array = mx.nd.ones(2)
            kv.pushpull(0, array)
            self.same(array, self.size - i)
        self.assertEqual(kv.join(), self.size - 1)

    def test_tuttis_own_store_beside_it_has_its_own_keys(self):
        array, mine = self.mine(), np.full(3, self.rank + 1, np.float32)
        self.kv.pushpull("beside", array)
        self.others.pushpull("beside", mine).wait()
        self.same(array, self.total)
        self.assertEqual(mine.tolist(), [self.total] * 3)


if __name__ == "__main__":
    unittest.main()
