#!/usr/bin/env python3
"""Makes the two IDX files of this folder from scikit-learn's digits.csv.gz.

    make_digits.py path/to/sklearn/datasets/data/digits.csv.gz
"""
import argparse
import gzip
import pathlib
import struct
import sys

SIDE, CLASSES, IMAGES = 8, 10, 1797


def main(csv):
    with gzip.open(csv, "rt") as file:
        rows = [[int(float(field)) for field in line.split(",")] for line in file]
    if len(rows) != IMAGES or any(len(row) != SIDE * SIDE + 1 for row in rows):
        sys.exit(f"{csv}: expected {IMAGES} lines of {SIDE * SIDE} pixels and a label")
    if any(not 0 <= p <= 16 for row in rows for p in row[:-1]) or any(not 0 <= row[-1] < CLASSES for row in rows):
        sys.exit(f"{csv}: expected pixels in 0..16 and labels in 0..9")
    # IDX: two zero bytes, 8 for unsigned bytes, the number of dimensions, the dimensions.
    here = pathlib.Path(__file__).resolve().parent
    images = struct.pack(">4B3I", 0, 0, 8, 3, IMAGES, SIDE, SIDE) + bytes(p for row in rows for p in row[:-1])
    labels = struct.pack(">4BI", 0, 0, 8, 1, IMAGES) + bytes(row[-1] for row in rows)
    (here / "digits-images-idx3-ubyte").write_bytes(images)
    (here / "digits-labels-idx1-ubyte").write_bytes(labels)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("csv", metavar="digits.csv.gz")
    main(parser.parse_args().csv)
