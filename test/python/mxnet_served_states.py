"""States of optimizers on servers, which one job of MXNet scripts saves and another loads. Every worker runs it.

    scripts/launch.py ... python mxnet_served_states.py FOLDER Saving|Loading
"""
import os
import sys
import unittest
import warnings

import mxnet as mx
import numpy as np

from mxnet_served_fixture import Served, devices
import tutti

FOLDER, PART = sys.argv.pop(1), sys.argv.pop(1)
OF_TRAINER, OF_STORE = f"{FOLDER}/trainer.states", f"{FOLDER}/store.states"
HALF, WHOLE = 3, 6


def given():
    return {"momentum": 0.9, "wd": 0.01,
            "lr_scheduler": mx.lr_scheduler.FactorScheduler(step=2, factor=0.5, base_lr=0.1)}


class States(Served):
    def path(self, path):
        """The path of this worker's file. The store reads only worker 0's."""
        return path if self.rank == 0 else f"{path} of no worker"

    def trained(self, kvstore, ranks, first, end, like=None, states=None):
        """A network that was trained for these steps, and began with the weights of another one."""
        net = self.network(devices(1), 0)
        for mine, theirs in zip(net.collect_params().values(), like.collect_params().values() if like else ()):
            mine.set_data(theirs.data())
        trainer = self.trainer(net, kvstore, params=given())
        if states:
            trainer.load_states(states)
        for number in range(first, end):
            self.step(net, trainer, devices(1), ranks, number)
        return net, trainer

    def updated(self, kv, first, end):
        """A value after an update by the servers or, without them, by MXNet's own Adam."""
        value = mx.nd.ones(7)
        updater = mx.optimizer.get_updater(mx.optimizer.Adam(learning_rate=0.1))
        for step in range(end):
            gradients = [mx.nd.array(np.random.RandomState([step, rank]).randn(7)) for rank in range(self.size)]
            if step == first and kv:
                kv.init("w", value)
            if step >= first and kv:
                kv.pushpull("w", gradients[self.rank], out=value)
            else:
                updater("w", sum(gradients), value)
        return value


class Saving(States):
    def test_a_trainer_saves_its_servers_states(self):
        self.own_servers("trainer")
        _, trainer = self.trained(mx.kv.create(self.ASKED), [self.rank], 0, HALF)
        if self.rank == self.size - 1:
            trainer.save_states(OF_TRAINER)
            self.assertEqual([name for name in os.listdir(FOLDER) if "trainer" in name or ".tutti" in name],
                             ["trainer.states"])
            with self.assertRaises(OSError):
                trainer.save_states(f"{FOLDER}/nowhere/file")

    def test_a_store_saves_its_servers_states(self):
        self.own_servers("store")
        kv = mx.kv.create(self.ASKED)
        self.refused(lambda: mx.kv.create(self.ASKED).save_optimizer_states(OF_STORE), "no optimizer",
                     tutti.InvalidArgumentError)
        kv.set_optimizer(mx.optimizer.Adam(learning_rate=0.1))
        self.updated(kv, 0, HALF)
        if self.rank == 0:
            kv.save_optimizer_states(OF_STORE)


class Loading(States):
    def test_a_trainer_goes_on_with_states_rate_and_schedule(self):
        self.own_servers("trainer")
        half, _ = self.trained(None, range(self.size), 0, HALF)
        whole, alone = self.trained(None, range(self.size), 0, WHOLE)
        net, trainer = self.trained("dist_sync", [self.rank], HALF, WHOLE, like=half, states=self.path(OF_TRAINER))
        for weight, expected in zip(self.weights(net), self.weights(whole)):
            np.testing.assert_allclose(weight.asnumpy(), expected.asnumpy(), rtol=1e-4, atol=1e-6)
        self.equal_on_ranks(self.weights(net))
        self.assertEqual((trainer.learning_rate, trainer._optimizer.num_update),
                         (alone.learning_rate, alone._optimizer.num_update))

    def test_a_store_goes_on_and_other_files_are_refused_on_every_worker(self):
        self.own_servers("store")
        kv = mx.kv.create(self.ASKED)
        kv.set_optimizer(mx.optimizer.SGD())
        damaged = f"{FOLDER}/damaged"
        if self.rank == 0:
            with open(OF_TRAINER, "rb") as file, open(damaged, "wb") as part:
                part.write(file.read().replace(b"tutti, sealed", b"tutti, broken"))
        for path, words in ((OF_STORE, "states of optimizer 'adam', but the store's optimizer is 'sgd'"),
                            (f"{FOLDER}/none", "none"), (damaged, "damaged: tutti did not write this file")):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.refused(lambda path=path: kv.load_optimizer_states(self.path(path)), words,
                             tutti.InvalidArgumentError)
        kv.set_optimizer(mx.optimizer.Adam(learning_rate=0.1))
        kv.load_optimizer_states(self.path(OF_STORE))
        np.testing.assert_allclose(self.updated(kv, HALF, WHOLE).asnumpy(), self.updated(None, 0, WHOLE).asnumpy(),
                                   rtol=2e-5, atol=1e-6)


def load_tests(loader, _tests, _pattern):
    return loader.loadTestsFromTestCase({"Saving": Saving, "Loading": Loading}[PART])


if __name__ == "__main__":
    unittest.main()
