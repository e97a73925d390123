"""Tests of an MXNet script that closes the job's store and creates another. Every worker runs them."""
import unittest

import mxnet as mx
import tutti
from mxnet_served_fixture import Served, devices


class Turns(Served):
    @classmethod
    def setUpClass(cls):
        """Each test creates stores, and closes them."""

    def setUp(self):
        self.kv = mx.kv.create(self.ASKED)
        self.rank, self.size = self.kv.rank, self.kv.num_workers
        self.addCleanup(lambda: self.kv.close())  # pylint: disable=unnecessary-lambda

    def trained(self, optimizer):
        """The weights of a network after steps by which servers update them."""
        net = self.network(devices(1), self.rank)
        trainer = self.trainer(net, self.kv, optimizer)
        self.assertTrue(trainer._update_on_kvstore)
        for number in range(3):
            self.step(net, trainer, devices(1), [self.rank], number)
        self.equal_on_ranks(self.weights(net))
        return [array.asnumpy().tolist() for array in self.weights(net)]

    def test_trainers_whose_weights_servers_update_may_take_turns(self):
        first = self.trained("sgd")
        self.kv.close()
        self.kv = mx.kv.create(self.ASKED)
        other = self.trained("adam")
        self.kv.close()
        self.kv = mx.kv.create(self.ASKED)
        self.assertEqual(self.trained("sgd"), first)
        self.assertNotEqual(other, first)

    def test_a_trainer_beside_one_that_has_the_servers_is_told_to_take_turns(self):
        self.trained("sgd")
        self.refused(lambda: self.trained("sgd"), r"another Trainer.*call kv.close\(\) of the first one's store")

    def test_a_closed_store_refuses_what_comes_later(self):
        self.kv.init("w", mx.nd.ones(2))
        self.kv.close()
        self.kv.close()
        self.refused(lambda: self.kv.init("v", mx.nd.ones(2)), "store that is closed", tutti.AbortedError)
        out = mx.nd.zeros(2)
        self.kv.pull("w", out=out)
        self.refused(out.asnumpy, "is closed", tutti.AbortedError)


if __name__ == "__main__":
    unittest.main()
