"""Process groups over some ranks, and their ends; every rank of an MPI job runs all of it."""
import datetime
import gc
import unittest
import weakref

import torch
import torch.distributed as dist

import tutti
from torch_fixture import PATIENCE, Ranks, backend_of, is_old

NEW = "torch 1 does not have it"


class Groups(Ranks):
    def summed(self, group):
        tensor = torch.tensor([self.rank + 1.0])
        dist.all_reduce(tensor, group=group)
        return tensor.item()

    def test_a_group_of_some_ranks_leaves_the_others_out(self):
        members = list(range(0, self.size, 2))
        group = dist.new_group(members)
        if self.rank in members:
            self.assertEqual(self.summed(group), sum(member + 1 for member in members))
            tensor = torch.tensor([float(self.rank)])
            dist.broadcast(tensor, members[-1], group=group)
            self.assertEqual(tensor.item(), members[-1])

    def test_groups_of_one_rank(self):
        groups = [dist.new_group([rank]) for rank in range(self.size)]
        self.assertEqual(self.summed(groups[self.rank]), self.rank + 1)
        dist.barrier(group=groups[self.rank])

    def test_a_group_lives_as_long_as_torch_has_it(self):
        group = dist.new_group()
        gc.collect()
        self.assertEqual(self.summed(group), self.total)

    def test_a_group_that_is_destroyed_is_closed(self):
        group = dist.new_group()
        self.assertEqual(self.summed(group), self.total)
        store = weakref.ref(backend_of(group)._group.kv)
        dist.barrier()
        dist.destroy_process_group(group)
        del group
        gc.collect()
        kv = store()  # an old torch does not tell the group, whose store goes with it
        self.assertTrue(kv is None or ", closed" in repr(kv), kv)
        self.assertEqual(self.summed(None), self.total)

    @unittest.skipIf(is_old(), NEW)
    def test_ranks_of_a_group_keep_the_order_that_is_asked_for(self):
        members = list(reversed(range(self.size)))
        group = dist.new_group(members, sort_ranks=False)
        self.assertEqual(dist.get_group_rank(group, self.rank), self.last - self.rank)
        outputs = [torch.zeros(2) for _ in members]
        dist.all_gather(outputs, torch.full((2,), float(self.rank)), group=group)
        self.assertEqual([output[0].item() for output in outputs], members)
        whole = torch.zeros(self.size, 2)
        dist.all_gather_into_tensor(whole, torch.full((1, 2), float(self.rank)), group=group)
        self.assertEqual(whole[:, 0].tolist(), members)
        mine = torch.zeros(1)
        dist.reduce_scatter_tensor(mine, torch.arange(float(self.size)), group=group)
        self.assertEqual(mine.item(), self.size * (self.last - self.rank))
        got = torch.zeros(1)
        dist.scatter(got, [torch.tensor([10.0 * i]) for i in range(self.size)] if self.rank == 0 else None, 0,
                     group=group)
        self.assertEqual(got.item(), 10.0 * (self.last - self.rank))
        output = torch.zeros(self.size)
        dist.all_to_all_single(output, 10.0 * self.rank + torch.arange(float(self.size)), group=group)
        self.assertEqual(output.tolist(), [10.0 * member + self.last - self.rank for member in members])

    @unittest.skipIf(is_old(), NEW)
    def test_a_group_is_split(self):
        halves = [list(range(0, self.size, 2)), list(range(1, self.size, 2))]
        group = dist.split_group(split_ranks=[half for half in halves if half])
        self.assertEqual(self.summed(group), sum(member + 1 for member in halves[self.rank % 2]))

    @unittest.skipIf(is_old(), NEW)
    def test_groups_of_a_mesh_of_devices(self):
        if self.size % 2:
            self.skipTest("this number of ranks makes no mesh of two columns")
        mesh = dist.device_mesh.init_device_mesh("cpu", (self.size // 2, 2), mesh_dim_names=("row", "column"))
        row = self.rank // 2 * 2
        self.assertEqual(self.summed(mesh.get_group("column")), 2 * row + 3)

    @unittest.skipIf(is_old(), "torch 1 has it for Gloo alone")
    def test_a_monitored_barrier_names_the_ranks_that_do_not_come(self):
        dist.monitored_barrier(timeout=PATIENCE)
        if self.size < 3:
            self.skipTest("with fewer ranks nobody is left to name")
        if self.rank in (0, self.last):
            with self.assertRaisesRegex(tutti.TimedOutError, "rank 1 did not come within 1 s"):
                dist.monitored_barrier(timeout=datetime.timedelta(seconds=1), wait_all_ranks=self.size == 3)
        dist.barrier()
        dist.monitored_barrier(timeout=PATIENCE)
        if self.rank == 1:  # and it gives up on rank 0, which comes to the next
            with self.assertRaisesRegex(tutti.TimedOutError, "rank 0 did not come within 0.5 s"):
                dist.monitored_barrier(timeout=datetime.timedelta(seconds=0.5))
        dist.barrier()
        dist.monitored_barrier(timeout=PATIENCE)
        if self.rank == 0:  # no time is not the group's
            with self.assertRaisesRegex(tutti.TimedOutError, "rank 1 did not come within 0 s"):
                dist.monitored_barrier(timeout=datetime.timedelta(0))
        dist.barrier()
        dist.monitored_barrier(timeout=PATIENCE)


if __name__ == "__main__":
    unittest.main()
