"""The calls of torch.distributed on tutti, one by one; every rank of an MPI job runs all of it."""
import functools
import operator
import random
import threading
import time
import unittest

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp

import tutti
from torch_fixture import PATIENCE, Ranks, backend_of, is_old

#: The store moves tensors of any dtype.
MOVED = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int16, torch.int32,
         torch.int64, torch.bool, torch.complex64)


class Reducing(Ranks):
    def test_every_operation_gives_all_ranks_what_torch_computes_alone(self):
        rows = torch.stack(self.everyones(dtype=torch.int64))
        for operation, expected in ((ReduceOp.SUM, rows.sum(0)), (ReduceOp.MIN, rows.amin(0)),
                                    (ReduceOp.MAX, rows.amax(0)), (ReduceOp.PRODUCT, rows.prod(0)),
                                    (ReduceOp.BAND, functools.reduce(operator.and_, rows)),
                                    (ReduceOp.BOR, functools.reduce(operator.or_, rows)),
                                    (ReduceOp.BXOR, functools.reduce(operator.xor, rows))):
            tensor = self.mine(dtype=torch.int64)
            dist.all_reduce(tensor, operation)
            self.same(tensor, expected)

    def test_an_average_is_the_sum_over_the_number_of_ranks(self):
        tensor = self.mine()
        dist.all_reduce(tensor, ReduceOp.AVG)
        torch.testing.assert_close(tensor, torch.stack(self.everyones()).mean(0))

    def test_the_factor_of_premul_sum_multiplies_before_the_sum(self):
        operation, tensor = dist._make_nccl_premul_sum(0.5), self.mine()
        if is_old():
            with self.assertRaisesRegex(tutti.UnsupportedError, "does not tell its factor; multiply the tensor"):
                dist.all_reduce(tensor, operation)
            return
        dist.all_reduce(tensor, operation)
        self.same(tensor, sum(self.everyones()) / 2)

    def test_tensors_of_any_strides_are_reduced_in_place(self):
        tensor = self.mine((4, 3)).t()
        dist.all_reduce(tensor)
        self.same(tensor, sum(self.everyones((4, 3))).t())
        scalar = torch.tensor(self.rank + 1.0)
        dist.all_reduce(scalar)
        self.same(scalar, torch.tensor(float(self.total)))
        parameter = torch.nn.Parameter(self.mine())
        dist.all_reduce(parameter)
        self.same(parameter.detach(), sum(self.everyones()))

    def test_a_dtype_that_cannot_be_added_is_refused_with_what_to_do(self):
        for dtype in (torch.bool, torch.int16):
            with self.assertRaisesRegex(tutti.InvalidArgumentError,
                                        r"convert it: tensor.to.*, and copy the result back: tensor\.copy_\(result\)"):
                dist.all_reduce(self.mine(dtype=dtype))

    def test_a_sparse_tensor_is_refused_with_what_to_do(self):
        with self.assertRaisesRegex(tutti.UnsupportedError, r"make this one dense with tensor.to_dense\(\)"):
            dist.all_reduce(torch.eye(3).to_sparse())

    def test_reduce_changes_the_roots_tensor_alone(self):
        for root in (0, self.last):
            tensor = self.mine()
            dist.reduce(tensor, root)
            self.same(tensor, sum(self.everyones()) if self.rank == root else self.mine())

    def test_reduce_scatter_gives_each_rank_its_row(self):
        for operation, expected in ((ReduceOp.SUM, sum(self.everyones((self.size, 6)))[self.rank]),
                                    (ReduceOp.PRODUCT, torch.stack(self.everyones((self.size, 6))).prod(0)[self.rank])):
            output = torch.zeros(6)
            dist.reduce_scatter(output, list(self.mine((self.size, 6))), operation)
            self.same(output, expected)

    def test_reduce_scatter_takes_rows_of_several_sizes(self):
        output = torch.zeros(self.rank + 1)
        dist.reduce_scatter(output, [torch.full((rank + 1,), self.rank + 1.0) for rank in range(self.size)])
        self.same(output, torch.full((self.rank + 1,), float(self.total)))

    def test_reduce_scatter_of_one_tensor_under_all_its_names(self):
        for name in ("_reduce_scatter_base", "reduce_scatter_tensor", "reduce_scatter_single"):
            call = getattr(dist, name, None)
            if call is not None:
                output = torch.zeros(2, 3)
                call(output, self.mine((2 * self.size, 3)))
                self.same(output, sum(self.everyones((2 * self.size, 3)))[2 * self.rank:2 * self.rank + 2])

    def test_coalesced_tensors_are_reduced_each(self):
        tensors = [self.mine((2, 2)), self.mine((5,))]
        dist.all_reduce_coalesced(tensors)
        for tensor in tensors:
            self.same(tensor, sum(self.everyones(tensor.shape)))


class Moving(Ranks):
    def test_broadcast_brings_the_roots_tensor_of_any_dtype(self):
        for dtype in MOVED:
            for root in (0, self.last):
                tensor = self.mine(dtype=dtype)
                dist.broadcast(tensor, root)
                self.same(tensor, self.of(root, dtype=dtype))

    def test_a_state_dict_with_buffers_of_any_dtype_is_broadcast(self):
        module = torch.nn.BatchNorm1d(4)
        module.register_buffer("mask", torch.tensor([True, False, self.rank == 0]))
        module.running_mean.fill_(self.rank + 1)
        tutti.torch.broadcast_parameters(module.state_dict())
        self.same(module.mask, torch.tensor([True, False, True]))
        self.same(module.running_mean, torch.ones(4))

    def test_all_gather_brings_every_ranks_tensor_of_any_dtype(self):
        for dtype in MOVED:
            outputs = [torch.zeros(3, 4, dtype=dtype) for _ in range(self.size)]
            dist.all_gather(outputs, self.mine(dtype=dtype))
            for output, expected in zip(outputs, self.everyones(dtype=dtype)):
                self.same(output, expected)

    def test_all_gather_takes_tensors_of_several_sizes(self):
        outputs = [torch.zeros(rank + 1) for rank in range(self.size)]
        dist.all_gather(outputs, self.mine((self.rank + 1,)))
        for rank, output in enumerate(outputs):
            self.same(output, self.of(rank, (rank + 1,)))

    def test_all_gather_into_one_tensor_under_all_its_names(self):
        for name in ("_all_gather_base", "all_gather_into_tensor", "all_gather_single"):
            call = getattr(dist, name, None)
            if call is not None:
                output = torch.zeros(2 * self.size, 3)
                call(output, self.mine((2, 3)))
                self.same(output, torch.cat(self.everyones((2, 3))))

    def test_gather_brings_all_tensors_to_the_root_alone(self):
        for root in (0, self.last):
            outputs = [torch.zeros(3, 4) for _ in range(self.size)] if self.rank == root else None
            dist.gather(self.mine(), outputs, root)
            for output, expected in zip(outputs or [], self.everyones()):
                self.same(output, expected)

    def test_scatter_gives_each_rank_its_tensor(self):
        for dtype in (torch.float32, torch.bool):
            for root in (0, self.last):
                output = torch.zeros(3, 4, dtype=dtype)
                dist.scatter(output, self.everyones(dtype=dtype) if self.rank == root else None, root)
                self.same(output, self.mine(dtype=dtype))

    def exchanged_with_lists(self, memory):
        """Makes every call that takes a list, all in flight together, twice, with tensors out of `memory(shape)`."""
        shape = (self.size, 1 << 17)
        rows = [row + turn for turn in (0, 100) for row in self.everyones(shape)]
        for first in (0, self.size):
            mine, root = rows[first + self.rank], self.last
            is_root = self.rank == root
            gathered, scattered, reduced = memory(shape), torch.zeros(shape[1]), torch.zeros(shape[1])
            exchanged, everyones = memory(shape), memory(shape)
            told = memory(shape)
            for ours, row in zip(told, mine):
                ours.copy_(row)
            works = [dist.gather(mine[0], gathered if is_root else None, root, async_op=True),
                     dist.scatter(scattered, told if is_root else None, root, async_op=True),
                     dist.all_gather(everyones, mine[1 % self.size], async_op=True),
                     dist.reduce_scatter(reduced, told, async_op=True),
                     dist.all_to_all(exchanged, told, async_op=True)]
            for work in reversed(works):
                work.wait()
            theirs = rows[first:first + self.size]
            self.same(torch.stack(gathered), torch.stack([row[0] for row in theirs]) * (1 if is_root else 0))
            self.same(scattered, theirs[root][self.rank])
            self.same(torch.stack(everyones), torch.stack([row[1 % self.size] for row in theirs]))
            self.same(reduced, sum(theirs)[self.rank])
            self.same(torch.stack(exchanged), torch.stack([row[self.rank] for row in theirs]))

    def kept_after_lists(self, memory, least):
        """The bytes that the group keeps afterwards, as soon as they are the least, or after a while."""
        group = backend_of(dist.distributed_c10d._get_default_group())._group
        group.scratch.drop()
        self.exchanged_with_lists(memory)
        call, end = group.barrier(torch.zeros(1)), time.monotonic() + PATIENCE.total_seconds()
        while group.scratch.kept() < least and time.monotonic() < end:
            call.done()  # the package lets go of arrays then
        return group.scratch.kept()

    def test_lists_of_large_tensors_side_by_side_are_exchanged_in_place(self):
        self.assertEqual(self.kept_after_lists(lambda shape: list(torch.zeros(shape)), 0), 0)

    def test_lists_of_large_tensors_apart_are_exchanged_through_memory_that_the_group_keeps(self):
        """Each result holds its memory until the program waits for it; lists that are only read may share memory."""
        results, read = (3, 3) if self.rank == self.last else (2, 2)  # the last rank is the root
        one = self.size << 19 if self.size > 1 else 0
        kept = self.kept_after_lists(lambda shape: [torch.zeros(shape[1]) for _ in range(shape[0])],
                                     (results + 1) * one)
        self.assertIn(kept, range((results + 1) * one, (results + read) * one + 1))

    def test_the_roots_own_tensor_may_be_the_one_that_it_lists(self):
        rows = list(torch.zeros(self.size, 6))
        rows[self.rank].copy_(self.mine((6,)))
        dist.gather(rows[self.rank], rows if self.rank == 0 else None)
        self.same(torch.stack(rows), torch.stack(self.everyones((6,))) if self.rank == 0 else torch.stack(rows))
        rows = list(torch.stack(self.everyones((6,))))
        dist.scatter(rows[self.rank], rows if self.rank == 0 else None)
        self.same(rows[self.rank], self.mine((6,)))

    def test_a_list_whose_tensors_have_several_sizes_is_refused_by_the_root(self):
        if self.size > 1:
            self.skipTest("the others would wait for it")
        with self.assertRaisesRegex(ValueError, "have 2, 3 elements, its own counted; all must have as many"):
            dist.gather(torch.zeros(2), [torch.zeros(3)])

    def sent(self, source, target, rows):
        """The elements that one rank has for another."""
        return torch.full((rows, 2), 10.0 * source + target)

    def test_all_to_all_with_equal_shares(self):
        output = torch.zeros(2 * self.size, 2)
        dist.all_to_all_single(output, torch.cat([self.sent(self.rank, to, 2) for to in range(self.size)]))
        self.same(output, torch.cat([self.sent(source, self.rank, 2) for source in range(self.size)]))

    def test_all_to_all_with_unequal_shares(self):
        def rows(source, target):
            return (source + 2 * target) % 3  # none, too
        sent = [self.sent(self.rank, to, rows(self.rank, to)) for to in range(self.size)]
        expected = [self.sent(source, self.rank, rows(source, self.rank)) for source in range(self.size)]
        output = torch.zeros_like(torch.cat(expected))
        dist.all_to_all_single(output, torch.cat(sent), [len(part) for part in expected], [len(part) for part in sent])
        self.same(output, torch.cat(expected))
        outputs = [torch.zeros_like(part) for part in expected]
        dist.all_to_all(outputs, sent)
        for got, part in zip(outputs, expected):
            self.same(got, part)

    def refused_all_to_all(self, text, output, tensor, splits=None):
        """Checks that all ranks get the error, and go on."""
        for is_async in (False, True):
            with self.assertRaisesRegex(tutti.MismatchError, f"{text}; pass split sizes or lists"):
                dist.all_to_all_single(output, tensor, splits, splits, async_op=is_async).wait()
        dist.barrier()

    def test_all_to_all_of_ranks_that_pass_split_sizes_and_others_that_pass_none_is_an_error_that_names_them(self):
        if self.size == 1:
            self.skipTest("alone nobody disagrees")
        told = self.rank == self.last
        self.refused_all_to_all(f"calls differ: .* all_to_all, rank {self.last} calls allgather",
                                torch.zeros(self.size, 2), self.mine((self.size, 2)), [1] * self.size if told else None)

    def test_all_to_all_of_ranks_whose_tensors_have_several_sizes_is_an_error_that_names_them(self):
        if self.size == 1:
            self.skipTest("alone nobody disagrees")
        rows = 2 * self.size if self.rank == self.last else self.size
        self.refused_all_to_all(f"matrices of counts differ: .*rank {self.last} passes one of hash [0-9a-f]*",
                                torch.zeros(rows), torch.zeros(rows))
        with self.assertRaisesRegex(ValueError, "the input has .* elements, and the output .*; make both of one size"):
            dist.all_to_all_single(torch.zeros(self.size), torch.zeros(2 * self.size))

    def test_all_to_all_of_any_dtype_and_strides(self):
        for dtype in MOVED:
            rows = self.everyones((self.size, 3), dtype)
            output = torch.zeros((3, self.size), dtype=dtype).t()
            dist.all_to_all_single(output, rows[self.rank].t().contiguous().t())
            self.same(output, torch.stack([row[self.rank] for row in rows]))

    def test_all_to_all_whose_split_sizes_do_not_fit_is_an_error_on_all_ranks(self):
        if self.size == 1:
            self.skipTest("alone nobody disagrees")
        rows = [1] * self.size
        rows[0] += self.rank == 1  # rank 0 does not expect it
        with self.assertRaisesRegex(tutti.MismatchError, "rank 1 sends 4 elements to rank 0, which expects 2"):
            dist.all_to_all_single(torch.zeros(self.size, 2), torch.zeros(sum(rows), 2), None, rows)
        dist.barrier()

    def test_split_sizes_that_do_not_fit_a_tensor_are_an_error_on_all_ranks_at_once(self):
        if self.size == 1:
            self.skipTest("alone nobody disagrees")
        right, rows = [1] * self.size, torch.zeros(self.size, 2)
        for wrong in ([1] * (self.size - 1) + [2], [1] * (self.size + 1), [2, -1, *[1] * (self.size - 2)]):
            kind, text = tutti.MismatchError, f"all_to_all: rank {self.last} raises ValueError"
            if self.rank == self.last:
                kind, text = ValueError, f"the output has the split sizes .* pass {self.size} numbers of at least 0"
            with self.assertRaisesRegex(kind, text):
                dist.all_to_all_single(torch.zeros_like(rows), rows, wrong if self.rank == self.last else right, right)
        dist.barrier()

    def test_lists_and_tensors_of_a_wrong_size_are_refused_before_the_call_begins(self):
        row, whole, rows = torch.zeros(3), torch.zeros(3 * self.size + 1), [torch.zeros(3)] * (self.size + 1)
        for text, call in (("one rank 3; pass one of", lambda: dist.all_gather_into_tensor(whole, row)),
                           ("one rank 3; pass one of", lambda: dist.reduce_scatter_tensor(row, whole)),
                           (f"has {self.size + 1} tensors; pass one for each", lambda: dist.all_gather(rows, row)),
                           (f"has {self.size + 1} tensors; pass one for each", lambda: dist.reduce_scatter(row, rows)),
                           (f"output list has {self.size + 1}, and", lambda: dist.all_to_all(rows, rows))):
            with self.assertRaisesRegex((ValueError, RuntimeError), text):  # some torchs look first
                call()
        dist.barrier()

    def test_tensors_of_more_dimensions_than_the_store_has_are_exchanged(self):
        shape = (1,) * 8 + (3, 2)
        tensor, strided, whole = self.mine(shape), self.mine(shape).transpose(8, 9), torch.zeros(self.size, *shape)
        dist.all_reduce(tensor)
        self.same(tensor, sum(self.everyones(shape)))
        dist.broadcast(strided, self.last)
        self.same(strided, self.everyones(shape)[self.last].transpose(8, 9))
        dist.all_gather(list(whole), self.mine(shape))
        self.same(whole, torch.stack(self.everyones(shape)))

    def test_a_default_device_is_not_where_the_group_has_its_memory(self):
        if is_old():
            self.skipTest("torch 1 has no default device")
        rows = [torch.zeros(1 << 18) for _ in range(self.size)]
        mine = torch.full((1 << 18,), 1.0 + self.rank)
        with torch.device("meta"):
            dist.barrier()
            dist.all_gather(rows, mine)
        self.assertEqual([row[-1].item() for row in rows], [1.0 + rank for rank in range(self.size)])

    def test_objects_travel(self):
        objects = [None] * self.size
        dist.all_gather_object(objects, {"rank": self.rank, "text": "x" * 10 ** self.rank})
        self.assertEqual([one["rank"] for one in objects], list(range(self.size)))
        told = [("from", self.last)] if self.rank == self.last else [None]
        dist.broadcast_object_list(told, self.last)
        self.assertEqual(told, [("from", self.last)])
        gathered = [None] * self.size if self.rank == 0 else None
        dist.gather_object({self.rank}, gathered)
        self.assertEqual(gathered, [{rank} for rank in range(self.size)] if self.rank == 0 else None)
        got = [None]
        dist.scatter_object_list(got, [f"for {rank}" for rank in range(self.size)] if self.rank == 0 else None)
        self.assertEqual(got, [f"for {self.rank}"])


class Waiting(Ranks):
    def test_calls_of_one_signature_are_in_flight_together_and_each_gets_its_own_result(self):
        tensors = [torch.full((1000,), float(i * (self.rank + 1))) for i in range(50)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        for work in reversed(works):
            work.wait()
        for i, tensor in enumerate(tensors):
            self.same(tensor, torch.full((1000,), float(i * self.total)))

    def test_a_future_has_the_result_and_what_is_chained_to_it_may_wait_for_another(self):
        def chained(done):
            other = dist.all_reduce(done.value()[0], async_op=True).get_future()
            return other.wait()[0] + 1
        future = dist.all_reduce(self.mine(), async_op=True).get_future().then(chained)
        self.same(future.wait(), sum(self.everyones()) * self.size + 1)

    def test_functions_that_are_chained_to_many_futures_make_their_calls_in_the_programs_order_on_all_ranks(self):
        def chained(done):
            return dist.all_reduce(done.value()[0].clone(), async_op=True).get_future().wait()[0]
        futures = [dist.all_reduce(torch.full((100,), 1.0 + turn), async_op=True).get_future().then(chained)
                   for turn in range(20)]
        for turn, future in enumerate(futures):
            self.same(future.wait(), torch.full((100,), (1.0 + turn) * self.size ** 2))

    def test_a_callback_of_a_call_of_the_store_may_wait_for_calls_in_line(self):
        group, results = backend_of(dist.distributed_c10d._get_default_group())._group, []
        is_done = threading.Event()

        def wait_for_many(_):
            for work in [dist.all_reduce(self.mine(), async_op=True) for _ in range(8)]:
                results.append(work.wait())
            is_done.set()
        group.kv.pushpull("before many", self.mine()).then(wait_for_many)
        self.assertTrue(is_done.wait(PATIENCE.total_seconds()))
        self.assertEqual(len(results), 8)

    def test_a_tensor_can_be_resized_after_a_call(self):
        tensor = self.mine()
        dist.all_reduce(tensor)
        tensor.resize_(50, 50).fill_(1)
        (tensor.storage() if is_old() else tensor.untyped_storage()).resize_(0)

    def test_a_call_that_is_done_says_so(self):
        work = dist.all_reduce(self.mine(), async_op=True)
        self.assertTrue(work.wait())
        if is_old():
            self.assertTrue(work.is_completed())
            self.assertTrue(work.is_success())

    def test_a_call_that_says_that_it_is_done_has_its_results(self):
        if not is_old():
            self.skipTest("torch 2 hands out a Work of its own, which never says so")
        outputs = [torch.zeros(3, 4) for _ in range(self.size)]
        work = dist.all_gather(outputs, self.mine(), async_op=True)
        end = time.monotonic() + PATIENCE.total_seconds()
        while not work.is_completed():
            self.assertLess(time.monotonic(), end)
            time.sleep(0.001)
        for got, wanted in zip(outputs, self.everyones()):
            self.same(got, wanted)

    def test_a_barrier_holds_all_until_the_last_has_come(self):
        dist.barrier()
        work = dist.barrier(async_op=True)
        work.wait()

    def call(self, kind, number):
        """Makes a call. Returns (its Work, its output, the expected values)."""
        shape = (self.size, 1 + number % 5)
        rows = [number + row for row in self.everyones(shape)]
        mine = rows[self.rank].clone()
        if kind == "all_reduce":
            return dist.all_reduce(mine, async_op=True), mine, sum(rows)
        if kind == "broadcast":
            root = number % self.size
            return dist.broadcast(mine, root, async_op=True), mine, rows[root]
        if kind == "all_gather":
            outputs = [torch.zeros(shape) for _ in rows]
            return dist.all_gather(outputs, mine, async_op=True), outputs, rows
        output = torch.zeros(shape)
        if kind == "all_to_all":
            return dist.all_to_all_single(output, mine, async_op=True), output, torch.stack(rows)[:, self.rank]
        output = output[0].clone()
        return dist.reduce_scatter(output, list(mine), async_op=True), output, sum(rows)[self.rank]

    def test_calls_of_all_kinds_in_any_order_that_each_rank_waits_for_in_an_order_of_its_own(self):
        calls, waits, open_calls = random.Random(1), random.Random(self.rank), []
        for number in range(600):
            kind = calls.choice(("all_reduce", "broadcast", "all_gather", "all_to_all", "reduce_scatter"))
            open_calls.append((kind, *self.call(kind, number)))
            while open_calls and (waits.random() < 0.5 or len(open_calls) > 30 or number == 599):
                kind, work, output, expected = open_calls.pop(waits.randrange(len(open_calls)))
                work.wait()
                for got, wanted in zip(output, expected):
                    self.assertTrue(torch.equal(got, wanted), f"{kind}: {got} and not {wanted}")

    def test_keys_come_again(self):
        before = self.keys()
        for _ in range(20):
            dist.all_reduce(self.mine((7,)))
        self.assertEqual(len(self.keys() - before), 4)
        self.assertIn("allreduce float32 [7] #3", self.keys())

    def keys(self):
        return set(backend_of(dist.distributed_c10d._get_default_group())._group.calls._last)


if __name__ == "__main__":
    unittest.main()
