"""Calls of torch.distributed between two ranks, on tutti; every rank of an MPI job runs all of it."""
import datetime
import random
import unittest

import torch
import torch.distributed as dist

import tutti
from torch_collectives import MOVED
from torch_fixture import Ranks, is_old


class Pairs(Ranks):
    def setUp(self):
        if self.size == 1:
            self.skipTest("a rank alone has nobody to send to")
        self.after, self.before = (self.rank + 1) % self.size, (self.rank - 1) % self.size

    def passed(self, tensor, group=None, tag=0):
        """Receives from the previous rank while this rank sends to the next."""
        got = torch.empty_like(tensor)
        sent = dist.isend(tensor, self.after, group, tag)
        dist.recv(got, self.before, group, tag)
        sent.wait()
        return got

    def test_a_tensor_of_any_dtype_and_size_goes_from_rank_to_rank(self):
        for dtype in MOVED:
            self.same(self.passed(self.mine(dtype=dtype)), self.of(self.before, dtype=dtype))
        for shape in ((), (0, 3), (5,), (700, 1000)):
            self.same(self.passed(self.mine(shape)), self.of(self.before, shape))

    def test_tensors_of_any_strides_are_sent_and_received(self):
        whole = torch.zeros(4, 6)
        sent = dist.isend(self.mine((3, 4)).t(), self.after)
        dist.recv(whole[:, ::2], self.before)
        sent.wait()
        self.same(whole[:, ::2].contiguous(), self.of(self.before, (3, 4)).t().contiguous())
        self.assertEqual(whole[:, 1::2].abs().sum(), 0)

    def test_a_recv_from_any_rank_returns_whose_tensor_it_took(self):
        if not is_old():
            with self.assertRaisesRegex(tutti.UnsupportedError, r"name the rank, or .*new_group\(backend='gloo'\)"):
                dist.recv(torch.zeros(3, 4))
            return
        if self.rank > 0:
            dist.send(self.mine(), 0, tag=4)
            return
        took = []
        for _ in range(1, self.size):
            got = torch.zeros(3, 4)
            source = dist.recv(got, tag=4)
            self.same(got, self.of(source))
            took.append(source)
        self.assertEqual(sorted(took), list(range(1, self.size)))

    def test_tags_keep_tensors_apart(self):
        works = [dist.isend(torch.tensor([10.0 * tag + self.rank]), self.after, tag=tag) for tag in range(4)]
        for tag in reversed(range(4)):
            got = torch.zeros(1)
            dist.recv(got, self.before, tag=tag)
            self.assertEqual(got.item(), 10.0 * tag + self.before)
        for work in works:
            work.wait()

    def test_a_batch_of_sends_and_receives_moves_together(self):
        sent, got = self.mine((100, 7)), torch.zeros(100, 7)
        works = dist.batch_isend_irecv([dist.P2POp(dist.isend, sent, self.after),
                                        dist.P2POp(dist.irecv, got, self.before)])
        for work in works:
            work.wait()
        self.same(got, self.of(self.before, (100, 7)))

    def test_a_group_counts_its_own_ranks(self):
        group = dist.new_group(list(reversed(range(self.size))), **({} if is_old() else {"sort_ranks": False}))
        self.same(self.passed(self.mine(), group), self.of(self.before))

    def test_sends_beside_collectives_in_an_order_of_each_ranks_own(self):
        draw = random.Random(self.rank)
        for _ in range(30):
            total, got = self.mine(), torch.zeros(3, 4)
            calls = [lambda: dist.all_reduce(total, async_op=True), lambda: dist.isend(self.mine((3, 4)), self.after),
                     lambda: dist.irecv(got, self.before)]
            draw.shuffle(calls)
            works = [call() for call in calls]
            draw.shuffle(works)
            for work in works:
                work.wait()
            self.same(total, sum(self.everyones()))
            self.same(got, self.of(self.before))

    def test_a_tensor_of_another_size_is_an_error_on_both_ranks(self):
        if self.rank > 1:
            return
        with self.assertRaisesRegex(tutti.MismatchError, "5 elements of float32"):
            dist.send(torch.ones(6), 1) if self.rank == 0 else dist.recv(torch.ones(5), 0)

    def test_a_future_of_a_recv_has_its_tensor(self):
        got = torch.zeros(3, 4)
        sent = dist.isend(self.mine(), self.after)
        future = dist.irecv(got, self.before).get_future()
        self.same(future.wait()[0], self.of(self.before))
        sent.wait()

    def test_a_recv_that_nobody_answers_times_out_and_names_the_rank(self):
        group = dist.new_group(timeout=datetime.timedelta(seconds=1))
        if self.rank == 0:
            with self.assertRaisesRegex(tutti.TimedOutError, f"rank {self.size - 1} did not make the send"):
                dist.recv(torch.zeros(1), self.size - 1, group)
        dist.barrier()


if __name__ == "__main__":
    unittest.main()
