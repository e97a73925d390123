"""What an MXNet script may count on when its store's type is dist_sync_mpi, on every rank of an MPI job."""
import os
import pathlib
import sys
import tempfile
import threading
import time
import unittest
import warnings

import mxnet as mx
from mxnet import autograd, gluon
import numpy as np

import tutti
import tutti.mxnet

PATIENCE = 60


def setUpModule():
    global KV, CHECKS, TRAINED, RANK, SIZE, TOTAL  # pylint: disable=global-variable-undefined
    os.environ["TUTTI_TIMEOUT_SECONDS"] = str(PATIENCE)
    KV = mx.kv.create("dist_sync_mpi")
    TRAINED = mx.kv.create("dist_sync_mpi")  # for the integer keys of trainers
    CHECKS = mx.kv.create("dist_sync_mpi")
    RANK, SIZE = KV.rank, KV.num_workers
    TOTAL = SIZE * (SIZE + 1) // 2  # of what the ranks bring: 1, 2, 3, ...


def mine(shape=(3,), ctx=None, **kinds):
    return mx.nd.full(shape, RANK + 1, ctx=ctx or mx.cpu(), **kinds)


def devices(count=2):
    return [mx.cpu(i) for i in range(count)]


class Same(unittest.TestCase):
    def same(self, arrays, value):
        for array in arrays if isinstance(arrays, list) else [arrays]:
            np.testing.assert_array_equal(array.asnumpy(), np.full(array.shape, value))


class Named(Same):
    def test_its_name_is_found_in_any_case(self):
        for name in ("dist_sync_mpi", "DIST_SYNC_MPI", "Dist_Sync_MPI"):
            self.assertEqual(mx.kv.create(name).type, "dist_sync_mpi")

    def test_a_trainer_with_one_device_has_the_store_whatever_the_case_of_its_name(self):
        net = gluon.nn.Dense(1, in_units=1)
        net.initialize(mx.init.Constant(RANK + 1))
        trainer = gluon.Trainer(net.collect_params(), "sgd", kvstore="DIST_SYNC_MPI")
        trainer._init_kvstore()
        trainer._init_params()
        self.assertEqual(trainer._kvstore.type, "dist_sync_mpi")
        self.same(net.weight.data(), 1)

    def test_it_is_a_store_of_mxnet_and_true(self):
        self.assertIsInstance(KV, mx.kv.KVStoreBase)
        self.assertTrue(KV)

    def test_mxnet_keeps_its_own_types(self):
        self.assertIsInstance(mx.kv.create("local"), mx.kv.KVStore)
        self.assertNotIn("dist_sync", mx.kv.KVStoreBase.kv_registry)

    def test_it_updates_no_weights_and_knows_no_other_capability(self):
        for name in ("optimizer", "Optimizer"):
            self.assertFalse(KV.is_capable(name))
            self.assertFalse(type(KV).is_capable(name))
        with self.assertRaisesRegex(ValueError, "Unknown capability: sparse"):
            KV.is_capable("sparse")

    def test_what_it_does_not_have_says_what_to_call(self):
        array = mine()
        for call, words in ((lambda: KV.push(3, array), "push is not .* pushpull"),
                            (lambda: KV.pull(3, out=array, ignore_sparse=False), "pull .* pushpull"),
                            (lambda: KV.row_sparse_pull(3, out=array, row_ids=array), "dense"),
                            (lambda: KV.set_optimizer(mx.optimizer.SGD()), "update_on_kvstore=False"),
                            (lambda: KV.save_optimizer_states("f"), "save_states"),
                            (lambda: KV.load_optimizer_states("f"), "load_states"),
                            (lambda: KV._set_updater(lambda *_: None), "pushpull"),
                            (lambda: KV._send_command_to_servers(0, "x"), "no servers"),
                            (lambda: KV.set_gradient_compression({"type": "2bit", "threshold": 0.5}), "2bit")):
            with self.subTest(words), self.assertRaisesRegex(NotImplementedError, words):
                call()


class Exchanged(Same):
    def test_pushpull_sums_in_place(self):
        array = mine()
        KV.pushpull("in place", array, priority=-1)
        self.same(array, TOTAL)

    def test_pushpull_sums_into_one_or_several_outs(self):
        array, outs = mine(), [mx.nd.zeros(3), mx.nd.zeros(3, ctx=mx.cpu(1))]
        KV.pushpull("outs", array, out=outs)
        self.same(outs, TOTAL)
        KV.pushpull("outs", array, out=outs[0])
        self.same(outs[0], TOTAL)
        self.same(array, RANK + 1)

    def test_pushpull_sums_over_the_devices_of_a_rank(self):
        arrays = [mine(ctx=device) for device in devices()]
        KV.pushpull("devices", arrays)
        self.same(arrays, 2 * TOTAL)

    def test_pushpull_takes_lists_of_keys(self):
        arrays = [mine(), mine((2, 2)) * 10]
        KV.pushpull(["a", "b"], arrays)
        self.same(arrays[0], TOTAL)
        self.same(arrays[1], 10 * TOTAL)
        with self.assertRaisesRegex(tutti.InvalidArgumentError, "one a key"):
            KV.pushpull(["a", "b"], [mine()])

    def test_arrays_that_share_memory_are_summed_too(self):
        whole = mine((4,))
        KV.pushpull("shared", [whole[:2], whole[2:]])
        self.same(whole, 2 * TOTAL)

    def test_a_key_may_be_called_again_before_it_is_done(self):
        arrays = [mine() * (i + 1) for i in range(20)]
        for array in arrays:
            KV.pushpull("again", array)
        for i, array in enumerate(arrays):
            self.same(array, TOTAL * (i + 1))

    def test_broadcast_gives_the_value_of_rank_0_to_every_out(self):
        outs = [mx.nd.zeros(3, ctx=device) for device in devices()]
        KV.broadcast("b", mine(), out=outs)
        self.same(outs, 1)
        KV.broadcast("single", mine(), out=outs[0], priority=5)
        self.same(outs[0], 1)

    def test_init_gives_the_value_of_rank_0(self):
        array = mine()
        KV.init("init", array)
        self.same(array, 1)

    def test_halves_are_summed(self):
        array = mine(dtype="float16")
        KV.pushpull("half", array)
        self.same(array, TOTAL)

    def test_compression_is_that_of_tutti(self):
        kv = mx.kv.create("dist_sync_mpi")
        kv.set_gradient_compression({"type": "fp16"})
        array = mine()
        kv.pushpull(0, array)
        self.same(array, TOTAL)

    def test_sparse_arrays_are_refused_by_key(self):
        sparse = mine((4, 2)).tostype("row_sparse")
        with self.assertRaisesRegex(tutti.UnsupportedError, "'s'.*row_sparse.*dense"):
            KV.pushpull("s", sparse)

    def test_the_barrier_waits_for_all_ranks(self):
        KV.barrier()
        KV._barrier()


class Ordered(Same):
    """By MXNet's engine."""

    def test_a_gradient_is_read_when_it_is_written_and_the_caller_does_not_wait(self):
        big = mx.nd.ones((1200, 1200))
        mx.nd.waitall()
        begin = time.monotonic()
        slow = big
        for _ in range(10):
            slow = mx.nd.dot(slow, big) / 1200
        array = slow[0, :4] * (RANK + 1)
        KV.pushpull("late", array)
        called = time.monotonic() - begin
        self.same(array, TOTAL)
        self.assertLess(called, (time.monotonic() - begin) / 2)

    def test_a_gradient_is_written_when_its_readers_have_read_it(self):
        big = mx.nd.ones((1200, 1200))
        array = mine((1200, 1200))
        read = mx.nd.dot(mx.nd.dot(big, big) / 1200, array)
        KV.pushpull("read", array)
        self.same(read, 1200 * (RANK + 1))
        self.same(array, TOTAL)

    def test_an_array_that_has_nothing_to_do_with_a_call_does_not_wait_for_it(self):
        first = RANK == 0
        array, other = mine(), mine()
        if first:
            KV.pushpull("unrelated", array)
            self.same(other, 1)  # the other ranks come only afterwards
        KV.barrier()
        if not first:
            KV.pushpull("unrelated", array)
        self.same(array, TOTAL)

    def test_ranks_may_call_in_different_orders(self):
        arrays = [mine((i + 1,)) for i in range(30)]
        for i in np.random.RandomState(RANK).permutation(len(arrays)):
            KV.pushpull(f"order {i}", arrays[i], priority=-int(i))
        for array in arrays:
            self.same(array, TOTAL)

    def test_an_error_is_raised_where_the_array_is_waited_for(self):
        if SIZE == 1:
            self.skipTest("alone nobody disagrees")
        for number, wait in enumerate((lambda a: a.asnumpy(), lambda a: a.wait_to_read(), lambda a: (a + 1).asscalar)):
            array = mx.nd.ones((3 + (RANK == 0),))
            KV.pushpull(f"shapes {number}", array)
            with self.assertRaises(tutti.MismatchError) as caught:
                wait(array)
                array.asnumpy()
            self.assertIsInstance(caught.exception, mx.MXNetError)
            self.assertEqual((caught.exception.key, caught.exception.ranks),
                             (f"shapes {number}", tuple(range(1, SIZE))))


class Trained(Same):
    """By gluon.Trainer."""

    def net(self, contexts, **given):
        net = gluon.nn.HybridSequential()
        net.add(gluon.nn.Dense(4, in_units=3), gluon.nn.Dense(1, in_units=4))
        net.initialize(mx.init.Uniform(1), ctx=contexts)
        net.hybridize()
        return net, gluon.Trainer(net.collect_params(), given.pop("optimizer", "sgd"),
                                  {"learning_rate": 0.1, **given.pop("optimizer_params", {})}, **given)

    def step(self, net, trainer, contexts, batch=8, act=None):
        state = np.random.RandomState(RANK)
        data = mx.nd.array(state.rand(batch, 3))
        with autograd.record():
            losses = [(net(part) ** 2).sum() for part in gluon.utils.split_and_load(data, contexts, even_split=False)]
        for loss in losses:
            loss.backward()
        (act or trainer.step)(batch * SIZE)

    def equal_weights(self, net, contexts):
        mine_now = [p.data(c).asnumpy() for p in net.collect_params().values() for c in contexts]
        sums = [mx.nd.array(weight) for weight in mine_now]
        for i, each in enumerate(sums):
            CHECKS.pushpull(f"weight {i}", each)
        for weight, each in zip(mine_now, sums):
            np.testing.assert_allclose(each.asnumpy(), weight * SIZE, rtol=1e-6)

    def test_the_weights_of_ranks_and_devices_begin_and_stay_equal(self):
        for contexts in (devices(1), devices(3)):
            for optimizer in ("sgd", "adam"):
                with self.subTest(devices=len(contexts), optimizer=optimizer):
                    mx.random.seed(RANK)
                    net, trainer = self.net(contexts, optimizer=optimizer, kvstore="dist_sync_mpi")
                    for _ in range(3):
                        self.step(net, trainer, contexts)
                    self.equal_weights(net, contexts)

    def test_update_on_kvstore_is_false_by_itself_and_true_is_an_error(self):
        for value in (None, False):
            net, trainer = self.net(devices(1), kvstore=TRAINED, update_on_kvstore=value)
            self.step(net, trainer, devices(1))
            self.assertFalse(trainer._update_on_kvstore)
        net, trainer = self.net(devices(1), kvstore=TRAINED, update_on_kvstore=True)
        with self.assertRaisesRegex(ValueError, "update_on_kvstore=False"):
            self.step(net, trainer, devices(1))

    def test_allreduce_grads_and_update_may_be_called_apart(self):
        net, trainer = self.net(devices(2), kvstore=TRAINED)

        def act(batch):
            trainer.allreduce_grads()
            gluon.utils.clip_global_norm([p.grad(devices()[0]) for p in net.collect_params().values()], 1e9)
            trainer.update(batch)
        self.step(net, trainer, devices(2), act=act)
        self.equal_weights(net, devices(2))

    def test_the_batch_size_may_change_without_a_warning(self):
        net, trainer = self.net(devices(1), kvstore=TRAINED)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            for batch in (8, 4, 6):
                self.step(net, trainer, devices(1), batch)
        self.equal_weights(net, devices(1))

    def test_gradients_that_are_added_up_are_summed_once(self):
        net, trainer = self.net(devices(1), kvstore=TRAINED)
        for parameter in net.collect_params().values():
            parameter.grad_req = "add"
        self.step(net, trainer, devices(1), act=lambda _: None)
        self.step(net, trainer, devices(1))
        self.equal_weights(net, devices(1))

    def test_states_and_the_learning_rate_are_the_trainers(self):
        net, trainer = self.net(devices(1), kvstore=TRAINED, optimizer_params={"momentum": 0.9})
        self.step(net, trainer, devices(1))
        with tempfile.TemporaryDirectory() as folder:
            trainer.save_states(f"{folder}/states")
            trainer.load_states(f"{folder}/states")
        trainer.set_learning_rate(0.5)
        self.step(net, trainer, devices(1))
        self.equal_weights(net, devices(1))

    def test_parameters_without_gradient_begin_equal_and_are_not_reduced(self):
        net = gluon.nn.BatchNorm(in_channels=2)
        net.initialize(mx.init.Constant(RANK + 1))
        trainer = gluon.Trainer(net.collect_params(), "sgd", kvstore=TRAINED)
        with autograd.record():
            loss = (net(mx.nd.ones((4, 2)) * (RANK + 1)) ** 2).sum()
        loss.backward()
        trainer.step(4)
        self.assertEqual(net.running_mean.grad_req, "null")

    def test_two_trainers_share_a_store_though_their_keys_are_equal(self):
        pairs = [self.net(devices(1), kvstore=TRAINED) for _ in range(2)]
        for _ in range(2):
            for net, trainer in pairs:
                self.step(net, trainer, devices(1))
        for net, _ in pairs:
            self.equal_weights(net, devices(1))

    def test_halves_train_with_a_copy_in_full_precision(self):
        weight = gluon.Parameter("weight", shape=(3,), dtype="float16", init=mx.init.Constant(RANK + 1))
        weight.initialize()
        trainer = gluon.Trainer({"weight": weight}, "sgd", {"learning_rate": 0.001, "multi_precision": True},
                                kvstore=TRAINED)
        for _ in range(100):
            with autograd.record():
                loss = (weight.data() * (RANK + 1)).sum()
            loss.backward()
            trainer.step(TOTAL)
        # Each step is below the precision of a half.
        np.testing.assert_allclose(weight.data().asnumpy(), 0.9, atol=1e-3)

    def test_sparse_weights_and_gradients_are_refused(self):
        embedding = gluon.nn.Embedding(10, 4, sparse_grad=True)
        embedding.initialize()
        trainer = gluon.Trainer(embedding.collect_params(), "sgd", kvstore=TRAINED)
        with autograd.record():
            loss = embedding(mx.nd.array([1, 2])).sum()
        loss.backward()
        with self.assertRaisesRegex((ValueError, tutti.UnsupportedError), "sparse"):
            trainer.step(1)
        weight = gluon.Parameter("w", shape=(10, 4), stype="row_sparse", grad_stype="row_sparse")
        weight.initialize()
        trainer = gluon.Trainer({"w": weight}, "sgd", kvstore="dist_sync_mpi")
        with self.assertRaisesRegex(tutti.UnsupportedError, "row_sparse weights.*dense"):
            trainer.step(1)

    def test_a_rank_with_fewer_batches_joins(self):
        kv = mx.kv.create("dist_sync_mpi")
        for i in range(RANK + 1):
            array = mx.nd.ones(2)
            kv.pushpull(0, array)
            self.same(array, SIZE - i)
        kv.join()


class Fitted(Same):
    """By Module."""

    def module(self, contexts, kvstore, **given):
        mx.random.seed(RANK)
        data = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=8, name="fc1")
        symbol = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(mx.sym.Activation(data, "relu"), num_hidden=4, name="fc2"),
                                      name="softmax")
        state = np.random.RandomState(RANK)
        batches = mx.io.NDArrayIter(state.rand(32, 6).astype("f"), state.randint(0, 4, 32).astype("f"), 8)
        module = mx.mod.Module(symbol, context=contexts, work_load_list=given.pop("work_load_list", None))
        module.fit(batches, num_epoch=2, kvstore=kvstore, initializer=mx.init.Xavier(), optimizer="sgd",
                   optimizer_params={"learning_rate": 0.1, "momentum": 0.9}, **given)
        return module

    def test_the_weights_of_ranks_and_devices_begin_and_stay_equal(self):
        for contexts, loads in ((devices(1), None), (devices(2), None), (devices(2), [1, 3])):
            for kvstore in (mx.kv.create("dist_sync_mpi"), "Dist_sync_mpi"):
                module = self.module(contexts, kvstore, work_load_list=loads)
                for arrays in module._exec_group.param_arrays:
                    for array in arrays:
                        own = array.asnumpy()
                        copy = array.copy().as_in_context(mx.cpu())
                        CHECKS.pushpull(f"module {own.shape}", copy)
                        np.testing.assert_allclose(copy.asnumpy(), own * SIZE, rtol=1e-6)

    def test_it_scales_gradients_by_the_batch_of_all_ranks(self):
        module = self.module(devices(1), mx.kv.create("dist_sync_mpi"))
        self.assertEqual(module._optimizer.rescale_grad, 1 / (8 * SIZE))


class Split(Same):
    def test_the_parts_of_a_sampler_are_equal_and_apart(self):
        parts = [sorted(tutti.mxnet.SplitSampler(10, 3, i)) for i in range(3)]
        self.assertEqual(parts, [[0, 1, 2], [3, 4, 5], [6, 7, 8]])
        self.assertEqual(len(tutti.mxnet.SplitSampler(10, 3, 1)), 3)
        with self.assertRaisesRegex(ValueError, "part 3 of 3"):
            tutti.mxnet.SplitSampler(10, 3, 3)

    def test_a_batch_is_cut_by_the_work_load_of_each_device(self):
        data = mx.nd.arange(8).reshape((8, 1))
        parts = tutti.mxnet.split_and_load(data, devices(2), [1, 3])
        self.assertEqual([part.shape for part in parts], [(2, 1), (6, 1)])
        self.assertEqual([part.context for part in parts], devices(2))
        self.assertEqual([p.shape for p in tutti.mxnet.split_and_load(data, devices(2))], [(4, 1), (4, 1)])
        with self.assertRaisesRegex(ValueError, "3 work loads for 2 devices"):
            tutti.mxnet.split_and_load(data, devices(2), [1, 1, 1])


if __name__ == "__main__":
    unittest.main()
