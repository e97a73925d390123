"""Tests of a script that does not name tutti. Every rank runs them.

    mpirun -n N python -m tutti mxnet_unchanged.py
    scripts/launch.py --mode mpi -n N python mxnet_unchanged.py
"""
import os
import unittest

import mxnet as mx
from mxnet import gluon

LAUNCHED = "TUTTI_MODE" in os.environ
SYNCHRONOUS = ("dist", "dist_sync", "dist_device_sync", "dist_sync_device")
ASYNCHRONOUS = ("dist_async", "dist_device_async", "dist_async_device")


class Unchanged(unittest.TestCase):
    def summed(self, kv):
        array = mx.nd.ones(3) * (kv.rank + 1)
        kv.pushpull("k", array)
        self.assertEqual(array.asnumpy().tolist(), [kv.num_workers * (kv.num_workers + 1) / 2] * 3)

    def test_the_store_is_found_by_a_script_that_does_not_name_tutti(self):
        for name in ("dist_sync_mpi", "DIST_SYNC_MPI"):
            kv = mx.kv.create(name)
            self.assertEqual(kv.type, "dist_sync_mpi")
            self.summed(kv)

    @unittest.skipUnless(LAUNCHED, "under tutti's launcher")
    def test_under_the_launcher_the_servers_names_are_tuttis(self):
        for name in (*SYNCHRONOUS, "Dist_Sync"):
            kv = mx.kv.create(name)
            self.assertEqual(kv.type, "dist_sync_mpi")
            self.summed(kv)
            net = gluon.nn.Dense(1, in_units=1)
            net.initialize(mx.init.Constant(kv.rank + 1))
            trainer = gluon.Trainer(net.collect_params(), "sgd", kvstore=name)
            trainer.save_states(os.devnull)  # the first to ask for the store
            self.assertEqual(trainer._kvstore.type, "dist_sync_mpi")
            self.assertEqual(net.weight.data().asscalar(), 1)

    @unittest.skipUnless(LAUNCHED, "under tutti's launcher")
    def test_a_type_with_async_is_refused_since_nobody_updates_on_the_store(self):
        for name in ASYNCHRONOUS:
            with self.assertRaisesRegex(NotImplementedError, f"'{name}' needs a parameter server.*dist_sync_mpi"):
                mx.kv.create(name)

    @unittest.skipIf(LAUNCHED, "without tutti's launcher")
    def test_elsewhere_the_servers_names_stay_those_of_mxnet(self):
        self.assertEqual(set(mx.kv.KVStoreBase.kv_registry) & {*SYNCHRONOUS, *ASYNCHRONOUS}, set())

    def test_a_process_that_imports_mxnet_is_a_worker_to_it(self):
        self.assertIn(os.environ.get("DMLC_ROLE"), (None, "worker"))


if __name__ == "__main__":
    unittest.main()
