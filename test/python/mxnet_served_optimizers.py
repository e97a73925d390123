"""Tests of weights that servers update, in an MXNet script. Every worker runs them."""
import pickle
import unittest

import mxnet as mx
import numpy as np
from mxnet import gluon

import tutti
from mxnet_served_fixture import Served, devices

RULES = {
    "sgd": dict(momentum=0.9, wd=0.01), "plain": dict(name="sgd", learning_rate=0.3), "nag": dict(momentum=0.5),
    "adam": dict(wd=0.1, beta1=0.8), "adagrad": dict(wd=0.01, eps=1e-6), "rmsprop": dict(gamma1=0.7),
    "centered": dict(name="rmsprop", centered=True), "lamb": dict(wd=0.01),
    "clipped": dict(name="sgd", clip_gradient=0.2),
}


class Own(mx.optimizer.SGD):
    """A subclass of a known optimizer, which may update in another way."""


class Owners(Served):
    """Each test has the servers to itself, as a program would have."""

    def setUp(self):
        self.own_servers(self.id())
        self.kv = mx.kv.create(self.ASKED)


class Updates(Owners):
    def test_each_rule_updates_as_mxnets_own(self):
        for rule, given in RULES.items():
            with self.subTest(rule):
                self.own_servers(rule)
                given = {"rescale_grad": 0.5, **given}
                name = given.pop("name", rule)
                self.like_mxnets(lambda: mx.optimizer.create(name, **given))

    def test_statistics_of_a_checkpoint_are_given_to_the_workers_by_worker_0(self):
        self.statistics_are_given()

    def test_a_new_learning_rate_reaches_the_servers_with_the_next_push(self):
        def change(optimizer, step):
            optimizer.set_learning_rate(0.1 / (step + 1))
            optimizer.wd = 0.01 * step
        self.like_mxnets(lambda: mx.optimizer.SGD(learning_rate=1.0, momentum=0.9), change=change)

    def test_a_push_is_an_update_by_the_optimizer_of_its_time(self):
        """This holds even if the gradient is still being computed when another optimizer is set."""
        self.kv.set_optimizer(mx.optimizer.SGD(learning_rate=1.0))
        value, slow = mx.nd.zeros(3), mx.nd.ones((700, 700))
        self.kv.init("slow", value)
        for _ in range(20):
            slow = mx.nd.dot(slow, slow) / 700
        self.kv.push("slow", slow[0, :3])
        self.kv.set_optimizer(mx.optimizer.SGD(learning_rate=0.5))
        self.kv.pull("slow", out=value)
        np.testing.assert_allclose(value.asnumpy(), np.full(3, -self.size), rtol=1e-4)

    def test_a_rate_that_the_servers_refuse_is_sent_again(self):
        """The rate at the end is the one that worker 0 had already sent."""
        optimizer = mx.optimizer.SGD(learning_rate=1.0)
        self.kv.set_optimizer(optimizer)
        self.kv.init("refused", mx.nd.zeros(2))
        if self.size > 1:
            optimizer.set_learning_rate(2.0 + self.rank)
            with self.assertRaises(tutti.MismatchError):
                self.kv.push("refused", mx.nd.ones(2))
        optimizer.set_learning_rate(2.0)
        value = mx.nd.zeros(2)
        self.kv.pushpull("refused", mx.nd.ones(2), out=value)
        np.testing.assert_array_equal(value.asnumpy(), np.full(2, -2 * self.size))

    def test_a_schedule_counts_this_workers_pushes(self):
        def make():
            schedule = mx.lr_scheduler.FactorScheduler(step=2, factor=0.5, base_lr=0.2)
            return mx.optimizer.SGD(learning_rate=0.2, lr_scheduler=schedule)
        self.like_mxnets(make, steps=7)

    def test_factors_are_by_index_and_by_name(self):
        kv = mx.kv.create("dist_sync")
        optimizer = mx.optimizer.SGD(learning_rate=1.0, wd=0.5, param_idx2name={0: "a_weight", 1: "a_bias"})
        optimizer.set_lr_mult({"a_weight": 0.25})
        kv.set_optimizer(optimizer)
        for key, factor, wd in ((0, 0.25, 0.5), (1, 1, 0)):
            kv.init(key, mx.nd.ones(2))
            value = mx.nd.zeros(2)
            kv.pushpull(key, mx.nd.ones(2), out=value)
            np.testing.assert_allclose(value.asnumpy(), 1 - factor * (self.size + wd), rtol=1e-6)

    def test_what_servers_do_not_know_is_refused_with_what_they_know(self):
        known = "known: AdaGrad, Adam, LAMB, NAG, RMSProp, SGD, ccSGD.*update_on_kvstore=False"
        for optimizer in (mx.optimizer.FTML(), mx.optimizer.AdaDelta(), Own()):
            self.refused(lambda optimizer=optimizer: self.kv.set_optimizer(optimizer),
                         f"{type(optimizer).__name__} is not known.*{known}")
        self.refused(lambda: self.kv._set_updater(lambda *_: None), "_set_updater.*set_optimizer")
        self.refused(lambda: self.kv._send_command_to_servers(5, ""), "head 5")
        self.refused(lambda: self.kv.set_optimizer(mx.optimizer.Adam(begin_num_update=5)), "begin_num_update=5")

    def test_row_sparse_gradients_update_all_rows_and_what_would_leave_some_is_refused(self):
        sparse = self.mine((4, 2)).tostype("row_sparse")
        for given, instead in ((mx.optimizer.SGD(momentum=0.9), "lazy_update=False"),
                               (mx.optimizer.Adam(), "lazy_update=False"), (mx.optimizer.AdaGrad(wd=0.1), "wd=0")):
            self.kv.set_optimizer(given)
            self.refused(lambda: self.kv.push("r", sparse), f"'r'.*{type(given).__name__} does not .*{instead}")
        self.kv.set_optimizer(mx.optimizer.SGD(learning_rate=1.0, momentum=0.5, lazy_update=False))
        self.kv.init("r", mx.nd.zeros((3, 2)))
        for rows in ([1], [0]):
            gradient = mx.nd.sparse.row_sparse_array((np.ones((1, 2), np.float32), rows), shape=(3, 2))
            self.kv.push("r", gradient)
        value = mx.nd.zeros((3, 2))
        self.kv.pull("r", out=value)
        np.testing.assert_allclose(value.asnumpy()[:, 0], [-self.size, -1.5 * self.size, 0])

    def test_an_updater_and_the_command_of_mxnets_own_set_its_optimizer(self):
        for given in (lambda optimizer: self.kv._set_updater(mx.optimizer.get_updater(optimizer)),
                      lambda optimizer: self.kv._send_command_to_servers(0, pickle.dumps(optimizer, 0).decode())):
            given(mx.optimizer.SGD(learning_rate=0.5))
            self.kv.broadcast("u", mx.nd.ones(2), out=mx.nd.zeros(2))
            value = mx.nd.zeros(2)
            self.kv.pushpull("u", mx.nd.ones(2), out=value)
            self.same(value, 1 - 0.5 * self.size)
        self.assertIsInstance(self.kv._updater.optimizer, mx.optimizer.SGD)

    def test_what_another_store_of_the_program_pushes_is_not_updated_by_mistake(self):
        self.kv.set_optimizer(mx.optimizer.SGD())
        other = mx.kv.create("dist_sync")
        other.init("w", mx.nd.ones(2))
        for call in (lambda: other.set_optimizer(mx.optimizer.SGD()), lambda: other.push("w", mx.nd.ones(2)),
                     lambda: other.pushpull("w", mx.nd.ones(2))):
            self.refused(call, "another Trainer.*update_on_kvstore=False")


class Trainers(Owners):
    def steps(self, net, trainer, contexts, ranks):
        for number in range(4):
            self.step(net, trainer, contexts, ranks, number)

    def test_workers_and_devices_train_like_one_process_with_the_joint_batch(self):
        trainer = self.like_one_process(self.steps, devices(2), params={"momentum": 0.9, "wd": 0.01})
        self.assertTrue(trainer._update_on_kvstore)

    def test_adam_on_the_servers_trains_like_one_process(self):
        self.like_one_process(self.steps, optimizer="adam")

    def test_a_new_rate_of_a_trainer_reaches_the_servers(self):
        def act(net, trainer, contexts, ranks):
            for number in range(4):
                trainer.set_learning_rate(0.1 / (number + 1))
                self.step(net, trainer, contexts, ranks, number)
        self.like_one_process(act, params={"momentum": 0.9})

    def test_weight_decay_and_learning_rate_are_by_each_parameters_own_factor(self):
        def act(net, trainer, contexts, ranks):
            for number in range(4):
                net[0].weight.lr_mult, net[1].bias.wd_mult = 0.5 * number, 0.0
                self.step(net, trainer, contexts, ranks, number)
        self.like_one_process(act, params={"wd": 0.1})

    def test_a_trainer_does_not_let_its_store_be_reset(self):
        net = self.network(devices(1), 0)
        trainer = self.trainer(net, self.kv)
        with self.assertRaisesRegex(RuntimeError, "Cannot reset distributed KVStore"):
            trainer._reset_kvstore()


class Modules(Owners):
    def test_modules_begin_with_worker_0s_weights_and_train_like_one_process(self):
        ours = self.fitted(self.kv, [self.rank])
        alone = self.fitted(None, range(self.size))
        for mine, expected in zip(ours, alone):
            np.testing.assert_allclose(mine.asnumpy(), expected.asnumpy(), rtol=1e-4, atol=1e-6)
        self.equal_on_ranks(ours)


if __name__ == "__main__":
    unittest.main()
