"""The results of calls; see contract.py."""
import contextlib
import random
import threading
import time

import numpy as np

import tutti
from contract_fixture import Contract, make_store, sums, values
from package_fixture import PATIENCE, Beside


class Exchange(Contract):
    def test_pushpull_gives_every_rank_the_sum_over_all_ranks(self):
        kv = self.store()
        for count in (0, 1, 7, 1000, 100_003, 3_000_001):
            mine, out = values(kv.rank, count, 0, count), np.zeros(count, np.float32)
            kv.pushpull("sum", mine, out).wait()
            self.assert_equal(out, sums(kv.num_workers, count, 0, count))
            self.assert_equal(mine, values(kv.rank, count, 0, count))

    def test_allreduce_gives_every_rank_the_sum_and_returns_when_it_is_there(self):
        kv = self.store()
        for turn in range(50):
            array = values(kv.rank, 1, turn, 1000)
            if kv.rank == 0 and turn % 2 == 0:
                kv.pushpull("sum", array).wait()
            else:
                self.assertIsNone(kv.allreduce("sum", array))
            self.assert_equal(array, sums(kv.num_workers, 1, turn, 1000))

    def test_a_store_says_where_its_rank_is_on_its_machine(self):
        kv = self.store()
        self.assertEqual(kv.nodes, kv.counters().nodes)
        if kv.nodes == 1:
            self.assertEqual((kv.local_rank, kv.local_size), (kv.rank, kv.num_workers))

    def test_pushpull_in_place_unaligned_over_several_devices(self):
        kv, count = self.store(), 10_001
        devices = [np.frombuffer(bytearray(4 * count + 1), np.float32, count, offset=1) for _ in range(3)]
        for device, array in enumerate(devices):
            array[:] = values(3 * kv.rank + device, 1, 0, count)
        self.assertFalse(devices[0].flags.aligned)
        kv.pushpull(5, devices).wait()
        for array in devices:
            self.assert_equal(array, sums(3 * kv.num_workers, 1, 0, count))

    def test_broadcast_gives_every_rank_the_roots_value_from_any_root(self):
        kv = self.store()
        for root in range(kv.num_workers):
            array = np.arange(50_021.0) + 1000 * root if kv.rank == root else np.zeros(50_021)
            kv.broadcast("w", array, root).wait()
            self.assert_equal(array, np.arange(50_021) + 1000 * root)

    def test_average_minimum_and_maximum_integers_and_floats(self):
        kv = self.store()
        ranks = kv.num_workers

        def reduced(op, mine):
            out = np.zeros((), np.int32)
            kv.pushpull("op", np.array(mine, np.int32), out, op=op).wait()
            return out
        self.assertEqual(reduced("min", kv.rank - 2), -2)
        self.assertEqual(reduced("max", kv.rank - 2), ranks - 3)
        self.assertEqual(reduced("average", 10 + kv.rank), (10 * ranks + ranks * (ranks - 1) // 2) // ranks)
        mine = np.array(kv.rank, np.float32)
        kv.pushpull("avg", mine, op="average").wait()
        self.assertEqual(mine, (ranks - 1) / 2)

    def test_tensors_from_allocate_are_exchanged_like_any_other(self):
        kv, count = self.store(), 3_000_017
        mine, other = kv.allocate(count), kv.allocate((count,), np.float32)
        for turn, out in enumerate((other, other, mine)):
            mine[:] = values(kv.rank, 2, turn, count)
            kv.pushpull("shared", mine, out).wait()
            self.assert_equal(out, sums(kv.num_workers, 2, turn, count))
        root = kv.num_workers - 1
        other[:] = values(kv.rank, 3, 0, count)
        kv.broadcast("copy", other, root).wait()
        self.assert_equal(other, values(root, 3, 0, count))

    def test_tensors_in_a_random_order_on_each_rank_with_random_sizes_and_priorities_all_sum_right(self):
        kv, keys, turns = self.store(), 200, 20
        seed = kv.broadcast_object(random.randrange(2**32))
        shared, own = random.Random(seed), random.Random(seed * 31 + kv.rank)
        sizes = [shared.randrange(20_000 if shared.randrange(16) == 0 else 300) for _ in range(keys)]
        for turn in range(turns):
            order = own.sample(range(keys), keys)
            arrays = {key: values(kv.rank, key, turn, sizes[key]) for key in order}
            pendings = []
            for key in order:
                pendings.append(kv.pushpull(key, arrays[key], priority=own.randrange(10)))
                if own.randrange(50) == 0:
                    time.sleep(own.random() * 3e-4)
            for pending in pendings:
                pending.wait()
            for key, array in arrays.items():
                self.assert_equal(array, sums(kv.num_workers, key, turn, sizes[key]), f"seed {seed}, key {key}")
        self.assertEqual(kv.counters().tensors_reduced, keys * turns)

    def test_a_key_may_have_another_shape_and_dtype_at_each_exchange(self):
        kv = self.store()
        kv.broadcast("w", np.ones(8, np.float32)).wait()
        for array in (np.ones(1000, np.float32), np.ones(3), np.ones((2, 2), np.int8)):
            kv.pushpull("w", array).wait()
            self.assert_equal(array, np.full(array.shape, kv.num_workers))

    def test_a_broadcast_gives_a_key_that_is_known_a_new_value_of_another_shape_too(self):
        kv = self.store()
        root = kv.num_workers - 1
        array = np.zeros(8, np.float32)
        for turn in (1, 2):
            array[:] = kv.rank + turn
            kv.broadcast("w", array, root).wait()
            self.assert_equal(array, np.full(8, root + turn))
        kv.pushpull("w", array).wait()
        other = np.full(3, kv.rank + 3.0)
        kv.broadcast("w", other, root).wait()
        self.assert_equal(other, np.full(3, root + 3))


class Together(Contract):
    def test_a_callback_may_submit_the_next_round_and_a_barrier_meets_everyone(self):
        kv = self.store()
        array, second, chained = np.ones((), np.float32), [], threading.Event()

        def chain(error):
            self.assertIsNone(error)
            second.append(kv.pushpull("second", array))
            chained.set()
        kv.pushpull("first", array).then(chain)
        self.assertTrue(chained.wait(PATIENCE))
        second[0].wait()
        self.assertEqual(array, kv.num_workers ** 2)
        for _ in range(100):
            kv.barrier()

    def test_a_rank_that_joins_contributes_nothing_while_the_others_go_on(self):
        kv = self.store()
        ranks = kv.num_workers
        for batch in range(kv.rank + 1):
            one, mine = np.ones((), np.float32), np.array(kv.rank, np.float32)
            kv.pushpull("g", one).wait()
            kv.pushpull("a", mine, op="average").wait()
            self.assertEqual(one, ranks - batch)
            self.assertEqual(mine, (batch + ranks - 1) / 2)
        self.assertEqual(kv.join(), ranks - 1)
        after = np.ones((), np.float32)
        kv.pushpull("g", after).wait()
        self.assertEqual(after, ranks)

    def test_several_stores_live_side_by_side_and_one_after_the_other(self):
        first, second = make_store(), make_store()
        ranks = first.num_workers
        a, b = np.array(1, np.float32), np.array(2, np.float32)
        pendings = [first.pushpull("k", a), second.pushpull("k", b)]
        for pending in reversed(pendings):
            pending.wait()
        self.assertEqual((a, b), (ranks, 2 * ranks))
        first.close()
        b[...] = 1
        second.pushpull("k", b).wait()
        self.assertEqual(b, ranks)
        second.close()

    def test_threads_may_create_stores_at_the_same_time(self):
        stores = [None] * 4

        def create(i):
            stores[i] = make_store()

        def leave(i):
            # A thread does not know whose thread has its store on another rank, so all threads do the same.
            array = np.ones(4)
            stores[i].pushpull("all", array).wait()
            stores[i].close()
            self.assert_equal(array, np.full(4, stores[i].num_workers))
        for work in (create, leave):
            with contextlib.ExitStack() as threads:
                for i in range(4):
                    threads.enter_context(Beside(work, i))


class Travels(Contract):
    def test_compressed_f32_tensors_travel_between_nodes_in_half_the_bytes_and_the_rest_as_it_is(self):
        numbers = np.arange(30_000, dtype=np.float32) % 32  # sums up to 8 * 31, which both formats know

        def bytes_for(kind):
            kv = self.store()
            kv.set_gradient_compression(kind)
            array, exact, before = numbers.copy(), np.full(1000, 1 + 1e-12), kv.counters().bytes_between_nodes
            kv.pushpull("f32", array).wait()
            sent = kv.counters().bytes_between_nodes - before
            self.assert_equal(array, numbers * kv.num_workers)
            kv.pushpull("f64", exact).wait()
            np.testing.assert_allclose(exact, kv.num_workers * (1 + 1e-12), rtol=1e-15)
            return sent
        whole = bytes_for("none")
        self.assertEqual([2 * bytes_for(kind) for kind in ("fp16", "bf16")], [whole] * 2)

    def test_what_travels_is_chosen_before_the_first_tensor_or_the_choice_is_refused(self):
        kv = self.store()
        kv.set_gradient_compression("fp16")
        kv.set_gradient_compression("none")
        kv.pushpull("w", np.ones((), np.float32)).wait()
        self.refused(tutti.InvalidArgumentError, ["'fp16'", "after the first tensor"],
                     kv.set_gradient_compression, "fp16")

    def test_a_compressed_average_is_finite_although_the_sum_is_too_large_for_16_bits(self):
        kv = self.store()
        kv.set_gradient_compression("fp16")
        array = np.full(5000, 60_000, np.float32)
        kv.pushpull("average", array, op="average").wait()
        np.testing.assert_allclose(array, 60_000, rtol=2e-3)

    def test_parts_are_smaller_between_nodes_unless_the_program_says_how_large(self):
        def part_size(kv):
            return [(choice.value, choice.origin) for choice in kv.choices() if choice.name == "part size"]
        kv = self.store()
        expected = ("4M", "job: 1 node") if kv.nodes == 1 else ("512K", f"job: {kv.nodes} nodes")
        self.assertEqual(part_size(kv), [expected])
        self.assertEqual(part_size(self.store(part_bytes=3 << 20)), [("3M", "program")])
