"""Registers tutti with torch.distributed.

    import tutti.torch
    torch.distributed.init_process_group("tutti")

Start it with mpirun, which tells rank and size.
"""
from tutti.torch._joining import register
from tutti.torch.training import broadcast_optimizer_state, broadcast_parameters, ddp_hook

__all__ = ["broadcast_optimizer_state", "broadcast_parameters", "ddp_hook", "register"]

register()
