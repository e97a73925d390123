"""Tests of an MXNet script whose workers update the weights, while servers sum the gradients. Every worker runs them.
"""
import unittest
from unittest import mock

from mxnet_served_fixture import Served, devices


class Updated(Served):
    def steps(self, net, trainer, contexts, ranks):
        for number in range(4):
            self.step(net, trainer, contexts, ranks, number)

    def test_workers_may_update_by_themselves(self):
        trainer = self.like_one_process(self.steps, devices(2), update_on_kvstore=False, optimizer="adam")
        self.assertFalse(trainer._update_on_kvstore)

    def test_two_trainers_share_a_store_though_their_keys_are_equal_and_any_optimizer_will_do(self):
        nets = [self.network(devices(1), seed) for seed in (self.rank, self.rank + 10)]
        trainers = [self.trainer(net, self.kv, optimizer, update_on_kvstore=False)
                    for net, optimizer in zip(nets, ("ftml", "adadelta"))]
        for number in range(2):
            for net, trainer in zip(nets, trainers):
                self.step(net, trainer, devices(1), [self.rank], number)
        for net in nets:
            self.equal_on_ranks(self.weights(net))

    def test_modules_that_update_on_the_workers_begin_with_worker_0s_weights_too(self):
        with mock.patch.dict("os.environ", MXNET_UPDATE_ON_KVSTORE="0"):
            self.equal_on_ranks(self.fitted(self.kv, [self.rank]))

    def test_statistics_of_a_checkpoint_are_given_to_the_workers_by_worker_0_too(self):
        with mock.patch.dict("os.environ", MXNET_UPDATE_ON_KVSTORE="0"):
            self.statistics_are_given()


if __name__ == "__main__":
    unittest.main()
