"""Suite pytorch: torch.distributed over tutti and over Gloo, in turns in one process."""
from compare import torch_collectives, torch_exchange, torch_hosts

PARTS = {"collectives": torch_collectives, "exchange": torch_exchange, "exchange-apart": torch_hosts}
