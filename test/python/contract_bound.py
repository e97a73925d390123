"""Bound calls; see contract.py."""
import threading

import numpy as np

import tutti
from contract_fixture import Contract, make_store, on_gpu, sums, values
from package_fixture import PATIENCE


class Bound(Contract):
    def test_a_bound_call_gives_every_rank_the_sum_at_each_start_and_meets_other_calls(self):
        kv, count = self.store(), 1000
        mine, out = np.zeros(count, np.float32), np.zeros(count, np.float32)
        bound = kv.bind("sum", mine, out)
        self.assertTrue(bound.wait(0))  # nothing was started yet
        ways = (lambda: kv.pushpull("sum", mine, out).wait(), lambda: kv.allreduce("sum", mine, out), bound.run,
                lambda: bound.start().wait(), lambda: (bound.start(), bound.wait()))
        for turn in range(60):
            mine[:] = values(kv.rank, 1, turn, count)
            ways[(turn + kv.rank) % len(ways)]()
            self.assert_equal(out, sums(kv.num_workers, 1, turn, count))

    def test_a_bound_call_takes_several_keys_and_devices_and_the_options_of_a_pushpull(self):
        kv = self.store()
        first, second, third = (np.zeros((), np.float32) for _ in range(3))
        bound = kv.bind(["v", "w"], [first, [second, third]], priority=3, op="max")
        for turn in range(3):
            first[...] = second[...] = kv.rank + 10 * turn
            third[...] = kv.rank + 10 * turn + 1
            self.assertIsNone(bound.run())
            most = kv.num_workers - 1 + 10 * turn
            self.assertEqual((first, second, third), (most, most + 1, most + 1))

    def test_each_start_reads_inputs_that_lie_in_the_outputs_of_other_keys_anew(self):
        # So large that the outputs of one key are written before all inputs of the other are read.
        kv, count = self.store(), 3_000_001
        first, second = np.zeros(count, np.float32), np.zeros(count, np.float32)
        bound = kv.bind(["v", "w"], [first, second], [second, first])
        for turn in range(1, 3):
            first[:], second[:] = turn, 100 * turn
            bound.run()
            self.assert_equal(first, np.full(count, 100 * turn * kv.num_workers))
            self.assert_equal(second, np.full(count, turn * kv.num_workers))

    def test_a_bound_call_in_flight_cannot_be_started_and_errors_leave_the_binding_usable(self):
        kv = self.store(log_level="off")
        if kv.num_workers == 1:
            self.skipTest("alone no call is in flight")
        array, late = np.array([1, 2], np.float32), kv.rank == 0
        bound = kv.bind("again", array)
        if late:
            kv.barrier()
            bound.run()
        else:
            first = bound.start()
            for again in (bound.start, bound.run):
                self.refused(tutti.DuplicateKeyError, ["'again'"], again, key="again")
            kv.barrier()
            self.assertTrue(bound.wait())
            self.assertTrue(first.done())
        call = (lambda: kv.allreduce("again", array[:1])) if late else bound.run
        self.refused(tutti.MismatchError, ["'again'"], call, key="again")
        if not late:
            self.refused(tutti.MismatchError, ["'again'"], lambda: bound.wait() and None)
        array[:] = 1, 2
        bound.run()
        self.assert_equal(array, [kv.num_workers, 2 * kv.num_workers])
        self.assert_alive(kv)

    def test_bind_refuses_what_pushpull_refuses_names_the_call_and_submits_nothing(self):
        kv = self.store()
        array, flat = np.ones((2, 3), np.float32), np.ones(6, np.float32)
        for kind, text, *arguments in (
                (tutti.InvalidArgumentError, "(6)", "w", array, flat),
                (tutti.InvalidArgumentError, "0 lists of outputs", ["w"], [array], []),
                (tutti.DuplicateKeyError, "twice", ["w", "w"], [array, array]),
                (tutti.InvalidArgumentError, "overlap", ["v", "w"], [array, array])):
            self.refused(kind, ["bound pushpull of", text], lambda *arguments: kv.bind(*arguments) and None, *arguments)
        bound = kv.bind("w", array)
        self.refused(tutti.InvalidArgumentError, ["7", "'w'"], lambda: kv.bind(7, array) and None)
        # A build without CUDA refuses it at once. Otherwise each start looks for the GPU.
        self.refused(tutti.UnsupportedError, ["'w'", "gpu(0)"],
                     lambda: kv.bind("w", on_gpu(array), on_gpu(array)).start())
        self.assertEqual(kv.counters().tensors_reduced, 0)
        bound.run()
        self.assertEqual(kv.counters().tensors_reduced, 1)

    def test_a_call_outlives_its_binding_and_a_binding_its_store(self):
        kv = make_store()
        ranks = kv.num_workers
        pending = kv.bind("dropped", array := np.ones(3, np.float32)).start()
        pending.wait()
        self.assert_equal(array, np.full(3, ranks))
        value = np.ones(1, np.float32)
        bound = kv.bind("kept", value)
        with self.assertRaisesRegex(ValueError, "cannot resize"):  # the binding holds the array
            value.resize(2)
        bound.run()
        self.assertEqual(value, ranks)
        kv.close()
        self.refused(tutti.AbortedError, ["bind of a store that is closed"], kv.bind, "new", value)
        for _ in range(2):
            for call in (bound.start, bound.run):
                self.refused(tutti.AbortedError, ["bound pushpull of a store that is closed"], call)
            kv = None
        self.assertTrue(bound.wait())  # for the call of before, which has succeeded
        # A store that the program drops is closed, though a binding of it is left.
        other = make_store()
        bound = other.bind("kept", value)
        del other
        self.refused(tutti.AbortedError, ["bound pushpull of a store that is closed"], bound.start)

    def test_a_callback_may_start_a_bound_call_and_must_not_run_it(self):
        # Callbacks of Python have a thread of their own, so here a callback may also run a bound call.
        kv = self.store()
        array, first, second = (np.ones((), np.float32) for _ in range(3))
        started, run, chained = kv.bind("started", first), kv.bind("run", second), threading.Event()

        def chain(error):
            self.assertIsNone(error)
            started.start()
            run.run()
            chained.set()
        kv.pushpull("first", array).then(chain)
        self.assertTrue(chained.wait(PATIENCE))
        started.wait()
        self.assertEqual((array, first, second), (kv.num_workers,) * 3)

    def test_check_finite_looks_at_each_start(self):
        kv = self.store(check_finite=True)
        array = np.ones(2, np.float32)
        bound = kv.bind("checked", array)
        bound.run()
        array[1] = np.nan
        for call in (bound.start, bound.run):
            self.refused(tutti.InvalidArgumentError, ["bound pushpull of key 'checked'", "NaN"], call, key="checked",
                         ranks=[kv.rank])
        array[:] = 1
        bound.run()
        self.assert_equal(array, np.full(2, kv.num_workers))
