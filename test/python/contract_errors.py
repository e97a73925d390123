"""Mistakes of users: the error on every rank names the key, the ranks and the values, and the store lives on; see
contract.py.
"""
import asyncio
import os
import time

import numpy as np

import tutti
from contract_fixture import Contract, on_gpu


async def awaiting(pending):
    await pending


class Disagreement(Contract):
    def setUp(self):
        self.kv = self.store(log_level="off")
        if self.kv.num_workers == 1:
            self.skipTest("alone nobody disagrees")
        self.last = self.kv.num_workers - 1

    def test_shapes_that_differ_between_ranks_are_an_error_on_every_rank_that_names_both(self):
        kv, data = self.kv, np.ones(6, np.float32)
        mine = data.reshape((3, 2) if kv.rank == self.last else (2, 3))
        self.refused(tutti.MismatchError, ["'fc1_weight'", "(2, 3)", "(3, 2)", str(self.last)],
                     kv.pushpull, "fc1_weight", mine, key="fc1_weight", ranks=[self.last])
        self.assert_alive(kv)
        kv.pushpull("fc1_weight", data.reshape(2, 3)).wait()
        self.assert_equal(data, np.full(6, kv.num_workers))

    def test_dtypes_operations_roots_and_kinds_of_call_that_differ_are_errors_on_every_rank(self):
        kv, first = self.kv, self.kv.rank == 0
        others = range(1, kv.num_workers)
        f32, i32 = np.zeros(2, np.float32), np.zeros(2, np.int32)
        cases = {
            "d": (lambda: kv.pushpull("d", f32 if first else i32), "rank 0 has float32", "int32"),
            "o": (lambda: kv.pushpull("o", f32, op="sum" if first else "max"), "rank 0 asks for sum", "max"),
            "r": (lambda: kv.broadcast("r", f32, 0 if first else 1), "rank 0 names rank 0", "rank 1"),
            "k": (lambda: kv.broadcast("k", f32) if first else kv.pushpull("k", f32),
                  "rank 0 calls broadcast", "pushpull"),
        }
        for key, (call, *texts) in cases.items():
            self.refused(tutti.MismatchError, [f"'{key}'", *texts], call, key=key, ranks=others)
        for key in cases:
            kv.pushpull(key, f32).wait()
        self.assert_alive(kv)


class Refused(Contract):
    def test_a_key_in_flight_cannot_be_used_again_and_is_free_before_its_pending_is_done(self):
        kv = self.store()
        array, again = np.zeros((), np.float32), np.zeros((), np.float32)
        # In each turn one rank submits late. The others' key waits for it, and they have tried again before it submits.
        for late in range(min(kv.num_workers, 2) if kv.num_workers > 1 else 0):
            if kv.rank == late:
                kv.barrier()
                kv.pushpull("twice", array).wait()
                continue
            pending = kv.pushpull("twice", array)
            self.refused(tutti.DuplicateKeyError, ["'twice'", f"rank {kv.rank}"], kv.pushpull, "twice", again,
                         key="twice")
            kv.barrier()
            pending.wait()
        self.refused(tutti.DuplicateKeyError, ["'a'", "twice in one call"], kv.pushpull, ["a", "a"], [array, again],
                     key="a")
        self.assert_alive(kv)

    def test_tensors_that_cannot_be_exchanged_are_refused_at_the_call_and_their_key_stays_free(self):
        kv, data = self.store(), np.zeros(6, np.float32)
        array = data.reshape(2, 3)

        def refused(ins, outs, *texts):
            self.refused(tutti.InvalidArgumentError, texts, kv.pushpull, "w", ins, outs)
        refused(array, data, "'w'", "(6)")
        refused([array, data], array, "'w'", "(6)")
        self.refused(tutti.InvalidArgumentError, ["'w'", "output"], kv.reduce_scatter, "w", array, [])
        refused(array, np.zeros(0, np.float32), "'w'", "(0)")
        # The build has no CUDA, or the machine no driver.
        self.refused(tutti.UnsupportedError, ["'w'", "gpu(0)"], kv.pushpull, "w", on_gpu(array), on_gpu(array))
        kv.pushpull("w", array).wait()
        self.assert_alive(kv)

    def test_a_rank_that_is_refused_a_tensor_on_a_gpu_keeps_nobody_from_the_key(self):
        kv, array = self.store(), np.ones((), np.float32)
        if kv.rank == 0:
            self.refused(tutti.UnsupportedError, ["'w'", "gpu(0)"], kv.pushpull, "w", on_gpu(array))
        kv.pushpull("w", array).wait()
        self.assertEqual(array, kv.num_workers)

    def test_a_forked_child_cannot_use_its_parents_store_and_the_parent_goes_on(self):
        kv, array, other = self.store(), np.ones(3, np.float32), np.ones(3, np.float32)
        group_of_one = self.store(ranks=[kv.rank])
        calls = [lambda: kv.pushpull("w", array), lambda: kv.broadcast("w", array), kv.barrier, kv.join,
                 lambda: kv.allocate(3), lambda: group_of_one.pushpull("w", array)]
        # The last rank submits when all children are gone: until then the others' calls are not done.
        late = kv.rank == kv.num_workers - 1
        if not late:
            pending = kv.pushpull("in flight", other)
            waits = [pending.wait, lambda: pending.wait(0), lambda: pending.then(print),
                     lambda: asyncio.run(awaiting(pending))]
            calls += [*waits, lambda: kv.close() or pending.wait(), *waits]
        child = os.fork()
        if child == 0:
            wrong = 100
            try:
                wrong = sum(not self.refuses_a_child(call) for call in calls)
            finally:
                os._exit(wrong)
        self.assertEqual(os.waitpid(child, 0), (child, 0))
        kv.barrier()
        (kv.pushpull("in flight", other) if late else pending).wait()
        self.assert_equal(other, np.full(3, kv.num_workers))
        self.assert_alive(kv)

    @staticmethod
    def refuses_a_child(call):
        try:
            call()
        except tutti.UnsupportedError as error:
            return "fork" in str(error)
        return False

    def test_integer_and_string_keys_do_not_mix_in_one_store(self):
        kv, array = self.store(), np.zeros((), np.float32)
        kv.pushpull("text", array).wait()
        self.refused(tutti.InvalidArgumentError, ["3", "integer", "string"], kv.pushpull, 3, array, key=3)
        self.assert_alive(kv)

    def test_methods_that_this_type_does_not_have_say_so_and_what_to_call_instead(self):
        kv, array = self.store(), np.zeros((), np.float32)
        cases = {"push": ("pushpull", "k", array), "pull": ("pushpull", "k", array), "init": ("broadcast", "k", array),
                 "row_sparse_pull": ("", "k", array, np.zeros(1, np.int64)), "set_optimizer": ("after pushpull", "sgd"),
                 "save_optimizer_states": ("", "file"), "load_optimizer_states": ("", "file")}
        for method, (instead, *args) in cases.items():
            error = self.refused(tutti.UnsupportedError, [method, "dist_sync_mpi", instead], getattr(kv, method), *args)
            self.assertIsInstance(error, NotImplementedError)
            self.assertEqual(error.code, tutti.ErrorCode.unsupported)
        self.refused(tutti.UnsupportedError, ["2bit", "fp16"], kv.set_gradient_compression, "2bit")
        self.assert_alive(kv)

    def test_a_joined_rank_as_root_is_an_error_and_so_are_roots_that_do_not_exist(self):
        kv, array = self.store(log_level="off"), np.zeros((), np.float32)
        for root in (kv.num_workers, -1):
            self.refused(tutti.InvalidArgumentError, ["root", str(root)], kv.broadcast, "w", array, root)
        if kv.num_workers > 1:
            if kv.rank != 0:
                self.refused(tutti.Error, ["'w'", "rank 0", "joined"], kv.broadcast, "w", array, 0)
            kv.join()
        self.assert_alive(kv)


class Late(Contract):
    def test_a_tensor_that_one_rank_never_submits_times_out_and_names_the_missing_rank(self):
        kv = self.store(key_timeout=1, stall_report_after=0.2, log_level="off")
        last = kv.num_workers - 1
        if last == 0:
            self.skipTest("alone nobody is late")
        # The latecomer gets the same error instead of being paired with the others' next use.
        if kv.rank == last:
            time.sleep(1.6)
        array = np.ones((), np.float32)
        error = self.refused(tutti.TimedOutError, ["'late'", f"rank {last}"], kv.pushpull, "late", array, key="late",
                             ranks=[last])
        self.assertIsInstance(error, TimeoutError)
        kv.pushpull("late", array).wait()
        self.assert_alive(kv)
