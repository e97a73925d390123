"""The fixture of those torch_*.py that every rank of an MPI job runs: the default group, and tensors that differ by
rank.

Every rank runs all tests in the same order. A rank that fails keeps no other waiting for longer than PATIENCE.
"""
import datetime
import os
import unittest

import torch
import torch.distributed as dist

import tutti.torch  # pylint: disable=unused-import

PATIENCE = datetime.timedelta(seconds=60)
os.environ.setdefault("TUTTI_LOG", "error")
torch.set_num_threads(1)  # the ranks share the cores


def is_old():
    """Whether this is torch 1, which has no Backend: a process group of tutti is itself a ProcessGroup there."""
    return not hasattr(torch._C._distributed_c10d, "Backend")


def backend_of(group):
    """The part of a process group that is tutti's."""
    return group if is_old() else group._get_backend(torch.device("cpu"))


class Ranks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not dist.is_initialized():
            dist.init_process_group("tutti", timeout=PATIENCE)
        cls.rank, cls.size = dist.get_rank(), dist.get_world_size()
        cls.last = cls.size - 1
        cls.total = cls.size * (cls.size + 1) // 2  # of what the ranks bring: 1, 2, 3, ...

    def mine(self, shape=(3, 4), dtype=torch.float32):
        return self.of(self.rank, shape, dtype)

    def of(self, rank, shape=(3, 4), dtype=torch.float32):
        """The elements that this rank contributes: from rank + 1 on, in steps of 10, within the range of the dtype."""
        count = torch.Size(shape).numel()
        return (torch.arange(count) % 4 * 10 + rank + 1).to(dtype).reshape(shape)

    def everyones(self, shape=(3, 4), dtype=torch.float32):
        return [self.of(rank, shape, dtype) for rank in range(self.size)]

    def same(self, tensor, expected):
        self.assertEqual((tensor.dtype, tensor.shape), (expected.dtype, expected.shape))
        self.assertTrue(torch.equal(tensor, expected), f"{tensor}\nand not\n{expected}")
