"""What scripts/launch.py is made of; Python 3.9 and its standard library suffice."""
