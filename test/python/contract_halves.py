"""reduce_scatter and allgather beside pushpull; see contract.py."""
import random

import numpy as np

import tutti
from contract_fixture import DTYPES, OPS, Contract, handed, numpy_dtype, shard, sums, to_bits, values


def uneven(count, dtype, seed):
    """Values whose sums are rounded in floats, so that their order shows; as an array of this dtype holds them."""
    draw = np.random.default_rng(seed)
    small = draw.integers(1, 101, count).astype(np.float64)
    return to_bits(small if "int" in dtype else np.ldexp(small, draw.integers(-4, 5, count)), dtype)


class Trial:
    """Both halves of a pushpull and the whole, under keys of their own."""

    def __init__(self, kv, number, dtype, op, count, allocated=False, in_place=False):
        self.what = f"{dtype} {op} {count}{' allocated' * allocated}{' in place' * in_place}"
        self.kv, self.number, self.dtype, self.op = kv, number, dtype, op
        self.own = shard(kv, count)

        def make(size):
            return kv.allocate(size, dtype) if allocated else np.zeros(size, numpy_dtype(dtype))
        self.source, self.sum = make(count), make(count)
        self.source[:] = uneven(count, dtype, 100 * count + kv.rank)
        self.whole = self.source if in_place else make(count)
        self.part = self.source[self.own] if in_place else make(self.own.stop - self.own.start)

    def run(self, step):
        arrays = (self.source, self.sum, self.part, self.whole)
        source, total, part, whole = (handed(array, self.dtype) for array in arrays)
        if step == "whole":
            return self.kv.pushpull(f"whole {self.number}", source, total, op=self.op)
        if step == "first":
            return self.kv.reduce_scatter(f"first {self.number}", source, part, op=self.op)
        return self.kv.allgather(f"second {self.number}", part, whole)


class Halves(Contract):
    def compare(self, kv, trials):
        """Starts all calls at once. Only a call that needs the result of another waits for that one."""
        trials = [Trial(kv, number, *trial) for number, trial in enumerate(trials)]
        for step in ("whole", "first", "second"):
            for pending in [trial.run(step) for trial in trials]:
                pending.wait()
            for trial in trials:
                if step == "first":
                    self.same_bits(trial.part, trial.sum[trial.own], f"reduce_scatter, {trial.what}")
                if step == "second":
                    self.same_bits(trial.whole, trial.sum, f"allgather, {trial.what}")

    def same_bits(self, array, expected, about):
        if array.tobytes() != expected.tobytes():
            self.assert_equal(array, expected, about)
            self.fail(f"other bits: {about}")

    def test_the_two_halves_of_every_operation_on_every_dtype_give_the_bits_of_the_whole(self):
        self.compare(self.store(), [(dtype, op, count) for dtype in DTYPES for op in OPS for count in (0, 5, 10_003)])

    def test_large_in_place_or_not_in_shared_memory_or_not_the_bits_are_those_of_the_whole(self):
        kv = self.store()
        for count in (300_007, 3_000_001):
            for allocated in (False, True):
                for in_place in (False, True):
                    self.compare(kv, [("float32", "sum", count, allocated, in_place)])

    def test_whatever_parts_and_slices_a_tensor_is_cut_in_the_bits_are_those_of_the_whole(self):
        for part_bytes in (0, 1024):
            for slice_bytes in (64, 1024):
                # The last is above what a node exchanges whole; in slices of a cache line it would take long.
                counts = (3, 499, 0 if slice_bytes == 64 else 70_001)
                trials = [trial for count in counts
                          for trial in (("float64", "sum", count), ("float32", "average", count, True))]
                self.compare(self.store(part_bytes=part_bytes, slice_bytes=slice_bytes), trials)

    def test_compressed_the_two_halves_give_the_bits_of_the_whole(self):
        for kind in ("fp16", "bf16"):
            kv = self.store()
            kv.set_gradient_compression(kind)
            self.compare(kv, [("float32", op, count) for op in ("sum", "average") for count in (17, 5003, 200_003)])

    def test_several_devices_are_reduced_together_and_each_gets_the_result(self):
        kv, count, devices = self.store(), 30_011, range(3)
        own = shard(kv, count)
        ins = [uneven(count, "float32", 50 * device + kv.rank) for device in devices]
        totals, wholes = ([np.zeros(count, np.float32) for _ in devices] for _ in range(2))
        parts = [np.zeros(own.stop - own.start, np.float32) for _ in devices]
        kv.pushpull("whole", ins, totals).wait()
        kv.reduce_scatter("half", ins, parts).wait()
        kv.allgather("other", parts, wholes).wait()
        for part, whole, total in zip(parts, wholes, totals):
            self.assert_equal(part, totals[0][own])
            self.assert_equal(whole, totals[0])
            self.assert_equal(total, totals[0])

    def test_halves_and_wholes_in_a_random_order_on_each_rank_with_priorities_all_come_out_right(self):
        kv, keys, turns = self.store(), 60, 20
        seed = kv.broadcast_object(random.randrange(2**32))
        before = kv.counters()
        shared, own = random.Random(seed), random.Random(seed * 31 + kv.rank)
        sizes = [shared.randrange(20_000 if shared.randrange(8) == 0 else 300) for _ in range(keys)]
        for turn in range(turns):
            outs, pendings = {}, []
            for key in own.sample(range(keys), keys):
                part, size, priority = shard(kv, sizes[key]), sizes[key], own.randrange(10)
                outs[key] = np.full(size if key % 3 else part.stop - part.start, -1, np.float32)
                mine = values(0 if key % 3 == 1 else kv.rank, key, turn, size)
                if key % 3 == 0:
                    pendings.append(kv.reduce_scatter(key, mine, outs[key], priority))
                elif key % 3 == 1:
                    pendings.append(kv.allgather(key, mine[part], outs[key], priority))
                else:
                    pendings.append(kv.pushpull(key, mine, outs[key], priority))
            for pending in pendings:
                pending.wait()
            for key, out in outs.items():
                right = sums(1 if key % 3 == 1 else kv.num_workers, key, turn, sizes[key])
                right = right[shard(kv, sizes[key])] if key % 3 == 0 else right
                self.assert_equal(out, right, f"seed {seed}, key {key}")
        after = kv.counters()
        self.assertEqual(after.tensors_reduced - before.tensors_reduced, 800)
        self.assertEqual(after.tensors_gathered - before.tensors_gathered, 400)

    def test_a_list_of_keys_goes_in_one_call(self):
        kv, counts = self.store(), (100, 5)
        ins = [np.arange(count, dtype=np.int32) for count in counts]
        parts = [np.zeros(mine.stop - mine.start, np.int32) for mine in (shard(kv, count) for count in counts)]
        wholes = [np.zeros(count, np.int32) for count in counts]
        kv.reduce_scatter(["a", "b"], ins, parts).wait()
        kv.allgather(["a", "b"], parts, wholes).wait()
        for whole in wholes:
            self.assert_equal(whole, kv.num_workers * np.arange(whole.size))

    def test_between_nodes_each_half_sends_each_link_what_it_must_and_both_what_an_allreduce_does(self):
        kv, count = self.store(), 1 << 20
        own = shard(kv, count)
        source, whole, part = (np.zeros(size, np.float32) for size in (count, count, own.stop - own.start))

        def sent_by(call):
            """The bytes that all ranks together have sent."""
            before = kv.counters().bytes_between_nodes
            call().wait()
            total = np.array(kv.counters().bytes_between_nodes - before, np.int64)
            kv.pushpull("bytes", total).wait()
            return total
        # All nodes together: each node's sum of every other node's shards, and each node's own to every other.
        expected = (kv.nodes - 1) * source.nbytes
        self.assertEqual(sent_by(lambda: kv.reduce_scatter("half", source, part)), expected)
        self.assertEqual(sent_by(lambda: kv.allgather("other", part, whole)), expected)


class Shards(Contract):
    def test_an_output_or_input_that_is_no_shard_is_refused_at_the_call_with_the_right_size(self):
        kv = self.store()
        count = 4 * kv.num_workers + 1
        own = shard(kv, count)
        size = own.stop - own.start
        whole = np.zeros(count, np.float32)
        for array in (np.zeros(size + 1, np.float32), np.zeros(size, np.int32)):
            texts = [f"{own.start} to {own.stop}", f"float32 of {size} elements"]
            self.refused(tutti.InvalidArgumentError, ["reduce_scatter of key 'w'", "the output must be", *texts],
                         kv.reduce_scatter, "w", whole, array, key="w")
            self.refused(tutti.InvalidArgumentError, ["allgather of key 'w'", "the input must be", *texts],
                         kv.allgather, "w", array, whole, key="w")
        self.assert_alive(kv)

    def test_halves_whose_shapes_or_calls_differ_between_ranks_are_errors_on_every_rank(self):
        kv = self.store(log_level="off")
        if kv.num_workers == 1:
            self.skipTest("alone nobody disagrees")
        count, others = 100 if kv.rank == 0 else 200, range(1, kv.num_workers)
        own = shard(kv, count)
        whole, part = np.zeros(count, np.float32), np.zeros(own.stop - own.start, np.float32)
        self.refused(tutti.MismatchError, ["'s'", "(100)", "(200)"], kv.reduce_scatter, "s", whole, part,
                     key="s", ranks=others)
        method, *args = (kv.allgather, part, whole) if kv.rank == 0 else (kv.reduce_scatter, whole, part)
        self.refused(tutti.MismatchError, ["'k': calls differ: rank 0 calls allgather", "reduce_scatter"],
                     method, "k", *args, key="k", ranks=others)
        self.assert_alive(kv)

    def test_a_rank_that_has_joined_brings_nothing_to_a_reduce_scatter_and_fails_an_allgather(self):
        kv, count = self.store(log_level="off"), 1001
        ranks, last = kv.num_workers, kv.num_workers - 1
        own = shard(kv, count)
        whole, part = np.arange(count, dtype=np.int32), np.zeros(own.stop - own.start, np.int32)
        if kv.rank != last or ranks == 1:
            kv.reduce_scatter("w", whole, part).wait()
            self.assert_equal(part, max(last, 1) * np.arange(own.start, own.stop))
        if kv.rank != last:
            self.refused(tutti.AbortedError, ["'g'", f"rank {last}", "joined"], kv.allgather, "g", part, whole, key="g")
        kv.join()
        self.assert_alive(kv)
