"""Parameters, Trainers and data of several kinds on one store of the type dist_sync_mpi, on every rank."""
import re
import unittest

import mxnet as mx
from mxnet import autograd, gluon
from mxnet.contrib.amp.loss_scaler import LossScaler
import numpy as np

import tutti
import tutti.mxnet
from mxnet_fixture import BATCH, Networks, devices


class Parameters(Networks):
    def test_parameters_without_gradient_begin_equal_and_are_never_reduced(self):
        norm = gluon.nn.BatchNorm(in_channels=2, running_mean_initializer=mx.init.Constant(self.rank + 1))
        norm.initialize()
        trainer = self.trainer(norm, self.kv)
        self.assertEqual(norm.running_mean.grad_req, "null")
        self.same(norm.running_mean.data(), 1)
        for _ in range(2):
            with autograd.record():
                loss = (norm(mx.nd.ones((4, 2)) * 10 * self.rank) ** 2).sum()
            loss.backward()
            trainer.step(4 * self.size)
        # The value after two means of this rank's data alone.
        expected = 0.9 * (0.9 * 1 + 0.1 * 10 * self.rank) + 0.1 * 10 * self.rank
        np.testing.assert_allclose(norm.running_mean.data().asnumpy(), expected, rtol=1e-5)
        self.equal_on_ranks([norm.gamma.data(), norm.beta.data()])

    def test_parameters_whose_shape_is_known_late_begin_equal(self):
        mx.random.seed(self.rank)
        net = gluon.nn.Dense(2)
        net.initialize(mx.init.Uniform(1))
        trainer = gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0}, kvstore=self.kv)
        with autograd.record():
            loss = net(self.data([self.rank], 0)).sum()
        loss.backward()
        trainer.step(BATCH)
        self.equal_on_ranks([net.weight.data(), net.bias.data()])

    def test_parameters_that_only_some_ranks_used_are_updated_on_all(self):
        weight = gluon.Parameter("weight", shape=(2,), init=mx.init.Constant(1))
        unused = gluon.Parameter("unused", shape=(2,), init=mx.init.Constant(1))
        for parameter in (weight, unused):
            parameter.initialize()
        trainer = gluon.Trainer([weight, unused], "sgd", {"learning_rate": 1}, kvstore=self.kv)
        with autograd.record():
            loss = (weight.data() + (unused.data() if self.rank == 0 else 0)).sum()
        loss.backward()
        trainer.allreduce_grads()
        self.same(unused.grad(), 1)
        trainer.update(1, ignore_stale_grad=True)
        self.same(weight.data(), 1 - self.size)

    def test_sparse_gradients_are_refused(self):
        embedding = gluon.nn.Embedding(10, 4, sparse_grad=True)
        embedding.initialize()
        for update in (None, True, False):
            trainer = gluon.Trainer(embedding.collect_params(), "sgd", kvstore=self.kv, update_on_kvstore=update)
            with self.assertRaisesRegex(tutti.UnsupportedError, "sparse gradients.*sparse_grad=False") as caught:
                trainer.step(1)
            self.assertIsInstance(caught.exception, ValueError)  # which MXNet raises for a store of others

    def test_sparse_weights_are_refused_whatever_the_store_is_given_as(self):
        for kvstore in ("dist_sync_mpi", "Dist_Sync_MPI", self.kv):
            weight = gluon.Parameter("w", shape=(10, 4), stype="row_sparse", grad_stype="row_sparse")
            weight.initialize()
            trainer = gluon.Trainer({"w": weight}, "sgd", kvstore=kvstore)
            with self.assertRaisesRegex(tutti.UnsupportedError, "sparse weights and gradients.*dense"):
                trainer.step(1)


class Several(Networks):
    def test_two_trainers_share_a_store_though_their_keys_are_equal(self):
        """The two Trainers of a GAN share a store like this. Here the ranks also step them in different orders, from
        the first step on.
        """
        for kvstore in (self.kv, "Dist_Sync_MPI"):
            with self.subTest(kvstore):
                self.share(kvstore)

    def share(self, kvstore):
        nets = [self.network(devices(2), self.rank + i) for i in range(2)]
        nets.append(gluon.nn.Dense(5, in_units=3))
        nets[2].initialize(mx.init.Uniform(1), ctx=devices(2))
        trainers = [gluon.Trainer(net.collect_params(), "sgd", {"learning_rate": 0.1}, kvstore) for net in nets]
        for number in range(3):
            for net, trainer in zip(nets, trainers):
                with autograd.record():
                    losses = [(net(part) ** 2).sum()
                              for part in gluon.utils.split_and_load(self.data([self.rank], number), devices(2))]
                for loss in losses:
                    loss.backward()
            for trainer in trainers[::-1 if self.rank else 1]:
                trainer.step(BATCH * self.size)
        for net in nets:
            self.equal_on_ranks(self.weights(net))

    def test_errors_tell_a_trainers_key_with_the_trainer(self):
        """Two Trainers have equal keys: the first key of each is 0."""
        self.skip_alone("nobody disagrees")
        kv = mx.kv.create("dist_sync_mpi")
        weights = [gluon.Parameter("weight", shape=(3 + (i and self.rank == 0),), init="ones") for i in range(2)]
        for weight in weights:
            weight.initialize()
        trainers = [gluon.Trainer({"weight": weight}, "sgd", kvstore=kv) for weight in weights]
        told = re.sub(r"\d+", lambda found: str(int(found[0]) + 1), trainers[0]._kvstore_params["kvstore"]._user)
        for trainer in trainers:
            trainer._init_kvstore()
            trainer._init_params()
        weights[0].data().wait_to_read()
        with self.assertRaisesRegex(tutti.MismatchError, f"'0 of {told}'") as caught:
            weights[1].data().wait_to_read()
        self.assertEqual(caught.exception.key, 0)

    def test_a_trainers_keys_and_its_stores_own_may_be_of_different_kinds(self):
        kv, net = mx.kv.create("dist_sync_mpi"), self.network(devices(1), self.rank)
        trainer, array = self.trainer(net, kv), self.mine()
        kv.pushpull("loss", array)
        self.step(net, trainer, devices(1), [self.rank], 0)
        self.same(array, self.total)
        self.equal_on_ranks(self.weights(net))

    def test_processes_that_load_data_leave_the_store_alone(self):
        net = self.network(devices(1), self.rank)
        trainer = self.trainer(net, self.kv)
        dataset = gluon.data.ArrayDataset(self.data([self.rank], 0, 32).asnumpy())
        sampler = tutti.mxnet.SplitSampler(32, self.size, self.rank)
        loader = gluon.data.DataLoader(dataset, 4, sampler=sampler, num_workers=2, last_batch="discard", timeout=30)
        seen = 0
        for batch in loader:
            self.backward(net, devices(1), batch.astype("float32"))
            trainer.step(4 * self.size)
            seen += 1
        self.assertEqual(seen, 32 // self.size // 4)
        self.equal_on_ranks(self.weights(net))


class Joined(Networks):
    """Ranks that have 1, 2, 3, ... batches."""

    def step_and_join(self, nets, trainers, contexts, ranks):
        """One process that has the data of several ranks. It steps until the last rank has no more data."""
        for epoch in range(2):
            for number in range(max(ranks) + 1):
                left = [rank for rank in ranks if rank >= number]
                for net, trainer in zip(nets, trainers):
                    self.step(net, trainer, contexts, left, 10 * epoch + number)
            last = tutti.mxnet.join(*trainers)
        for net, trainer in zip(nets, trainers):
            self.step(net, trainer, contexts, ranks, 99)
        return last

    def test_ranks_with_fewer_batches_join_and_all_train_on_like_one_process(self):
        for optimizer, params, on in (("sgd", {"momentum": 0.9}, 2), ("adam", {}, 2),
                                      ("nadam", {}, 1)):  # which counts the updates of all devices
            with self.subTest(optimizer):
                kv, contexts = mx.kv.create("dist_sync_mpi"), devices(on)
                nets, wholes = ([self.network(on, seed) for seed in seeds]
                                for on, seeds in ((contexts, (self.rank, self.rank + 5)), (devices(1), (0, 5))))
                trainers = [self.trainer(net, kv, optimizer, params) for net in nets]
                alone = [self.trainer(net, None, optimizer, params) for net in wholes]
                self.assertEqual(self.step_and_join(nets, trainers, contexts, [self.rank]), self.size - 1)
                self.assertEqual(self.step_and_join(wholes, alone, devices(1), range(self.size)), 0)
                for net, whole in zip(nets, wholes):
                    for weight, expected in zip(self.weights(net), self.weights(whole)):
                        np.testing.assert_allclose(weight.asnumpy(), expected.asnumpy(), rtol=1e-4, atol=1e-6)
                    for context in contexts:
                        self.equal_on_ranks(self.weights(net, context))

    def test_the_scale_of_a_loss_of_mixed_precision_is_that_of_the_rank_that_came_last(self):
        trainer = self.trainer(self.network(devices(1), 0), mx.kv.create("dist_sync_mpi"))
        trainer._amp_loss_scaler = LossScaler()
        trainer._amp_loss_scaler._unskipped = self.rank
        self.assertEqual(tutti.mxnet.join(trainer), trainer._amp_loss_scaler._unskipped)

    def test_what_cannot_join_is_refused_with_what_to_do(self):
        trainers = [self.trainer(self.network(devices(1), 0), "dist_sync_mpi") for _ in range(2)]
        alone = self.trainer(self.network(devices(1), 0), "device")
        for given, words in ((trainers, "several stores.*kvstore=kv"), ((trainers[0], alone), "several stores"),
                             ((), "at least one Trainer")):
            with self.subTest(words), self.assertRaisesRegex(ValueError, words):
                tutti.mxnet.join(*given)


class Split(Networks):
    def test_the_parts_of_a_sampler_are_equal_and_apart(self):
        parts = [sorted(tutti.mxnet.SplitSampler(10, 3, i)) for i in range(3)]
        self.assertEqual(parts, [[0, 1, 2], [3, 4, 5], [6, 7, 8]])
        sampler = tutti.mxnet.SplitSampler(1000, self.size, self.rank)
        self.assertEqual(len(sampler), 1000 // self.size)
        first, second = list(sampler), list(sampler)
        self.assertNotEqual(first, second)
        self.assertEqual(sorted(first), sorted(second))
        everyone = self.others.allgather_object(first)
        self.assertEqual(len({index for part in everyone for index in part}), self.size * len(sampler))

    def test_a_part_that_is_none_is_refused(self):
        for parts, part in ((3, 3), (3, -1), (0, 0)):
            with self.assertRaisesRegex(ValueError, f"part_index is {part}, .*, which is {parts}"):
                tutti.mxnet.SplitSampler(10, parts, part)
        with self.assertRaisesRegex(ValueError, "2 elements.*3 parts"):
            tutti.mxnet.SplitSampler(2, 3, 0)

    def test_a_batch_is_cut_by_the_work_load_of_each_device(self):
        data = mx.nd.arange(16).reshape((8, 2))
        for loads, shares in (([1, 3], (2, 6)), ([0.5, 0.5], (4, 4)), (None, (4, 4)), ([1, 7], (1, 7))):
            parts = tutti.mxnet.split_and_load(data, devices(2), loads)
            self.assertEqual([part.shape for part in parts], [(share, 2) for share in shares])
            self.assertEqual([part.context for part in parts], devices(2))
            np.testing.assert_array_equal(np.concatenate([part.asnumpy() for part in parts]), data.asnumpy())
        parts = tutti.mxnet.split_and_load(data, devices(2), [1, 1], batch_axis=1)
        self.assertEqual([part.shape for part in parts], [(8, 1), (8, 1)])
        parts = tutti.mxnet.split_and_load(data.asnumpy(), devices(2), [1, 3])
        self.assertEqual([part.shape for part in parts], [(2, 2), (6, 2)])

    def test_work_loads_that_cannot_be_met_are_refused(self):
        data = mx.nd.arange(8)
        for loads, words in (([1, 1, 1], "3 work loads for 2 devices"), ([0, 0], "work loads.*above 0"),
                             ([-1, 2], "work loads.*above 0"), ([1, 100], "8 elements.*device cpu\\(0\\) without")):
            with self.assertRaisesRegex(ValueError, words):
                tutti.mxnet.split_and_load(data, devices(2), loads)


if __name__ == "__main__":
    unittest.main()
