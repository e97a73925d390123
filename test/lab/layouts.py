"""Runs one program in several layouts: `4` is mpirun with four ranks on this machine, anything else one
of on_hosts.py."""
import pathlib
import sys
import unittest

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent / "fault"))
from hosts import SKIPPED
from jobs import NO_HOSTS, Job, each, mpirun  # pylint: disable=unused-import


def possible(layouts):
    """The layouts that this machine can run. Says which layouts it cannot run, and why. Skips the test if it can run
    none."""
    left_out = [layout for layout in layouts if NO_HOSTS and not layout.isdigit()]
    if left_out:
        print(f"skipped: {', '.join(left_out)}: {NO_HOSTS}")
    left = [layout for layout in layouts if layout not in left_out]
    if not left:
        raise unittest.SkipTest(NO_HOSTS)
    return left


def main(options):
    """unittest's. When no test could run here the program is skipped: it has not passed."""
    done = unittest.main(argv=[sys.argv[0], *options], verbosity=2, exit=False).result
    if done.wasSuccessful() and len(done.skipped) >= done.testsRun:
        sys.exit(SKIPPED)
    sys.exit(not done.wasSuccessful())


def run_in(layout, *program, limit=60, **env):
    """A job that must succeed."""
    words = mpirun(layout, *program)
    if not layout.isdigit():
        settings = (f"--env={name}={value}" for name, value in env.items())
        words = [str(FOLDER / "on_hosts.py"), *settings, layout, *map(str, program)]
    job = Job(words, limit=limit, **env)
    if job.code != 0:
        raise AssertionError(str(job))
    return job
