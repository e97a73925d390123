"""Training on tutti against training on Gloo, and n processes against one; every rank of an MPI job runs all of it."""
import contextlib
import datetime
import os
import shutil
import tempfile
import unittest

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

import tutti.torch
from torch_fixture import PATIENCE, Ranks, backend_of, is_old

NEW = "torch 1 does not have it"
STEPS = 4


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 2))


def plain_network():
    """A network without a layer that mixes the examples of a batch."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))


def batch_of(step, count):
    generator = torch.Generator().manual_seed(step)
    return torch.randn(count, 8, generator=generator), torch.randint(2, (count,), generator=generator)


class Heads(nn.Module):
    """A network with two heads. A batch goes through only one of them."""

    def __init__(self):
        super().__init__()
        self.body, self.heads = plain_network()[:2], nn.ModuleList(nn.Linear(16, 2) for _ in range(2))

    def forward(self, images, head):
        return self.heads[head](self.body(images))


@contextlib.contextmanager
def unsynchronized(model):
    """Within this block each rank adds up its own gradients. A model of one process has nothing to put off."""
    if isinstance(model, DistributedDataParallel):
        with model.no_sync():
            yield
        return
    put_off = getattr(model, "set_requires_gradient_sync", lambda _: None)  # FSDP2's
    put_off(False)
    yield
    put_off(True)


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
        self.on_both(lambda group: DistributedDataParallel(network(), process_group=group))

    def on_both(self, make, step=None):
        """Trains this model on tutti and on Gloo."""
        self.close(*(self.trained(make(group), step=step) for group in (None, self.gloo)))

    def test_ddp_with_each_of_its_options_learns_what_it_learns_on_gloo(self):
        for options in ({"static_graph": True}, {"gradient_as_bucket_view": True}, {"broadcast_buffers": False},
                        {"bucket_cap_mb": 0.0005}, {"static_graph": True, "gradient_as_bucket_view": True}):
            with self.subTest(options):
                self.on_both(lambda group, options=options: DistributedDataParallel(network(), process_group=group,
                                                                                     **options))

    def test_ddp_with_parameters_that_some_ranks_do_not_use_learns_what_it_learns_on_gloo(self):
        def step(model, images, labels):
            nn.functional.cross_entropy(model(images, self.rank % 2), labels).backward()
        for view in (False, True):
            self.on_both(lambda group, view=view: DistributedDataParallel(
                Heads(), process_group=group, find_unused_parameters=True, gradient_as_bucket_view=view), step)

    def test_ddp_that_adds_up_gradients_before_it_exchanges_them_learns_what_it_learns_on_gloo(self):
        def step(model, images, labels):
            with unsynchronized(model):
                self.one_step(model, images[:3], labels[:3])
            self.one_step(model, images[3:], labels[3:])
        self.on_both(lambda group: DistributedDataParallel(network(), process_group=group), step)

    def test_ddp_under_autocast_in_bfloat16(self):
        def step(model, images, labels):
            with torch.autocast("cpu", torch.bfloat16):
                scores = model(images)
            nn.functional.cross_entropy(scores.float(), labels).backward()
        self.on_both(lambda group: DistributedDataParallel(network(), process_group=group), step)

    def test_gradients_that_travel_in_fewer_bits_are_close_and_on_one_machine_the_same(self):
        whole = self.trained(DistributedDataParallel(plain_network()))
        for wire in ("bf16", "fp16"):
            model = DistributedDataParallel(plain_network())
            model.register_comm_hook(None, tutti.torch.ddp_hook(wire=wire))
            half = self.trained(model)
            self.close(half, whole, atol=0.05)
            if os.environ["OMPI_COMM_WORLD_LOCAL_SIZE"] == os.environ["OMPI_COMM_WORLD_SIZE"]:
                self.close(half, whole)
            else:
                self.assertFalse(all(torch.equal(*pair) for pair in zip(half, whole)), "and they have been rounded")
        with self.assertRaisesRegex(tutti.InvalidArgumentError, "the backend of the process group is .*gloo"):
            tutti.torch.ddp_hook(group=self.gloo)
        with self.assertRaisesRegex(tutti.InvalidArgumentError, "travel in 'bf16' or 'fp16', not in 'f32'"):
            tutti.torch.ddp_hook(wire="f32")

    def test_powersgd_over_many_buckets_of_one_shape_gives_all_ranks_the_same_weights(self):
        from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as powers
        torch.manual_seed(1)
        layers = nn.Sequential(*(nn.Linear(40, 40, bias=False) for _ in range(8)))
        model = DistributedDataParallel(layers, bucket_cap_mb=0.001)
        model.register_comm_hook(powers.PowerSGDState(None, start_powerSGD_iter=2), powers.powerSGD_hook)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for number in range(5):
            optimizer.zero_grad()
            model(torch.full((4, 40), 1.0 + self.rank + number)).pow(2).mean().backward()
            optimizer.step()
        for weight in layers.parameters():
            rows = [torch.zeros_like(weight) for _ in range(self.size)]
            dist.all_gather(rows, weight.detach())
            for row in rows:
                self.same(row, weight.detach())

    def test_the_hook_takes_the_group_that_it_is_given_though_others_have_the_same_ranks(self):
        groups = [dist.new_group(timeout=PATIENCE + datetime.timedelta(seconds=i)) for i in range(3)]
        hook = tutti.torch.ddp_hook(group=groups[1])
        model = DistributedDataParallel(plain_network(), process_group=groups[1])
        model.register_comm_hook(None, hook)
        for group in (groups[0], groups[2]):
            dist.destroy_process_group(group)
        self.trained(model)
        self.assertEqual(len(backend_of(groups[1])._group._on_wires), 1)

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


def fully(mesh=None, group_memory=False):
    """The model under FSDP2."""
    from torch.distributed.fsdp import fully_shard
    model = plain_network()
    for layer in (model[0], model[2]):
        fully_shard(layer, mesh=mesh)
        layer.set_allocate_memory_from_process_group_for_comm(group_memory)
    return fully_shard(model, mesh=mesh)


class Curves(Trainings):
    """n processes of batch b learn what one process of batch n*b learns; gradients are added up, then clipped."""

    COUNT, LENGTH = 8, 30

    def curve(self, model, shares, loss_of):
        """The loss at each step, over these shares of each batch, half a share at a time."""
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        parts = [slice(share.start + half, share.stop, 2) for half in range(2) for share in shares]
        losses = []
        for number in range(self.LENGTH):
            images, labels = batch_of(number, self.COUNT * self.size)
            optimizer.zero_grad()
            losses.append(torch.zeros(()))
            for i, part in enumerate(parts):
                with unsynchronized(model) if i < len(parts) - 1 else contextlib.nullcontext():
                    loss = loss_of(model, images[part], labels[part]) / len(parts)
                    loss.backward()
                losses[-1] += loss.detach()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
        return torch.stack(losses)

    def follows(self, model, loss_of, in_shares=False):
        """in_shares: the one process also computes a share after the other, as several processes do."""
        shares = [slice(rank * self.COUNT, (rank + 1) * self.COUNT) for rank in range(self.size)]
        mine = self.curve(model, [shares[self.rank]], loss_of)
        dist.all_reduce(mine)
        alone = self.curve(plain_network(), shares if in_shares else [slice(0, shares[-1].stop)], loss_of)
        torch.testing.assert_close(mine / self.size, alone, atol=1e-4, rtol=0)
        self.assertGreater(alone[0] - alone[-1], 0.01, "it learns")

    def whole(self, model, images, labels):
        return nn.functional.cross_entropy(model(images), labels)

    def in_bfloat16(self, model, images, labels):
        with torch.autocast("cpu", torch.bfloat16):
            scores = model(images)
        return nn.functional.cross_entropy(scores.float(), labels)

    def test_of_ddp(self):
        self.follows(DistributedDataParallel(plain_network()), self.whole)

    def test_of_ddp_in_bfloat16(self):
        # A gradient is rounded where its share is computed.
        self.follows(DistributedDataParallel(plain_network()), self.in_bfloat16, in_shares=True)

    @unittest.skipIf(is_old(), NEW)
    def test_of_fsdp2(self):
        self.follows(fully(), self.whole)

    @unittest.skipIf(is_old(), NEW)
    def test_of_fsdp2_in_bfloat16(self):
        self.follows(fully(), self.in_bfloat16, in_shares=True)


@unittest.skipIf(is_old(), NEW)
class Sharded(Trainings):
    def whole(self, model, **how):
        return [weight.full_tensor() for weight in self.trained(model, **how)]

    def mesh(self, *shape, backend=None):
        options = {"backend_override": {name: backend for name in ("first", "second")[:len(shape)]}} if backend else {}
        return dist.device_mesh.init_device_mesh("cpu", shape, mesh_dim_names=("first", "second")[:len(shape)],
                                                 **options)

    def test_fsdp2_learns_what_it_learns_on_gloo(self):
        on_gloo = self.whole(fully(self.mesh(self.size, backend="gloo")))
        self.close(self.whole(fully(self.mesh(self.size))), on_gloo)

    def test_the_first_fsdp_which_frees_the_memory_of_its_parameters_learns_what_it_learns_on_gloo(self):
        from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy
        for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP):
            self.close(*(self.trained(FullyShardedDataParallel(plain_network(), process_group=group,
                                                               device_id=torch.device("cpu"),
                                                               sharding_strategy=strategy))
                         for group in (None, self.gloo)))

    def test_fsdp2s_buffers_lie_in_memory_that_the_ranks_share(self):
        kv = backend_of(dist.distributed_c10d._get_default_group())._group.kv
        before = kv.counters().allocated_peak_bytes
        learnt = self.whole(fully(group_memory=True))
        self.assertGreater(kv.counters().allocated_peak_bytes, before)
        self.close(learnt, self.whole(fully()))

    def test_hsdp_learns_what_it_learns_on_gloo(self):
        if self.size % 2:
            self.skipTest("this number of ranks makes no mesh of two columns")
        on_gloo = self.whole(fully(self.mesh(self.size // 2, 2, backend="gloo")))
        self.close(self.whole(fully(self.mesh(self.size // 2, 2))), on_gloo)

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
        self.same(functional.all_to_all_single(self.mine(rows), None, None, world).wait(),
                  torch.stack(self.everyones(rows))[:, self.rank])
        self.same(functional.broadcast(self.mine(), self.last, world).wait(), self.of(self.last))
        for several in functional.all_reduce_coalesced([self.mine((5,)), self.mine((5,))], "sum", world):
            self.same(several.wait(), sum(self.everyones((5,))))

    def test_a_training_that_goes_on_from_a_checkpoint_learns_what_one_learns_that_was_not_ended(self):
        from torch.distributed import checkpoint
        from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
        told = [tempfile.mkdtemp() if self.rank == 0 else None]
        dist.broadcast_object_list(told, 0)
        learnt = []
        for is_ended in (False, True):
            model = fully()
            optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
            self.trained(model, optimizer)
            if is_ended:
                weights, moments = get_state_dict(model, optimizer)
                checkpoint.save({"model": weights, "optimizer": moments}, checkpoint_id=told[0])
                model = fully()
                optimizer = torch.optim.Adam(model.parameters(), lr=0.5)
                weights, moments = get_state_dict(model, optimizer)
                checkpoint.load({"model": weights, "optimizer": moments}, checkpoint_id=told[0])
                set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
            learnt.append([weight.full_tensor() for weight in self.trained(model, optimizer)])
        for one, two in zip(*learnt):
            self.same(one, two)
        dist.barrier()
        if self.rank == 0:
            shutil.rmtree(told[0])


if __name__ == "__main__":
    unittest.main()
