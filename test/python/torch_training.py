"""Training on tutti against training on Gloo, and n processes against one; every rank of an MPI job runs all of it."""
import tempfile
import unittest

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

import tutti.torch
from torch_fixture import Ranks, backend_of, is_old

NEW = "torch 1 does not have it"
STEPS = 4


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 2))


def plain_network():
    """Without a layer that mixes the examples of a batch."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))


def batch_of(step, count):
    generator = torch.Generator().manual_seed(step)
    return torch.randn(count, 8, generator=generator), torch.randint(2, (count,), generator=generator)


class Trainings(Ranks):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.gloo = dist.new_group(backend="gloo")

    def close(self, ones, others, atol=1e-6):
        for one, other in zip(ones, others):
            if self.size == 2 and atol == 1e-6:  # a sum of two is the same in any order
                self.same(one, other)
            torch.testing.assert_close(one, other, atol=atol, rtol=atol)

    def trained(self, model, optimizer=None, count=8, step=None):
        """The weights after some steps on this rank's share of each batch."""
        optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        for number in range(STEPS):
            images, labels = batch_of(number, count * self.size)
            share = slice(self.rank * count, (self.rank + 1) * count)
            optimizer.zero_grad()
            (step or self.one_step)(model, images[share], labels[share])
            optimizer.step()
        return [weight.detach() for weight in model.parameters()]

    def one_step(self, model, images, labels):
        nn.functional.cross_entropy(model(images), labels).backward()


class Parallel(Trainings):
    def test_ddp_learns_what_it_learns_on_gloo(self):
        on_gloo = self.trained(DistributedDataParallel(network(), process_group=self.gloo))
        self.close(self.trained(DistributedDataParallel(network())), on_gloo)

    def test_ddp_learns_what_one_process_learns_whose_batch_is_all_of_theirs(self):
        def accumulated(model, images, labels):
            half = len(labels) // 2
            with model.no_sync():
                nn.functional.cross_entropy(model(images[:half]), labels[:half]).div(2).backward()
            nn.functional.cross_entropy(model(images[half:]), labels[half:]).div(2).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)

        def alone(model, *_):
            images, labels = batch_of(self.number, 8 * self.size)
            self.number += 1
            nn.functional.cross_entropy(model(images), labels).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        self.number = 0
        self.close(self.trained(DistributedDataParallel(plain_network()), step=accumulated),
                   self.trained(plain_network(), step=alone), atol=1e-4)

    def test_ddp_under_autocast_in_bfloat16(self):
        def step(model, images, labels):
            with torch.autocast("cpu", torch.bfloat16):
                scores = model(images)
            nn.functional.cross_entropy(scores.float(), labels).backward()
        self.close(self.trained(DistributedDataParallel(network()), step=step),
                   self.trained(DistributedDataParallel(network(), process_group=self.gloo), step=step))

    def test_gradients_that_travel_in_fewer_bits_are_close(self):
        whole = self.trained(DistributedDataParallel(plain_network()))
        for wire in ("bf16", "fp16"):
            model = DistributedDataParallel(plain_network())
            model.register_comm_hook(None, tutti.torch.ddp_hook(wire=wire))
            half = self.trained(model)
            self.close(half, whole, atol=0.05)
            self.assertFalse(all(torch.equal(*pair) for pair in zip(half, whole)), "and they have been rounded")
        with self.assertRaisesRegex(tutti.InvalidArgumentError, "travel in 'bf16' or 'fp16', not in 'f32'"):
            tutti.torch.ddp_hook(wire="f32")

    def test_a_hook_of_torchs_own_waits_within_the_futures(self):
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powers
        learnt = []
        for group in (None, self.gloo):
            model = DistributedDataParallel(network(), process_group=group)
            model.register_comm_hook(powers.PowerSGDState(group, start_powerSGD_iter=2), powers.powerSGD_hook)
            learnt.append(self.trained(model))
        self.close(*learnt)

    def test_an_optimizer_whose_state_is_cut_into_shards(self):
        learnt = []
        for group in (None, self.gloo):
            # Adam makes much of little: of a bias before a BatchNorm the gradient is nothing but rounding.
            model = DistributedDataParallel(plain_network(), process_group=group)
            optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01, process_group=group)
            learnt.append(self.trained(model, optimizer))
        self.close(*learnt)

    def test_an_optimizers_state_is_handed_to_all(self):
        model = plain_network()
        optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (self.rank + 1))
        if self.rank == 0:
            self.one_step(model, *batch_of(0, 8))
            optimizer.step()
        tutti.torch.broadcast_optimizer_state(optimizer)
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.1)
        reference = plain_network()
        other = torch.optim.Adam(reference.parameters(), lr=0.1)
        self.one_step(reference, *batch_of(0, 8))
        other.step()
        for one, two in zip(optimizer.state_dict()["state"].values(), other.state_dict()["state"].values()):
            self.same(one["exp_avg"], two["exp_avg"])


@unittest.skipIf(is_old(), NEW)
class Sharded(Trainings):
    def fully(self, mesh=None, group_memory=False):
        from torch.distributed.fsdp import fully_shard
        model = plain_network()
        for layer in (model[0], model[2]):
            fully_shard(layer, mesh=mesh)
            layer.set_allocate_memory_from_process_group_for_comm(group_memory)
        return fully_shard(model, mesh=mesh)

    def whole(self, model, **how):
        return [weight.full_tensor() for weight in self.trained(model, **how)]

    def mesh(self, *shape, backend=None):
        options = {"backend_override": {name: backend for name in ("first", "second")[:len(shape)]}} if backend else {}
        return dist.device_mesh.init_device_mesh("cpu", shape, mesh_dim_names=("first", "second")[:len(shape)],
                                                 **options)

    def test_fsdp2_learns_what_it_learns_on_gloo(self):
        on_gloo = self.whole(self.fully(self.mesh(self.size, backend="gloo")))
        self.close(self.whole(self.fully(self.mesh(self.size))), on_gloo)

    def test_fsdp2s_buffers_lie_in_memory_that_the_ranks_share(self):
        kv = backend_of(dist.distributed_c10d._get_default_group())._group.kv
        before = kv.counters().allocated_peak_bytes
        learnt = self.whole(self.fully(group_memory=True))
        self.assertGreater(kv.counters().allocated_peak_bytes, before)
        self.close(learnt, self.whole(self.fully()))

    def test_hsdp_learns_what_it_learns_on_gloo(self):
        if self.size % 2:
            self.skipTest("this number of ranks makes no mesh of two columns")
        on_gloo = self.whole(self.fully(self.mesh(self.size // 2, 2, backend="gloo")))
        self.close(self.whole(self.fully(self.mesh(self.size // 2, 2))), on_gloo)

    def test_tensors_that_are_spread_over_a_mesh(self):
        from torch.distributed.tensor import Replicate, Shard, distribute_tensor
        mesh, whole = self.mesh(self.size), torch.arange(6.0 * self.size * 4).reshape(6 * self.size, 4)
        rows = distribute_tensor(whole, mesh, [Shard(0)])
        self.same(rows.to_local(), whole[6 * self.rank:6 * self.rank + 6])
        self.same(rows.redistribute(mesh, [Replicate()]).to_local(), whole)
        columns = rows.redistribute(mesh, [Shard(1)])
        self.same(columns.full_tensor(), whole)
        self.same((rows.t() @ rows).full_tensor(), whole.t() @ whole)

    def test_functional_collectives(self):
        from torch.distributed import _functional_collectives as functional
        world = dist.distributed_c10d._get_default_group()
        self.same(functional.all_reduce(self.mine(), "sum", world).wait(), sum(self.everyones()))
        self.same(functional.all_gather_tensor(self.mine((2, 3)), 0, world).wait(), torch.cat(self.everyones((2, 3))))
        rows = (self.size, 3)
        self.same(functional.reduce_scatter_tensor(self.mine(rows), "sum", 0, world).wait(),
                  sum(self.everyones(rows))[self.rank:self.rank + 1])
        self.same(functional.broadcast(self.mine(), self.last, world).wait(), self.of(self.last))
        for several in functional.all_reduce_coalesced([self.mine((5,)), self.mine((5,))], "sum", world):
            self.same(several.wait(), sum(self.everyones((5,))))

    def test_a_checkpoint_is_written_and_read_by_all(self):
        from torch.distributed import checkpoint
        told = [tempfile.mkdtemp() if self.rank == 0 else None]
        dist.broadcast_object_list(told, 0)
        model = self.fully()
        self.trained(model)
        checkpoint.save({"model": model.state_dict()}, checkpoint_id=told[0])
        other = self.fully()
        state = {"model": other.state_dict()}
        checkpoint.load(state, checkpoint_id=told[0])
        other.load_state_dict(state["model"])
        for one, two in zip(model.parameters(), other.parameters()):
            self.same(one.full_tensor(), two.full_tensor())


if __name__ == "__main__":
    unittest.main()
