"""mpirun's ranks as torch.distributed's, over Gloo."""
import torch
import torch.distributed as dist

import racing


def join(master, port):
    """Connects all ranks by a TCP port of rank 0's host. Returns (this rank, the number of ranks)."""
    rank, ranks = racing.place("RANK"), racing.place("SIZE")
    dist.init_process_group("gloo", init_method=f"tcp://{master}:{port}", rank=rank, world_size=ranks)
    return rank, ranks


def over_ranks(values, how):
    """Reduces element by element; `how` is "MAX" or "SUM". Collective."""
    result = torch.tensor(values, dtype=torch.float64)
    dist.all_reduce(result, getattr(dist.ReduceOp, how))
    return result.tolist()
