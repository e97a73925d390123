"""Tests of an MXNet script that compresses its gradients on their way to the servers. Every worker runs them.

    scripts/launch.py ... python mxnet_served_compression.py KIND
"""
import sys
import unittest

import mxnet as mx
import numpy as np

from mxnet_served_fixture import Served, devices
import tutti

COUNT = 4096
BITS = {"2bit": 2, "1bit": 1, "fp16": 16, "bf16": 16}
KIND = sys.argv.pop(1)
THRESHOLD = {"2bit": 0.25, "1bit": 0.0}.get(KIND, 0.5)
PARAMS = {"type": KIND, "threshold": THRESHOLD}


def sent(gradient, left):
    """The part of a gradient that travels. `left` is the part that has not travelled so far."""
    if KIND == "fp16":
        return gradient.astype(np.float16).astype(np.float32)
    if KIND == "bf16":  # to the nearest, in a tie to the even one
        bits = gradient.view(np.uint32)
        return ((bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000).astype(np.uint32).view(np.float32)
    left += gradient
    if KIND == "2bit":
        gone = THRESHOLD * ((left >= THRESHOLD).astype(np.float32) - (left <= -THRESHOLD))
    else:
        gone = np.where(left > THRESHOLD, 1, -1)
    left -= gone
    return gone.astype(np.float32)


class Compressed(Served):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.kv.set_gradient_compression(PARAMS)

    def test_gradients_travel_in_fewer_bytes_and_what_is_left_goes_with_the_next(self):
        left = [np.zeros(COUNT, np.float32) for _ in range(self.size)]
        self.kv.init("g", mx.nd.zeros(COUNT))
        for step in range(4):
            gradients = [np.random.RandomState([step, rank]).randn(COUNT).astype(np.float32) / 4
                         for rank in range(self.size)]
            before = self.kv._store.counters().bytes_between_nodes
            self.kv.push("g", mx.nd.array(gradients[self.rank]))
            value = mx.nd.zeros(COUNT)
            self.kv.pull("g", out=value)
            expected = sum(sent(gradient, of_rank) for gradient, of_rank in zip(gradients, left))
            np.testing.assert_allclose(value.asnumpy(), expected, rtol=1e-6, atol=1e-6)
            told = self.kv._store.counters().bytes_between_nodes - before
            self.assertLess(told, COUNT * BITS[KIND] / 8 + 1000)

    def test_pushpull_and_first_values_are_right(self):
        first, value = mx.nd.full(5, 0.3), mx.nd.zeros(5)
        self.kv.broadcast("first", first, out=value)
        np.testing.assert_array_equal(value.asnumpy(), first.asnumpy())
        self.kv.pushpull("first", mx.nd.ones(5), out=value)
        expected = sent(np.ones(5, np.float32), np.zeros(5, np.float32)) * self.size
        np.testing.assert_array_equal(value.asnumpy(), expected)

    def test_trainers_that_compress_alike_train_and_another_is_refused(self):
        net = self.network(devices(2), self.rank)
        trainer = self.trainer(net, "dist_sync", compression_params=PARAMS)
        for number in range(3):
            self.step(net, trainer, devices(2), [self.rank], number)
        for context in devices(2):
            self.equal_on_ranks(self.weights(net, context))
        self.own_servers("another")
        trainer = self.trainer(net, "dist_sync")
        with self.assertRaisesRegex(tutti.UnsupportedError, f"travel as {KIND}.*the same compression_params"):
            self.step(net, trainer, devices(2), [self.rank], 0)

    def test_what_is_no_compression_and_what_comes_late_are_refused(self):
        for params, words in (({"type": KIND, "treshold": 1}, "'treshold' is not known"), ({}, "no 'type'"),
                              ({"type": "2bit", "threshold": "much"}, "a number"),
                              ({"type": "2bit", "threshold": -1}, "threshold"),
                              ({"type": "2bit", "threshold": float("nan")}, "threshold")):
            self.refused(lambda params=params: self.kv.set_gradient_compression(params), words,
                         tutti.InvalidArgumentError)
        self.refused(lambda: self.kv.set_gradient_compression({"type": "3bit"}), "3bit")
        self.kv.init("late", mx.nd.zeros(1))
        self.refused(lambda: self.kv.set_gradient_compression({"type": "none"}), "after the first tensor",
                     tutti.InvalidArgumentError)


if __name__ == "__main__":
    unittest.main()
