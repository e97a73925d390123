"""Tests of Module and the helpers of mx.model with a store of type dist_sync_mpi. Every rank runs them."""
import logging
import tempfile
import unittest

import mxnet as mx
import numpy as np

import tutti
import tutti.mxnet
from mxnet_fixture import Ranks, devices

BATCH = 8


def symbol(norm=False, **weight):
    weight = mx.sym.var("fc1_weight", **weight)
    data = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=8, name="fc1", weight=weight)
    data = mx.sym.BatchNorm(data, name="norm") if norm else data
    data = mx.sym.FullyConnected(mx.sym.Activation(data, act_type="tanh"), num_hidden=4, name="fc2")
    return mx.sym.SoftmaxOutput(data, name="softmax")


class Modules(Ranks):
    OPTIMIZER = {"learning_rate": 0.1, "momentum": 0.9, "wd": 0.01}

    def batches(self, ranks):
        """The batches of these ranks. Their parts of a batch follow one another, as in a process that has all the data.
        """
        of_each = [np.random.RandomState(rank).rand(4, BATCH, 6).astype("f") for rank in ranks]
        data = np.concatenate(of_each, axis=1).reshape(-1, 6)
        return mx.io.NDArrayIter(data, (data.sum(axis=1) * 7 % 4).astype("i").astype("f"), BATCH * len(of_each))

    def fit(self, module, kvstore, ranks=None, epochs=(0, 2), **given):
        mx.random.seed(0 if ranks else self.rank)
        module.fit(self.batches(ranks or [self.rank]), num_epoch=epochs[1], begin_epoch=epochs[0], kvstore=kvstore,
                   initializer=mx.init.Xavier(), optimizer_params=self.OPTIMIZER, **given)
        return module

    def module(self, contexts=None, kvstore=None, **given):
        made = {name: given.pop(name) for name in ("work_load_list", "fixed_param_names", "compression_params")
                if name in given}
        return self.fit(mx.mod.Module(symbol(), context=contexts or devices(1), **made), kvstore or self.kv, **given)

    def on_devices(self, module):
        return [[arrays[i] for arrays in module._exec_group.param_arrays] for i in range(len(module._context))]

    def equal_everywhere(self, module):
        first, *others = self.on_devices(module)
        self.equal_on_ranks(first)
        for arrays in others:
            self.equal_on_ranks(arrays)
            for array, like in zip(arrays, first):
                np.testing.assert_array_equal(array.asnumpy(), like.asnumpy())

    def like(self, arrays, expected):
        for array, value in zip(arrays, expected):
            np.testing.assert_allclose(array.asnumpy(), value.asnumpy(), rtol=1e-4, atol=1e-6)


class Fitted(Modules):
    def test_modules_begin_with_rank_0s_weights_and_train_like_one_process_with_the_joint_batch(self):
        alone = self.module(ranks=range(self.size), kvstore="local")
        for contexts, loads in ((devices(1), None), (devices(2), None), (devices(2), [1, 3])):
            for kvstore in (mx.kv.create("dist_sync_mpi"), "Dist_sync_mpi"):
                with self.subTest(devices=len(contexts), loads=loads, kvstore=kvstore):
                    module = self.module(contexts, kvstore, work_load_list=loads)
                    self.equal_everywhere(module)
                    self.like(self.on_devices(module)[0], self.on_devices(alone)[0])

    def test_modules_scale_gradients_by_the_batch_of_all_ranks_whatever_the_case_of_the_name(self):
        for kvstore in ("dist_sync_mpi", "DIST_SYNC_MPI"):
            module = self.module(kvstore=kvstore, epochs=(0, 1))
            self.assertEqual(module._optimizer.rescale_grad, 1 / (BATCH * self.size))
            self.assertIs(module._update_on_kvstore, False)

    def test_weight_decay_leaves_biases_alone(self):
        module = self.module(epochs=(0, 1))
        factors = {module._optimizer.idx2name[i]: module._optimizer._get_wds([i]) for i in range(4)}
        self.assertEqual(factors, {"fc1_weight": [0.01], "fc1_bias": [0], "fc2_weight": [0.01], "fc2_bias": [0]})

    def test_weights_that_are_fixed_begin_equal_and_stay(self):
        module = self.module(fixed_param_names=["fc1_weight"])
        first = self.fit(mx.mod.Module(symbol(), context=devices(1)), self.kv, epochs=(0, 0))
        self.like([module.get_params()[0]["fc1_weight"]], [first.get_params()[0]["fc1_weight"]])
        self.equal_everywhere(module)

    def test_modules_take_compression_as_trainers_do(self):
        self.equal_everywhere(self.module(kvstore="dist_sync_mpi", compression_params={"type": "bf16"}))
        with self.assertRaisesRegex(tutti.UnsupportedError, "2bit.*dist_sync, dist_async"):
            self.module(kvstore="dist_sync_mpi", compression_params={"type": "2bit", "threshold": 1})

    def test_two_modules_share_a_store_though_their_keys_are_equal(self):
        modules = [mx.mod.Module(symbol(), context=devices(1)) for _ in range(2)]
        kv = mx.kv.create("dist_sync_mpi")
        for seed, module in enumerate(modules):
            mx.random.seed(self.rank + seed)
            module.bind([("data", (BATCH, 6))], [("softmax_label", (BATCH,))])
            module.init_params(mx.init.Xavier())
            module.init_optimizer(kv, optimizer_params=self.OPTIMIZER)
        for batch in self.batches([self.rank]):
            for module in modules:
                module.forward_backward(batch)
            for module in modules[::-1 if self.rank else 1]:
                module.update()
        for module in modules:
            self.equal_everywhere(module)

    def test_weights_and_gradients_that_are_sparse_are_refused(self):
        sparse = mx.mod.Module(symbol(stype="row_sparse"), context=devices(1))
        with self.assertRaisesRegex(tutti.UnsupportedError, "fc1_weight.*row_sparse.*dense"):
            self.fit(sparse, mx.kv.create("dist_sync_mpi"))
        data = mx.sym.Embedding(mx.sym.var("data"), input_dim=9, output_dim=2, sparse_grad=True, name="embedding")
        data = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(data, num_hidden=4), name="softmax")
        with self.assertRaisesRegex(tutti.UnsupportedError, "embedding_weight.*row_sparse.*dense"):
            self.fit(mx.mod.Module(data, context=devices(1)), mx.kv.create("dist_sync_mpi"))

    def test_buckets_share_their_weights_though_each_rank_has_a_different_one(self):
        def bucket(length):
            data = mx.sym.sum(mx.sym.Embedding(mx.sym.var("data"), input_dim=9, output_dim=4, name="embedding"), axis=1)
            data = mx.sym.FullyConnected(data, num_hidden=4, name="fc")
            return mx.sym.SoftmaxOutput(data, name="softmax"), ("data",), ("softmax_label",)

        module = mx.mod.BucketingModule(bucket, default_bucket_key=9, context=devices(2))
        mx.random.seed(self.rank)
        module.bind([("data", (BATCH, 9))], [("softmax_label", (BATCH,))])
        module.init_params(mx.init.Xavier())
        module.init_optimizer("dist_sync_mpi", optimizer_params=self.OPTIMIZER)
        for number in range(6):
            length = 5 + (number + self.rank) % 5
            batch = mx.io.DataBatch([mx.nd.ones((BATCH, length))], [mx.nd.ones(BATCH)], bucket_key=length,
                                    provide_data=[("data", (BATCH, length))],
                                    provide_label=[("softmax_label", (BATCH,))])
            module.forward_backward(batch)
            module.update()
        self.equal_everywhere(module._curr_module)


class Helped(Modules):
    """Tests of training by the helpers of mx.model."""

    def test_a_fit_goes_on_from_a_checkpoint_as_if_nothing_had_been_interrupted(self):
        whole = self.module(epochs=(0, 4))
        with tempfile.TemporaryDirectory() as folder:
            half = self.module(epochs=(0, 2))
            half.save_checkpoint(f"{folder}/half", 2, save_optimizer_states=True)
            resumed = mx.mod.Module.load(f"{folder}/half", 2, load_optimizer_states=True, context=devices(1))
            self.fit(resumed, self.kv, epochs=(2, 4))
        for array, like in zip(self.on_devices(resumed)[0], self.on_devices(whole)[0]):
            np.testing.assert_array_equal(array.asnumpy(), like.asnumpy())
        self.equal_everywhere(resumed)

    def test_weights_of_a_checkpoint_are_given_to_the_ranks_by_rank_0(self):
        with tempfile.TemporaryDirectory() as folder:
            own = self.module(ranks=[self.rank + 20], kvstore="local")
            mx.model.save_checkpoint(f"{folder}/own", 1, own.symbol, *own.get_params())
            loaded, weights, states = mx.model.load_checkpoint(f"{folder}/own", 1)
        module = self.fit(mx.mod.Module(loaded, context=devices(1)), self.kv, epochs=(0, 0), arg_params=weights,
                          aux_params=states)
        self.equal_everywhere(module)

    def test_statistics_of_a_checkpoint_are_given_to_the_ranks_by_rank_0(self):
        """Rank 0 gives its statistics once. In training each rank keeps the statistics of its own data."""
        module = mx.mod.Module(symbol(norm=True), context=devices(2))
        self.fit(module, self.kv, epochs=(0, 0), aux_params={"norm_moving_mean": self.mine((8,)),
                                                              "norm_moving_var": self.mine((8,)) * 2})
        for mean, variance in ([arrays[i] for arrays in module._exec_group.aux_arrays] for i in range(2)):
            self.same([mean], 1)
            self.same([variance], 2)
        statistics = module.get_params()[1]
        self.same(statistics["norm_moving_mean"], 1)
        self.same(statistics["norm_moving_var"], 2)
        self.fit(module, self.kv)
        module.init_optimizer(self.kv)  # which is ignored now
        means = self.others.allgather_object(module.get_params()[1]["norm_moving_mean"].asnumpy().tolist())
        self.assertEqual(len({tuple(mean) for mean in means}), self.size)
        self.equal_everywhere(module)

    def test_a_store_is_made_of_a_name_in_any_case_or_is_the_one_given(self):
        for kvstore in ("dist_sync_mpi", "DIST_SYNC_MPI", self.kv):
            for count in (1, 2):
                made, updates = mx.model._create_kvstore(kvstore, count, {})
                self.assertEqual((made.type, updates), ("dist_sync_mpi", False))
        for kvstore in (None, "local", "device"):
            self.assertEqual(mx.model._create_kvstore(kvstore, 1, {}), (None, False))
        with self.assertRaisesRegex(TypeError, "kvstore must be"):
            mx.model._create_kvstore(3, 1, {})

    def test_a_feed_forward_model_trains_with_it(self):
        mx.random.seed(self.rank)
        logging.getLogger().setLevel(logging.ERROR)  # it calls itself outdated
        model = mx.model.FeedForward(symbol(), ctx=devices(2), num_epoch=2, initializer=mx.init.Xavier(),
                                     numpy_batch_size=BATCH, **self.OPTIMIZER)
        model.fit(self.batches([self.rank]), kvstore="Dist_Sync_MPI")
        self.equal_on_ranks([model.arg_params[name] for name in sorted(model.arg_params)])

        states = {"norm_moving_mean": self.mine((8,)), "norm_moving_var": self.mine((8,))}
        model = mx.model.FeedForward(symbol(norm=True), num_epoch=0, numpy_batch_size=BATCH, arg_params={},
                                     aux_params=states, initializer=mx.init.Xavier(), **self.OPTIMIZER)
        model.fit(self.batches([self.rank]), kvstore=self.kv)
        self.same([model.aux_params[name] for name in states], 1)


if __name__ == "__main__":
    unittest.main()
