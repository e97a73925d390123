"""Tests of gluon.Trainer with a store of type dist_sync_mpi. Every rank runs them."""
import os
import tempfile
import unittest
from unittest import mock
import warnings

import mxnet as mx
from mxnet import autograd, gluon
import numpy as np

import tutti
import tutti.mxnet
from mxnet_fixture import BATCH, Networks, devices

OPTIMIZERS = (("sgd", {"momentum": 0.9, "wd": 0.05}), ("adam", {"wd": 0.05}))


class Recorded(tutti.mxnet.store.Store):
    """A store that notes how a Trainer calls it."""

    calls = []  # of the copy that a Trainer gets, too

    def is_capable(self, capability):
        self.calls.append(("is_capable", capability))
        return super().is_capable(capability)

    def set_gradient_compression(self, compression_params):
        self.calls.append(("set_gradient_compression", compression_params["type"]))
        super().set_gradient_compression(compression_params)

    def broadcast(self, key, value, out, priority=0):
        self.calls.append(("broadcast", key, len(out)))
        super().broadcast(key, value, out, priority)

    def pushpull(self, key, value, out=None, priority=0):
        self.calls.append(("pushpull", key, len(value), out, priority))
        super().pushpull(key, value, out, priority)


class Called(Networks):
    def test_a_trainer_sets_the_store_up_gives_rank_0s_weights_once_and_sums_each_gradient_in_place(self):
        store = Recorded()
        store.calls.clear()
        contexts, count = devices(2), 4
        net = self.network(contexts, self.rank)
        trainer = self.trainer(net, store, compression_params={"type": "fp16"})
        self.assertEqual(store.calls, [("is_capable", "optimizer"), ("set_gradient_compression", "fp16"),
                                       *(("broadcast", i, 2) for i in range(count))])
        store.calls.clear()
        for number in range(2):
            self.step(net, trainer, contexts, [self.rank], number)
        self.assertEqual(store.calls, 2 * [("pushpull", i, 2, None, -i) for i in range(count)])

    def test_one_worker_with_one_device_has_a_store_since_its_type_is_distributed(self):
        net = self.network(devices(1), self.rank)
        self.assertEqual(self.trainer(net, "DIST_SYNC_MPI")._kvstore.type, "dist_sync_mpi")
        self.equal_on_ranks(self.weights(net))
        self.assertIsNone(self.trainer(self.network(devices(1), 0), "device")._kvstore)

    def test_a_trainer_does_not_let_its_store_be_reset(self):
        net = self.network(devices(1), self.rank)
        trainer = self.trainer(net, self.kv)
        with self.assertRaisesRegex(RuntimeError, "Cannot reset distributed KVStore"):
            trainer._reset_kvstore()
        self.assertEqual(trainer._kvstore.type, "dist_sync_mpi")

    def test_a_store_that_is_not_of_mxnet_is_a_type_error(self):
        with self.assertRaisesRegex(TypeError, "kvstore must be KVStore"):
            self.trainer(self.network(devices(1), 0), self.others)

    def test_update_on_kvstore_is_false_by_itself_whatever_the_environment_says(self):
        for value, says in ((None, None), (None, "0"), (None, "1"), (False, None), (False, "1")):
            with mock.patch.dict(os.environ, {"MXNET_UPDATE_ON_KVSTORE": says} if says else {}):
                trainer = self.trainer(self.network(devices(1), 0), self.kv, update_on_kvstore=value)
                self.assertIs(trainer._update_on_kvstore, False)

    def test_update_on_kvstore_true_is_an_error_that_says_false(self):
        net = self.network(devices(1), 0)
        trainer = gluon.Trainer(net.collect_params(), "sgd", kvstore=self.kv, update_on_kvstore=True)
        for call in (lambda: trainer.step(1), trainer.allreduce_grads, lambda: trainer.save_states("f")):
            with self.assertRaisesRegex(ValueError, "set update_on_kvstore=False when training with.*dist_sync_mpi"):
                call()


class Updated(Networks):
    def steps(self, net, trainer, contexts, ranks, numbers=range(3)):
        for number in numbers:
            self.step(net, trainer, contexts, ranks, number)

    def test_ranks_and_devices_train_like_one_process_with_the_joint_batch(self):
        for contexts in (devices(1), devices(3)):
            for optimizer, params in OPTIMIZERS:
                with self.subTest(devices=len(contexts), optimizer=optimizer):
                    self.like_one_process(self.steps, contexts, optimizer=optimizer, params=params)

    def test_devices_share_a_batch_by_their_work_loads(self):
        def act(net, trainer, contexts, ranks):
            for number in range(3):
                self.backward(net, contexts, self.data(ranks, number), [1, 3] if len(contexts) == 2 else None)
                trainer.step(BATCH * self.size)
        self.like_one_process(act, devices(2))

    def test_gradients_may_be_changed_between_allreduce_grads_and_update(self):
        def act(net, trainer, contexts, ranks):
            for number in range(3):
                self.backward(net, contexts, self.data(ranks, number))
                trainer.allreduce_grads()
                for context in contexts:
                    gluon.utils.clip_global_norm([p.grad(context) for p in net.collect_params().values()], 0.5)
                trainer.update(BATCH * self.size)
        self.like_one_process(act, devices(2))

    def test_the_batch_size_may_change_without_a_warning(self):
        def act(net, trainer, contexts, ranks):
            for number, batch in enumerate((8, 4, 6)):
                self.step(net, trainer, contexts, ranks, number, batch)
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            self.like_one_process(act)

    def test_gradients_that_are_added_up_are_summed_once(self):
        def act(net, trainer, contexts, ranks):
            parameters = net.collect_params()
            for parameter in parameters.values():
                parameter.grad_req = "add"
            for number in range(4):
                self.backward(net, contexts, self.data(ranks, number))
                if number % 2:
                    trainer.step(2 * BATCH * self.size)
                    parameters.zero_grad()
        self.like_one_process(act, devices(2))

    def test_a_new_learning_rate_and_a_schedule_hold_from_the_next_step(self):
        def act(net, trainer, contexts, ranks):
            self.steps(net, trainer, contexts, ranks)
            trainer.set_learning_rate(0.01)
            self.steps(net, trainer, contexts, ranks)
        trainer = self.like_one_process(act)
        self.assertEqual(trainer.learning_rate, 0.01)

        schedule = {"lr_scheduler": mx.lr_scheduler.FactorScheduler(1, 0.5, base_lr=0.1)}
        trainer = self.like_one_process(self.steps, params={"momentum": 0.9, **schedule})
        self.assertLess(trainer.learning_rate, 0.1)

    def test_weight_decay_and_learning_rate_are_by_each_parameters_own_factor(self):
        def act(net, trainer, contexts, ranks):
            net[0].bias.wd_mult = 0
            net[0].weight.lr_mult = 3
            self.steps(net, trainer, contexts, ranks)
        self.like_one_process(act, params={"wd": 0.5})

    def test_optimizers_may_update_several_parameters_at_once(self):
        native = mx.optimizer.SGD.update_multi_precision
        for size in (1, 4):
            together = set()

            def update(optimizer, indices, *given, together=together):
                together.add(len(indices))
                native(optimizer, indices, *given)
            with mock.patch.dict(os.environ, MXNET_OPTIMIZER_AGGREGATION_SIZE=str(size)), \
                    mock.patch.object(mx.optimizer.SGD, "update_multi_precision", update):
                self.like_one_process(self.steps, devices(2))
            self.assertEqual(together, {size})

    def test_states_that_are_loaded_go_on_as_if_nothing_had_been_interrupted(self):
        for optimizer, params in OPTIMIZERS:
            contexts = devices(2)
            given = {"optimizer": optimizer, "params": params}
            net, again = self.network(contexts, self.rank), self.network(contexts, self.rank + 9)
            trainer = self.trainer(net, self.kv, **given)
            self.steps(net, trainer, contexts, [self.rank], range(2))
            with tempfile.TemporaryDirectory() as folder:
                net.save_parameters(f"{folder}/net")
                trainer.save_states(f"{folder}/states")
                again.load_parameters(f"{folder}/net", ctx=contexts)
                resumed = self.trainer(again, self.kv, **given)
                resumed.load_states(f"{folder}/states")
            self.steps(net, trainer, contexts, [self.rank], range(2, 4))
            self.steps(again, resumed, contexts, [self.rank], range(2, 4))
            for weight, other in zip(self.weights(net), self.weights(again)):
                np.testing.assert_array_equal(weight.asnumpy(), other.asnumpy())
            self.equal_on_ranks(self.weights(again))

    def test_halves_train_with_a_copy_in_full_precision(self):
        weight = gluon.Parameter("weight", shape=(3,), dtype="float16", init=mx.init.Constant(self.rank + 1))
        weight.initialize()
        trainer = gluon.Trainer({"weight": weight}, "sgd", {"learning_rate": 0.0001, "multi_precision": True},
                                kvstore=self.kv)
        for _ in range(1000):
            with autograd.record():
                loss = (weight.data() * (self.rank + 1)).sum()
            loss.backward()
            trainer.step(self.total)
        # A step is less than a half can tell from 1: without the copy the weight would stay there.
        np.testing.assert_allclose(weight.data().asnumpy(), 0.9, atol=1e-3)
        self.equal_on_ranks([weight.data()])

    def test_compressed_gradients_keep_the_weights_of_all_ranks_equal(self):
        for kind in ("fp16", "bf16"):
            net = self.network(devices(2), self.rank)
            trainer = self.trainer(net, "dist_sync_mpi", compression_params={"type": kind})
            self.steps(net, trainer, devices(2), [self.rank])
            for context in devices(2):
                self.equal_on_ranks(self.weights(net, context))
        trainer = gluon.Trainer(net.collect_params(), "sgd", kvstore="dist_sync_mpi",
                                compression_params={"type": "2bit", "threshold": 0.5})
        with self.assertRaisesRegex(tutti.UnsupportedError, "2bit.*dist_sync, dist_async"):
            trainer.step(1)


if __name__ == "__main__":
    unittest.main()
