"""Stores over some of the job's ranks. A rank that is in no group of a test goes on to the next test; see contract.py.
"""
import contextlib
import random
import time

import numpy as np

import tutti
from contract_fixture import Contract, make_store, sums, values
from package_fixture import Beside


class Groups(Contract):
    @classmethod
    def setUpClass(cls):
        with make_store() as kv:
            cls.rank, cls.size = kv.rank, kv.num_workers

    def exchange(self, kv, ranks, turns, salt):
        """Exchanges arrays of many sizes, in a random order of this rank's own. Each rank contributes its number in the
        job.
        """
        own = random.Random(1000 * salt + self.rank)
        for turn in range(turns):
            arrays = {key: values(self.rank, key, turn, 1 + 97 * key * key) for key in own.sample(range(24), 24)}
            for pending in [kv.pushpull(key, array) for key, array in arrays.items()]:
                pending.wait()
            for key, array in arrays.items():
                self.assert_equal(array, sums(ranks, key, turn, array.size))

    def mesh(self, rows, columns):
        """The ranks of this rank's row and column in the mesh. A rank outside the mesh has none."""
        if self.rank >= rows * columns:
            return [], []
        row, column = divmod(self.rank, columns)
        return [row * columns + i for i in range(columns)], [i * columns + column for i in range(rows)]

    def test_a_group_sums_over_its_own_ranks_which_are_0_1_in_it(self):
        odd = list(range(1, self.size, 2))
        if self.rank not in odd:
            return
        kv = self.store(ranks=reversed(odd))
        self.assertEqual((kv.rank, kv.num_workers), (self.rank // 2, len(odd)))
        self.exchange(kv, odd, 3, 1)
        mine = np.array(float(self.rank))
        kv.broadcast(1000, mine, kv.num_workers - 1).wait()
        self.assertEqual(mine, odd[-1])
        kv.barrier()
        self.assertIn(kv.join(), range(kv.num_workers))

    def test_rows_and_columns_of_a_mesh_are_busy_at_once_from_a_thread_each(self):
        for rows, columns in ((1, 2), (2, 2), (2, 3), (4, 2)):
            row, column = self.mesh(rows, columns)
            if self.size < rows * columns or not row:
                continue
            with make_store(ranks=row) as along, make_store(ranks=column) as across:
                with Beside(lambda kv=along, ranks=row: self.exchange(kv, ranks, 10, 2)):
                    self.exchange(across, column, 10, 3)

    def test_threads_may_create_stores_over_different_groups_at_the_same_time(self):
        row, column = self.mesh(2, 2)
        if self.size < 4 or not row:
            return

        def use(ranks, salt):
            with make_store(ranks=ranks) as kv:
                self.exchange(kv, ranks, 1, salt)
        for _ in range(5):
            # No order holds between the two: half of the ranks come to the row first.
            with Beside(lambda: use(row, 4)):
                use(column, 5)

    def test_sixteen_groups_live_side_by_side_and_each_sums_for_itself(self):
        shared, stores = random.Random(7), []
        for group in range(16):
            ranks = [rank for rank in range(self.size) if shared.randrange(2) or rank == group % self.size]
            if self.rank in ranks:
                stores.append((self.store(ranks=ranks), ranks))
        for salt, (kv, ranks) in enumerate(stores):
            self.exchange(kv, ranks, 2, 100 + salt)

    def test_sixteen_groups_move_data_at_once_from_a_thread_each(self):
        if self.size < 2:
            return
        stores, count = [], max(2, (self.size + 1) // 2)
        for group in range(16):
            # Each group has the same number of ranks, side by side around a ring, and so shares ranks with other
            # groups.
            ranks = sorted((group + i) % self.size for i in range(count))
            if self.rank in ranks:
                stores.append((self.store(ranks=ranks), ranks))
        with contextlib.ExitStack() as threads:
            for salt, (kv, ranks) in enumerate(stores):
                threads.enter_context(Beside(self.exchange, kv, ranks, 2, 200 + salt))

    def test_groups_are_created_and_closed_while_the_store_over_all_ranks_moves_data(self):
        everyone = self.store()
        with Beside(lambda: self.exchange(everyone, range(self.size), 30, 6)):
            for turn in range(4):
                half = list(range(turn % 2, self.size, 2))
                if self.rank in half:
                    with make_store(ranks=half) as kv:
                        self.exchange(kv, half, 2, 7)

    def test_the_same_ranks_create_one_store_after_the_other_and_several_at_once(self):
        if self.size < 2 or self.rank > 1:
            return
        for _ in range(3):
            with make_store(ranks=[0, 1]) as first, make_store(ranks=[0, 1]) as second:
                self.exchange(second, [0, 1], 2, 8)
                self.exchange(first, [0, 1], 2, 9)

    def test_a_group_of_one_rank_exchanges_with_itself_and_needs_nobody(self):
        # The ranks come to it one after the other, each while the others do something else.
        time.sleep(0.02 * self.rank)
        kv = self.store(ranks=[self.rank])
        self.assertEqual((kv.rank, kv.num_workers, kv.type), (0, 1, "dist_sync_mpi"))
        self.exchange(kv, [self.rank], 2, 10)
        kv.barrier()
        self.assertEqual(kv.join(), 0)
        shared, other = kv.allocate(16), kv.allocate(16)
        shared[:] = 2
        kv.pushpull(1000, shared, [shared, other]).wait()
        self.assert_equal(other, np.full(16, 2))
        self.refused(tutti.UnsupportedError, ["init"], kv.init, 1, shared)

    def test_a_list_of_ranks_that_cannot_be_is_refused_and_creates_nothing(self):
        cases = {f"the job's ranks are 0 to {self.size - 1}": [self.rank, self.size], "-1": [self.rank, -1],
                 "each once": [self.rank, self.rank]}
        if self.size > 1:
            cases[f"rank {self.rank} creates a store over"] = [(self.rank + 1) % self.size]
        for text, ranks in cases.items():
            self.refused(tutti.InvalidArgumentError, [text], lambda ranks=ranks: make_store(ranks=ranks))
        with make_store() as kv:
            self.assert_alive(kv)

    def test_a_group_whose_other_ranks_do_not_come_times_out_and_can_be_created_later(self):
        if self.size < 2 or self.rank > 1:
            return
        if self.rank == 0:
            self.refused(tutti.TimedOutError, ["create_timeout"],
                         lambda: make_store(ranks=[0, 1], create_timeout=0.3))
        else:
            time.sleep(0.6)
        with make_store(ranks=[0, 1]) as kv:
            self.exchange(kv, [0, 1], 1, 11)
