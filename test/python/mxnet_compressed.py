"""Tests how compression changes gradients on their way between hosts. Every rank of an MPI job over two hosts runs it.
"""
import unittest

import mxnet as mx
import numpy as np

from mxnet_fixture import Ranks

COUNT = 1000
#: Bits after the first of a value.
PRECISION = {"fp16": 10, "bf16": 7}


class Compressed(Ranks):
    def third(self, dtype="float32"):
        return mx.nd.ones(COUNT, dtype=dtype) / 3

    def compressing(self, kind):
        kv = mx.kv.create("dist_sync_mpi")
        kv.set_gradient_compression({"type": kind})
        return kv

    def test_sums_are_those_of_rounded_gradients_and_equal(self):
        for kind, bits in PRECISION.items():
            kv, array = self.compressing(kind), self.third()
            kv.pushpull("gradient", array)
            away = np.abs(array.asnumpy() * 3 / self.size - 1)
            self.assertGreater(away.min(), 2.0 ** -(bits + 3))  # 1/3 has no end in any of them
            self.assertLess(away.max(), 2.0 ** -bits)
            self.equal_on_ranks([array])

    def test_fewer_bytes_travel(self):
        sent = {}
        for kind in ("none", *PRECISION):
            kv, array = self.compressing(kind), self.third()
            before = kv._store.counters().bytes_between_nodes
            kv.pushpull("gradient", array)
            array.wait_to_read()
            kv.barrier()
            sent[kind] = kv._store.counters().bytes_between_nodes - before
        for kind in PRECISION:
            self.assertLess(sent[kind], 0.75 * sent["none"], sent)

    def test_first_values_and_other_dtypes_and_uncompressed_sums_are_exact(self):
        for kind in ("none", *PRECISION):
            kv, first, double = self.compressing(kind), self.third(), self.third("float64")
            kv.broadcast("first", first, out=first)
            self.same(first, np.float32(1) / np.float32(3))
            kv.pushpull("double", double)
            np.testing.assert_allclose(double.asnumpy(), self.size / 3, rtol=1e-12)
        kv, array = self.compressing("none"), self.third()
        kv.pushpull("gradient", array)
        np.testing.assert_allclose(array.asnumpy(), self.size / 3, rtol=1e-6)


if __name__ == "__main__":
    unittest.main()
