"""The parts of scripts/gpu-check. Python 3.9 and its standard library suffice."""
