"""Arrays that oneDNN keeps in a layout of its own: weights of convolutions that were used without training, and
gradients of what goes into convolutions. On every rank of an MPI job."""
import ctypes
import unittest

import mxnet as mx
from mxnet import autograd, gluon
import numpy as np

import tutti.mxnet  # pylint: disable=unused-import


def setUpModule():
    global KV, RANK, SIZE  # pylint: disable=global-variable-undefined
    KV = mx.kv.create("dist_sync_mpi")
    RANK, SIZE = KV.rank, KV.num_workers


def is_blocked(array):
    """NDArray::Chunk::IsMKLDNN(), of the chunk that an NDArray begins with."""
    array.wait_to_read()
    asked = mx.base._LIB._ZNK5mxnet7NDArray5Chunk8IsMKLDNNEv
    asked.restype, asked.argtypes = ctypes.c_bool, [ctypes.c_void_p]
    return asked(ctypes.c_void_p.from_address(array.handle.value).value)


def lenet(seed):
    """A LeNet with as many channels as a block of oneDNN has."""
    mx.random.seed(seed)
    net = gluon.nn.HybridSequential()
    net.add(gluon.nn.Conv2D(16, 5, padding=2, in_channels=16), gluon.nn.AvgPool2D(),
            gluon.nn.Conv2D(32, 5, padding=2, in_channels=16), gluon.nn.AvgPool2D(), gluon.nn.Dense(10, in_units=128))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    return net


def images(seed):
    return mx.nd.array(np.random.RandomState(seed).rand(4, 16, 8, 8))


class Blocked(unittest.TestCase):
    def assert_blocked(self, array):
        self.assertTrue(is_blocked(array), "oneDNN has no layout of its own here: nothing would be tested")

    def gradient(self, rank):
        """The gradient of the images, with the net of rank 0 and the images of this rank."""
        data = images(rank)
        data.attach_grad()
        net = lenet(0)
        with autograd.record():
            loss = (net(data) ** 2).sum()
        loss.backward()
        self.assert_blocked(data.grad)
        return data.grad

    def same(self, array, expected):
        np.testing.assert_allclose(array.asnumpy(), expected, rtol=1e-4, atol=1e-6)

    def test_a_gradient_is_summed_in_place_and_to_outs(self):
        expected = sum(self.gradient(rank).asnumpy() for rank in range(SIZE))
        array, out = self.gradient(RANK), mx.nd.zeros(expected.shape)
        KV.pushpull("to out", array, out=out)
        self.same(out, expected)
        KV.pushpull("in place", array)
        self.same(array, expected)

    def test_a_gradient_is_overwritten_by_a_broadcast(self):
        array = self.gradient(RANK)
        KV.broadcast("gradient", array, out=array)
        self.same(array, self.gradient(0).asnumpy())

    def test_weights_that_were_used_already_become_those_of_rank_0(self):
        net, first = lenet(RANK), lenet(0)
        for each in (net, first):
            each(images(0)).wait_to_read()
        for i, (parameter, expected) in enumerate(zip(net.collect_params().values(), first.collect_params().values())):
            weight = parameter.data()
            if i == 0:
                self.assert_blocked(weight)
            KV.broadcast(f"weight {i}", weight, out=weight)
            self.same(weight, expected.data().asnumpy())
        self.same(net(images(1)), first(images(1)).asnumpy())


if __name__ == "__main__":
    unittest.main()
