"""PyTorch's own test of torch.distributed on tutti: distributed_test.py of its wheel, in one job of mpirun's.

    mpirun -n 4 python torch_suite.py FOLDER [TEST...]

FOLDER: an empty one, the same on all ranks. Each rank writes there how each test has ended, into RANK.json. Without
names it runs all tests but those that torch_suite_skips.txt lists. The wheel has no program that runs the file:
PyTorch's own starts new processes for each test, which MPI does not allow.
"""
import datetime
import faulthandler
import functools
import json
import os
import pathlib
import sys
import traceback
import unittest

import torch
import torch.distributed as dist
from torch.testing._internal import common_distributed, common_utils

import tutti.torch  # pylint: disable=unused-import

#: When torch's file is imported, it picks the tests that the backend of this name can run.
os.environ.update(BACKEND="gloo", WORLD_SIZE=os.environ["OMPI_COMM_WORLD_SIZE"])
from torch.testing._internal.distributed import distributed_test  # pylint: disable=wrong-import-position
#: Tests look at the variable whether the backend can do with fewer than eight ranks.
os.environ["BACKEND"] = "mpi"
#: Gloo could not do this when that was written.
OF_MPI = "Only MPI supports"

#: A reason, and below it the names of tests.
LIST = pathlib.Path(__file__).with_name("torch_suite_skips.txt")
#: Time limits of a call that other ranks do not make, and of one test, in seconds.
PATIENCE, LIMIT = 60, 240
SKIPS = {skip.exit_code: skip.message for skip in common_distributed.TEST_SKIPS.values()}
outcomes = {}


def told(test):
    """A test of PyTorch ends its process to say that it skips. Here the process goes on with the next test."""
    @functools.wraps(test)
    def wrapper(self):
        try:
            test(self)
        except SystemExit as end:
            raise unittest.SkipTest(SKIPS.get(end.code, f"it exits with {end.code}")) from end
    return wrapper


class Suite(distributed_test.DistributedTest._DistTestBase, common_utils.TestCase):
    world_size = int(os.environ["WORLD_SIZE"])
    rank = int(os.environ["OMPI_COMM_WORLD_RANK"])
    folder = pathlib.Path()

    def setUp(self):
        super().setUp()
        place = self.folder / self._testMethodName
        for part in ("barrier", "test_dir"):
            (place / part).mkdir(parents=True, exist_ok=True)
        os.environ["TEMP_DIR"] = str(place)
        # These make their model on a CPU for some names alone.
        distributed_test.BACKEND = "mpi" if self._testMethodName.startswith("test_accumulate_gradients") else "tutti"
        distributed_test.Barrier.barrier_id = 0
        faulthandler.dump_traceback_later(LIMIT, exit=True)
        dist.init_process_group("tutti", timeout=datetime.timedelta(seconds=PATIENCE))
        common_utils.set_rng_seed()

    def _barrier(self, wait_for=None, **_):
        """A barrier with more time: the tests' own limit is too short for a busy machine."""
        distributed_test.Barrier.sync(wait_for, timeout=LIMIT)

    def tearDown(self):
        super().tearDown()
        if dist.is_initialized():
            dist.destroy_process_group()
        faulthandler.cancel_dump_traceback_later()


for name in dir(Suite):
    if name.startswith("test_"):
        setattr(Suite, name, told(getattr(Suite, name)))
        if getattr(getattr(Suite, name), "__unittest_skip_why__", "").startswith(OF_MPI):
            getattr(Suite, name).__unittest_skip__ = False


class Result(unittest.TestResult):
    """The outcome of a test: "", the reason why it was skipped, or what went wrong."""

    def startTest(self, test):
        super().startTest(test)
        outcomes[test._testMethodName] = {}

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        outcomes[test._testMethodName]["skipped"] = reason

    def addError(self, test, err):
        super().addError(test, err)
        outcome = outcomes[test._testMethodName]
        outcome["failed"] = outcome.get("failed", "") + "".join(traceback.format_exception(*err))

    addFailure = addError

    def stopTest(self, test):
        super().stopTest(test)
        (Suite.folder / f"{Suite.rank}.json").write_text(json.dumps(outcomes))


def main():
    Suite.folder = pathlib.Path(sys.argv[1])
    torch.set_num_threads(1)  # the ranks share the cores
    listed = {line.strip() for line in LIST.read_text().splitlines() if line.startswith("  ")}
    known = unittest.defaultTestLoader.getTestCaseNames(Suite)
    outcomes.update((name, {"failed": f"{LIST.name} lists it, and torch has no such test"})
                    for name in listed.difference(known))
    names = sys.argv[2:] or [name for name in known if name not in listed]
    unittest.TestSuite(Suite(name) for name in names).run(Result())


if __name__ == "__main__":
    main()
