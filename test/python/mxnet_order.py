"""The order in which an MXNet program's gradients are exchanged; on every rank of an MPI job, of two at least."""
import time
import unittest

import mxnet as mx

import tutti.mxnet  # pylint: disable=unused-import

LAYERS = range(16)


class Order(unittest.TestCase):
    def setUp(self):
        self.kv = mx.kv.create("dist_sync_mpi")
        self.gradients = [mx.nd.ones(1000) for _ in LAYERS]

    def step(self, layers, pause=0):
        for i in layers:
            time.sleep(pause)
            self.kv.pushpull(i, self.gradients[i], priority=-i)
        for gradient in self.gradients:
            gradient.wait_to_read()

    def messages(self):
        return self.kv._store.counters().control_messages

    def test_gradients_that_begin_to_come_one_by_one_are_exchanged_as_they_come(self):
        for _ in range(20):
            self.step(LAYERS)
        before = self.messages()
        for _ in range(20):
            self.step(reversed(LAYERS), 0.002)
        self.kv.barrier()
        # Each was reported, for a new order; what is not is exchanged in the order of the first steps.
        self.assertGreater(self.messages() - before, len(LAYERS))


if __name__ == "__main__":
    unittest.main()
