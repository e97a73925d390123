#!/usr/bin/python3
"""Measures tutti beside every peer that is installed, turn by turn. See --help."""
import sys

from compare.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
