"""Tests of dist_async in an MXNet script. Every worker runs them."""
import unittest

import mxnet as mx
import numpy as np

from mxnet_served_fixture import Served, devices


class Asynchronous(Served):
    ASKED = "dist_async"

    def test_each_push_updates_at_once_and_whole_by_the_servers_optimizer(self):
        for name in ("dist_async", "dist_device_async", "dist_async_device"):
            self.assertEqual(mx.kv.create(name).type, name)
        kv = mx.kv.create(self.ASKED)
        self.refused(lambda: mx.kv.create("dist_sync"), "already has a store of type dist_async")
        kv.set_optimizer(mx.optimizer.SGD(learning_rate=1.0))
        kv.init("w", mx.nd.zeros(1000))
        for _ in range(20):
            kv.push("w", [mx.nd.ones(1000, ctx=device) for device in devices(2)])
        value = mx.nd.zeros(1000)
        kv.pull("w", out=value)
        self.assertEqual(len(set(value.asnumpy())), 1)  # whole
        self.assertLessEqual(value[0].asscalar(), -40)
        kv._barrier()
        kv.pull("w", out=value)
        self.same(value, -40 * self.size)
        kv._barrier()  # nobody pushes before all have seen it
        optimizer = kv._updater.optimizer
        optimizer.set_learning_rate(0.5)
        kv.push("w", mx.nd.ones(1000))
        kv.pull("w", out=value)
        value.wait_to_read()
        kv._barrier()
        kv.pull("w", out=value)
        np.testing.assert_allclose(value.asnumpy(), -40.5 * self.size)

    def test_a_trainer_must_update_on_the_servers(self):
        net = self.network(devices(1), 0)
        with self.assertRaisesRegex(ValueError, "update_on_kvstore=True"):
            self.trainer(net, "dist_async", update_on_kvstore=False)


if __name__ == "__main__":
    unittest.main()
