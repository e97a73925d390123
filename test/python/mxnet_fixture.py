"""The mxnet_*.py that every rank of an MPI job runs share this module.

It has stores, arrays that tell ranks apart, and networks. Every rank runs all tests in the same order. An error on one
rank keeps no other rank waiting for longer than PATIENCE.
"""
import copy
import hashlib
import os
import unittest

import mxnet as mx
from mxnet import autograd, gluon
import numpy as np

import tutti
import tutti.mxnet

PATIENCE = 30
BATCH = 12  # of each rank
os.environ.setdefault("TUTTI_TIMEOUT_SECONDS", str(PATIENCE))
os.environ.setdefault("TUTTI_LOG", "error")


def devices(count):
    return [mx.cpu(i) for i in range(count)]


class Ranks(unittest.TestCase):
    """kv: a store of MXNet; `others`: tutti's own, to compare what the ranks have."""

    @classmethod
    def setUpClass(cls):
        cls.kv = mx.kv.create("dist_sync_mpi")
        cls.others = tutti.create("dist_sync_mpi")
        cls.rank, cls.size = cls.kv.rank, cls.kv.num_workers
        cls.total = cls.size * (cls.size + 1) // 2  # of what the ranks bring: 1, 2, 3, ...

    def mine(self, shape=(3,), ctx=None, **kinds):
        return mx.nd.full(shape, self.rank + 1, ctx=ctx or mx.cpu(), **kinds)

    def same(self, arrays, value):
        for array in arrays if isinstance(arrays, list) else [arrays]:
            np.testing.assert_array_equal(array.asnumpy(), np.full(array.shape, value))

    def equal_on_ranks(self, arrays):
        """Checks that all ranks have the same bits."""
        digest = hashlib.sha256(b"".join(array.asnumpy().tobytes() for array in arrays)).hexdigest()
        self.assertEqual(self.others.allgather_object(digest), [digest] * self.size)

    def skip_alone(self, why):
        if self.size == 1:
            self.skipTest(f"alone {why}")


class EveryDtype:
    """Tests of the dtypes that every store sums, with servers and without."""

    def test_every_dtype_that_both_have_is_summed_exactly(self):
        for dtype in ("float16", "float32", "float64", "int8", "uint8", "int32", "int64"):
            array = self.mine((5,), dtype=dtype)
            self.kv.pushpull(f"as {dtype}", array)
            self.assertEqual(array.asnumpy().dtype, dtype)
            self.same(array, self.total)


class Networks(Ranks):
    """Trains small networks of gluon: on the ranks' own data with a store, or on that of all ranks without one."""

    def network(self, contexts, seed, dtype="float32"):
        mx.random.seed(seed)
        net = gluon.nn.HybridSequential()
        net.add(gluon.nn.Dense(4, activation="tanh", in_units=3), gluon.nn.Dense(1, in_units=4))
        net.initialize(mx.init.Uniform(1), ctx=contexts)
        net.cast(dtype)
        net.hybridize(static_alloc=True, static_shape=True)
        return net

    def trainer(self, net, kvstore, optimizer="sgd", params=None, **given):
        """A Trainer whose weights are already those of rank 0. MXNet would broadcast them only in the first step, after
        the first gradients.
        """
        trainer = gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.1, **copy.deepcopy(params or {})},
                                kvstore=kvstore, **given)
        trainer._init_kvstore()
        trainer._init_params()
        return trainer

    def data(self, ranks, step, batch=BATCH):
        return mx.nd.array(np.concatenate([np.random.RandomState([rank, step]).randn(batch, 3) for rank in ranks]))

    def backward(self, net, contexts, data, loads=None):
        parts = tutti.mxnet.split_and_load(data, contexts, loads)
        with autograd.record():
            losses = [(net(part.astype(net[0].weight.dtype)) ** 2).sum() for part in parts]
        for loss in losses:
            loss.backward()

    def step(self, net, trainer, contexts, ranks, number, batch=BATCH):
        self.backward(net, contexts, self.data(ranks, number, batch))
        trainer.step(batch * self.size)

    def weights(self, net, context=None):
        return [p.data(context or p.list_ctx()[0]) for p in net.collect_params().values()]

    def like_one_process(self, act, contexts=None, **given):
        """Checks that `act(net, trainer, contexts, ranks)` makes the same of the weights on the ranks, each with a
        part of the data, and in one process that has all the data and no store. Returns the ranks' trainer."""
        contexts = contexts or devices(1)
        own, whole = self.network(contexts, self.rank), self.network(devices(1), 0)
        trainer = self.trainer(own, self.kv, **given)
        alone = self.trainer(whole, None, **given)
        act(own, trainer, contexts, [self.rank])
        act(whole, alone, devices(1), range(self.size))
        for context in contexts:
            for weight, expected in zip(self.weights(own, context), self.weights(whole)):
                np.testing.assert_allclose(weight.asnumpy(), expected.asnumpy(), rtol=1e-4, atol=1e-6)
            self.equal_on_ranks(self.weights(own, context))
        return trainer
