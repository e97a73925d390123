#!/usr/bin/env python3
"""Checks that Python tests every promise of dist_sync_mpi that a C++ test makes through the public interface.

    contract.py [ROOT]

The names of the C++ tests are sentences, and the methods of test/python/contract_*.py are named after them. Python may
have further tests. For C, test/unit/bindings tests that each function passes on its arguments and results.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from command_line import root_given

#: C++ tests with a store that test no promise to a program, and why.
DEEPER = {
    "allocation_test.cc": "counts what the library takes from the heap, beside which both bindings take more",
    "bits_test.cc": "drives batches, parts and slices below the interface, which is the same from every language",
    "deviations_test.cc": "drives replay",
    "device_test.cc": "drives copies and chunks below the interface; the bindings pass device and stream on",
    "group_costs_test.cc": "measures the library's threads and memory",
    "idle_test.cc": "measures the library's threads; the bindings have none but for callbacks",
    "leaving_test.cc": "holds messages up below MPI",
    "peer_stores_test.cc": "drives what stores share below the interface",
    "thresholds_test.cc": "drives every threshold of the engine",
}

#: {sentence: the reason why Python has no test of it}.
EXEMPT = {
    "a group of one rank records no timeline and says so when one is asked for": "the library logs it when it creates",
    "a forked child that drops the store lets go of nothing that its parent's threads use":
        "the library leaves its own memory as it is; the bindings only drop the store",
    "a key takes the memory that its contract says": "the library keeps it, whoever named the key",
    "a closed store gives the memory of its keys back": "the library gives it back, whoever named the key",
    "a deleter may take a lock that a thread holds while it waits for another call":
        "finalizers run in whichever thread drops an array, and that may be the one that holds the lock",
    "memory whose owner only notes it is given back though the communication thread is busy":
        "the binding's own deleter is one of these, which package_ranks.py tests",
}


def cpp_sentences(folder):
    """Returns {sentence: its file} for the C++ tests that use a store."""
    found = {}
    for path in sorted(folder.glob("*_test.cc")):
        text = path.read_text()
        if '#include "store_fixture.h"' in text and path.name not in DEEPER:
            for literals in re.findall(r"^TEST_CASE\(\s*((?:\"[^\"]*\"\s*)+)\)", text, re.MULTILINE):
                found["".join(re.findall(r'"([^"]*)"', literals))] = path.name
    return found


def python_names(folder):
    texts = (path.read_text() for path in sorted(folder.glob("contract_*.py")))
    return {name for text in texts for name in re.findall(r"^    def (test_\w+)\(", text, re.MULTILINE)}


def method_named(sentence):
    """The name of the Python test for a sentence: rank's -> ranks, 1 % -> 1."""
    return "test_" + re.sub(r"\W+", "_", sentence.lower().replace("'", "")).strip("_")


def problems_of(root):
    sentences = cpp_sentences(root / "test/mpi")
    if not sentences:
        yield "test/mpi: no test of the contract is there"
    told = python_names(root / "test/python")
    for sentence, file in sentences.items():
        is_told = method_named(sentence) in told
        if is_told == (sentence in EXEMPT):
            wrong = "is tested and exempt" if is_told else "no test of test/python/contract_*.py says so"
            yield f"test/mpi/{file}: \"{sentence}\": {wrong}"
    for sentence in EXEMPT.keys() - sentences.keys():
        yield f"scripts/checks/contract.py: exempt, and no C++ test says so: \"{sentence}\""
    for name in sorted(DEEPER):
        if not (root / "test/mpi" / name).exists():
            yield f"scripts/checks/contract.py: test/mpi/{name} is not there"


def main():
    problems = list(problems_of(root_given(__doc__)))
    print("\n".join(problems) or "Python tests every promise that C++ does")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
