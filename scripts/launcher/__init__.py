"""The parts of scripts/launch.py. Python 3.9 and its standard library suffice."""
