"""The promises of dist_sync_mpi, tested from Python. The tests have the names of the C++ tests, and
scripts/checks/contract.py compares them.

    mpirun -n N python contract.py [-k PART_OF_A_NAME]

Run by the Python that the package is installed for, at any number of ranks. Every rank runs all of it.
"""
import pathlib
import unittest

PARTS = sorted({path.stem for path in pathlib.Path(__file__).parent.glob("contract_*.py")} - {"contract_fixture"})


def load_tests(loader, _tests, _pattern):
    return loader.loadTestsFromNames(PARTS)


if __name__ == "__main__":
    # An exception that nobody handles would make the other ranks wait, so unittest handles them all.
    unittest.main()
