"""all_to_all, and dtypes that are only moved; see contract.py."""
import random

import numpy as np

import tutti
from contract_fixture import DTYPES, Contract, from_bits, handed, numpy_dtype, to_bits


def share(source, target, count):
    """The elements that one rank sends to another."""
    return ((31 * source + 7 * target + np.arange(count)) % 101).astype(np.float64)


def drawn(ranks, most, draw):
    """Random counts by sender and receiver, some of them 0. All ranks draw the same counts."""
    return [[0 if draw.randrange(3) == 0 else draw.randrange(most + 1) for _ in range(ranks)] for _ in range(ranks)]


def equal(ranks, count):
    return [[count] * ranks for _ in range(ranks)]


class Exchange:
    """One all_to_all: its arrays and the expected result."""

    def __init__(self, kv, key, counts, dtype="float32", allocated=False):
        self.kv, self.key, self.counts, self.dtype = kv, key, counts, dtype
        mine = np.concatenate([share(kv.rank, to, count) for to, count in enumerate(counts[kv.rank])])
        self.expected = np.concatenate([share(source, kv.rank, row[kv.rank]) for source, row in enumerate(counts)])

        def make(size):
            return kv.allocate(size, dtype) if allocated else np.zeros(size, numpy_dtype(dtype))
        self.ins, self.outs = make(mine.size), make(self.expected.size)
        self.ins[:] = to_bits(mine, dtype)

    def call(self, priority=0):
        ins, outs = (handed(array, self.dtype) for array in (self.ins, self.outs))
        return self.kv.all_to_all(self.key, ins, outs, self.counts, priority)


class AllToAll(Contract):
    def check(self, exchanges):
        """Starts all exchanges, and then checks all of them."""
        for pending in [exchange.call() for exchange in exchanges]:
            pending.wait()
        for exchange in exchanges:
            self.assert_equal(from_bits(exchange.outs, exchange.dtype), exchange.expected, exchange.key)

    def test_every_rank_gets_the_share_that_each_rank_sends_to_it_whatever_the_sizes_and_the_dtype(self):
        kv, draw = self.store(), random.Random(11)
        self.check([Exchange(kv, f"{dtype} {most}", drawn(kv.num_workers, most, draw), dtype)
                    for dtype in DTYPES for most in (0, 1, 40, 3000)])

    def test_shares_of_many_chunks_arrive_whole_in_shared_memory_or_not(self):
        kv, draw = self.store(), random.Random(12)
        ranks = kv.num_workers
        self.check([Exchange(kv, f"{dtype} {allocated}", counts, dtype, allocated) for allocated in (False, True)
                    for dtype, counts in (("float32", drawn(ranks, 900_000, draw)),
                                          ("float64", equal(ranks, 100_003)))])

    def test_whatever_parts_and_slices_an_all_to_all_is_cut_in_the_shares_are_the_same(self):
        for part_bytes in (0, 1024):
            for slice_bytes in (64, 1024):
                kv, draw = self.store(part_bytes=part_bytes, slice_bytes=slice_bytes), random.Random(13)
                self.check([Exchange(kv, str(most), drawn(kv.num_workers, most, draw), "float64")
                            for most in (3, 499, 5000)])

    def test_a_matrix_with_one_column_gathers_and_one_with_one_row_scatters(self):
        kv = self.store()
        ranks, exchanges = kv.num_workers, []
        for root in range(ranks):
            gather, scatter = np.zeros((ranks, ranks), int), np.zeros((ranks, ranks), int)
            gather[:, root] = [1000 * rank + 5 for rank in range(ranks)]
            scatter[root] = [300 * (ranks - rank) for rank in range(ranks)]
            exchanges.append(Exchange(kv, f"gather {root}", gather, "int32"))
            exchanges.append(Exchange(kv, f"scatter {root}", scatter, "int32"))
        self.check(exchanges)

    def test_the_output_of_an_all_to_all_may_be_its_input(self):
        kv = self.store()
        for count in (3, 70_001):
            exchange = Exchange(kv, "w", equal(kv.num_workers, count))
            exchange.outs = exchange.ins
            self.check([exchange])

    def test_ranks_whose_matrices_of_counts_differ_get_an_error_that_names_them_all_of_them(self):
        kv = self.store(log_level="off")
        last = kv.num_workers - 1
        if last == 0:
            self.skipTest("alone nobody disagrees")
        exchange = Exchange(kv, "w", equal(kv.num_workers, 5 if kv.rank == last else 4))
        self.refused(tutti.MismatchError, ["'w': matrices of counts differ", f"rank {last} passes"], exchange.call,
                     key="w", ranks=[last])
        self.assert_alive(kv)

    def test_tensors_that_do_not_fit_their_matrix_of_counts_are_refused_at_the_call_with_the_sizes(self):
        kv = self.store()
        ranks, counts = kv.num_workers, equal(kv.num_workers, 2)
        right, larger = np.zeros(2 * ranks, np.float32), np.zeros(2 * ranks + 1, np.float32)
        huge = equal(ranks, 2)
        huge[0][0] = 2**62
        for texts, ins, outs, matrix in (
                ([f"rank {kv.rank} sends {2 * ranks} elements"], larger, right, counts),
                ([f"rank {kv.rank} receives {2 * ranks} elements"], right, larger, counts),
                (["same dtype"], right, np.zeros(2 * ranks, np.int32), counts),
                (["pass a matrix of shape"], right, right, [*counts, [2] * ranks]),
                (["a count is -1"], right, right, [[-1] * ranks] * ranks)):
            self.refused(tutti.InvalidArgumentError, ["all_to_all of key 'w'", *texts], kv.all_to_all, "w", ins, outs,
                         matrix)
        if ranks > 1:
            self.refused(tutti.InvalidArgumentError, ["rank 0 sends more than 2^62"], kv.all_to_all, "w", right, right,
                         huge)
        self.assert_alive(kv)

    def test_a_rank_that_has_joined_fails_an_all_to_all(self):
        kv = self.store(log_level="off")
        last = kv.num_workers - 1
        if kv.rank != last:
            exchange = Exchange(kv, "a", equal(kv.num_workers, 4))
            self.refused(tutti.AbortedError, ["'a'", "no shares come", f"rank {last}"], exchange.call, key="a")
        kv.join()
        self.assert_alive(kv)

    def test_between_nodes_what_an_all_to_all_sends_is_what_the_matrix_says_and_nothing_else(self):
        kv, count = self.store(), 50_001

        def over_ranks(number):
            array = np.array(number, np.int64)
            kv.pushpull("sum", array).wait()
            return int(array)
        exchange = Exchange(kv, "w", equal(kv.num_workers, count))
        before = kv.counters().bytes_between_nodes
        self.check([exchange])
        sent = kv.counters().bytes_between_nodes - before
        inside = over_ranks(kv.local_size)  # each rank counts those of its node
        self.assertEqual(over_ranks(sent), (kv.num_workers**2 - inside) * count * 4)

    def test_all_to_alls_and_other_calls_in_a_random_order_on_each_rank_with_priorities_all_come_out_right(self):
        kv, keys = self.store(), range(40)
        ranks = kv.num_workers
        shared, own = random.Random(5), random.Random(kv.rank)
        usual = [drawn(ranks, 20_000 if key % 8 == 0 else 200, shared) for key in keys]
        for turn in range(20):
            # Some matrices change in every turn.
            matrices = [drawn(ranks, 300, shared) if key % 5 == 0 and turn > 10 else usual[key] for key in keys]
            all_of_them = [Exchange(kv, f"a{key}", matrix) for key, matrix in enumerate(matrices)]
            sums = [np.full(10 + 30 * key, kv.rank + 1, np.float32) for key in keys]
            pendings = []
            for at in own.sample(range(2 * len(keys)), 2 * len(keys)):
                key, priority = at % len(keys), own.randrange(10)
                if at < len(keys):
                    pendings.append(all_of_them[key].call(priority))
                elif key % 4 == 0:
                    pendings.append(kv.broadcast(f"s{key}", sums[key], 0, priority))
                else:
                    pendings.append(kv.pushpull(f"s{key}", sums[key], priority=priority))
            for pending in pendings:
                pending.wait()
            for key in keys:
                self.assert_equal(all_of_them[key].outs, all_of_them[key].expected.astype(np.float32))
                self.assert_equal(sums[key], 1 if key % 4 == 0 else ranks * (ranks + 1) // 2)

    def test_a_rank_that_passes_no_output_contributes_to_a_pushpull_and_gets_nothing(self):
        kv = self.store()
        ranks = kv.num_workers
        for count in (3, 300_000):
            for root in range(ranks):
                values = np.full(count, kv.rank + 1, np.float32)
                kv.pushpull("w", values, values if kv.rank == root else []).wait()
                self.assert_equal(values, ranks * (ranks + 1) // 2 if kv.rank == root else kv.rank + 1)

    def test_elements_that_cannot_be_added_are_moved_as_they_are_and_refused_where_they_would_be_added(self):
        kv = self.store()
        ranks, last = kv.num_workers, kv.num_workers - 1
        for dtype in ("bool", "int16", "uint16", "uint32", "uint64", "complex64", "complex128", "datetime64[s]"):
            def of(rank, dtype=dtype):
                return (np.arange(6 * ranks) * 7 + rank).astype(np.int64).astype(dtype)
            told, shares, wholes = of(kv.rank), np.zeros(6 * ranks, dtype), np.zeros(6 * ranks, dtype)
            for pending in (kv.broadcast(f"told {dtype}", told, last),
                            kv.all_to_all(f"shares {dtype}", of(kv.rank), shares, equal(ranks, 6)),
                            kv.allgather(f"wholes {dtype}", of(kv.rank)[:6], wholes)):
                pending.wait()
            self.assert_equal(told, of(last))
            for rank in range(ranks):
                self.assert_equal(shares[6 * rank:6 * rank + 6], of(rank)[6 * kv.rank:6 * kv.rank + 6])
                self.assert_equal(wholes[6 * rank:6 * rank + 6], of(rank)[:6])
            self.refused(tutti.InvalidArgumentError,
                         [f"dtype {dtype} cannot be added", "broadcast, allgather and all_to_all"],
                         kv.pushpull, "sum", told)
        self.assert_alive(kv)


class Rows(Contract):
    def test_a_rank_that_knows_its_own_row_alone_passes_it_and_the_rows_are_gathered(self):
        kv = self.store()
        counts = drawn(kv.num_workers, 50, random.Random(3))
        for turn in range(3):
            exchange = Exchange(kv, f"w{turn % 2}", counts)
            exchange.counts = counts[kv.rank]
            exchange.call().wait()
            self.assert_equal(exchange.outs, exchange.expected.astype(np.float32))
