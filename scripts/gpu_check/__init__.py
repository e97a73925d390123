"""What scripts/gpu-check is made of; Python 3.9 and its standard library suffice."""
