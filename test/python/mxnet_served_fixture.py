"""This module is shared by the mxnet_served*.py, which every worker of a parameter-server job runs.

    scripts/launch.py --launcher local -n N -s M python mxnet_served_....py
"""
import hashlib
import os

import mxnet as mx
import numpy as np

os.environ.setdefault("TUTTI_TIMEOUT_SECONDS", "30")
import mxnet_fixture
import tutti
from mxnet_fixture import BATCH, devices  # pylint: disable=unused-import
from tutti.mxnet.servers import ServedStore


class Served(mxnet_fixture.Networks):
    """kv: the job's store under the name ASKED. A process has one connection to the servers, so keys are not reused."""

    ASKED = "dist_sync"

    @classmethod
    def setUpClass(cls):
        cls.kv = mx.kv.create(cls.ASKED)
        cls.rank, cls.size = cls.kv.rank, cls.kv.num_workers
        cls.total = cls.size * (cls.size + 1) // 2

    @staticmethod
    def own_servers(name):
        """Begins as another program would, without values on the servers."""
        ServedStore.joined.sender, ServedStore.updated = None, name

    def equal_on_ranks(self, arrays):
        """Checks that each worker has the same bits as worker 0."""
        digest = hashlib.sha256(b"".join(array.asnumpy().tobytes() for array in arrays)).digest()
        own = mx.nd.array(np.frombuffer(digest, np.uint8), dtype="int32")
        first = own.copy()
        mx.kv.create(self.ASKED).broadcast("digest", own, out=first)
        np.testing.assert_array_equal(own.asnumpy(), first.asnumpy())

    def statistics_are_given(self):
        net = mx.sym.BatchNorm(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=3, name="fc"), name="norm")
        module = mx.mod.Module(mx.sym.MakeLoss(net), label_names=None, context=devices(2))
        module.bind([("data", (4, 3))])
        module.init_params(aux_params={"norm_moving_mean": self.mine(), "norm_moving_var": self.mine()})
        module.init_optimizer(self.kv)
        for array in module.get_params()[1].values():
            self.same(array, 1)
        module.forward_backward(mx.io.DataBatch([mx.nd.ones((4, 3))]))
        module.update()
        self.equal_on_ranks(list(module.get_params()[0].values()))

    def trainer(self, net, kvstore, optimizer="sgd", params=None, **given):
        """A Trainer with a batch size. Without one, MXNet would complain when the store gets its optimizer."""
        trainer = mx.gluon.Trainer(net.collect_params(), optimizer, {"learning_rate": 0.1, **(params or {})},
                                   kvstore=kvstore, **given)
        trainer._check_and_rescale_grad(trainer._scale / (BATCH * self.size))
        trainer._init_kvstore()
        trainer._init_params()
        return trainer

    def like_mxnets(self, make, steps=4, key="w", kv=None, change=lambda optimizer, step: None):
        """Checks that the servers update a value by an optimizer as MXNet's own updater does."""
        kv = kv or mx.kv.create(self.ASKED)
        first = mx.nd.array(np.random.RandomState(1).randn(7))
        ours, theirs = make(), make()
        kv.set_optimizer(ours)
        kv.init(key, first)
        updater, expected, value = mx.optimizer.get_updater(theirs), first.copy(), mx.nd.zeros(7)
        for step in range(steps):
            for optimizer in (ours, theirs):
                change(optimizer, step)
            gradients = [np.random.RandomState([step, rank]).randn(7) for rank in range(self.size)]
            kv.pushpull(key, mx.nd.array(gradients[self.rank]), out=value)
            updater(key, mx.nd.array(sum(gradients)), expected)
            np.testing.assert_allclose(value.asnumpy(), expected.asnumpy(), rtol=2e-5, atol=1e-6)

    def refused(self, call, words, kind=tutti.UnsupportedError):
        with self.subTest(words), self.assertRaisesRegex(kind, words):
            call()

    def fitted(self, kvstore, ranks):
        """The weights of a small Module after training with these workers' data."""
        batches = [np.concatenate([np.random.RandomState([rank, step]).randn(4, 3) for rank in ranks])
                   for step in range(3)]
        data = mx.io.NDArrayIter(np.concatenate(batches).astype(np.float32), np.zeros(len(batches) * 4 * len(ranks)),
                                 4 * len(ranks), label_name="label")
        net = mx.sym.LinearRegressionOutput(mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=1, name="fc"),
                                            mx.sym.var("label"), name="out")
        module = mx.mod.Module(net, label_names=["label"])
        mx.random.seed(self.rank if kvstore else 0)
        module.fit(data, kvstore=kvstore, optimizer="sgd", eval_metric="mse", initializer=mx.init.Uniform(1),
                   optimizer_params={"learning_rate": 0.1, "momentum": 0.9, "wd": 0.1}, num_epoch=2)
        return [module.get_params()[0][name] for name in ("fc_weight", "fc_bias")]
