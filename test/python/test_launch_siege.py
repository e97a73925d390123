#!/usr/bin/env python3
"""A job with many strangers at the launcher's socket goes on, and ends well."""
import pathlib
import re
import shutil
import sys
import tempfile
import unittest

from launching import LAUNCH, LIMIT, LaunchCase
from strangers import Siege

STRANGERS = 10_000
# Takes the place of mpirun: says where the launcher listens, and starts the workers when it may.
MPIRUN = """#!/bin/sh
if [ "$1" != --version ]; then
  echo "$TUTTI_LAUNCH_CONTACT" > {folder}/contact.part && mv {folder}/contact.part {folder}/contact
  while [ ! -e {folder}/start ]; do sleep 0.02; done
fi
exec {mpirun} "$@"
"""
# Talks until it may end, less than a pipe holds.
WORKER = """
import os, pathlib, time
pathlib.Path("up" + os.environ["OMPI_COMM_WORLD_RANK"]).touch()
count = 0
while not os.path.exists("end"):
    print("line", count, flush=True)
    count += 1
    time.sleep(0.05)
print("in all", count)
"""


class Besieged(LaunchCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "mpirun").write_text(MPIRUN.format(folder=folder.name, mpirun=shutil.which("mpirun")))
        (self.folder / "mpirun").chmod(0o755)
        (self.folder / "hosts").write_text("localhost\n")

    def launcher(self, where, limit=""):
        """A launcher of three workers that waits for `go`, and its siege."""
        words = ["-n", 3, "--mode", "mpi", *where, sys.executable, "-c", WORKER]
        command = ("sh", "-c", f'cd {self.folder}; {limit} exec "$@"', "sh", sys.executable, str(LAUNCH))
        path = f"{self.folder}:{pathlib.Path(sys.executable).parent}:/usr/bin:/bin"
        process = self.start(*words, command=command, PATH=path, DMLC_INTERFACE="lo")
        self.wait_until((self.folder / "contact").exists, "mpirun is started")
        siege = Siege((self.folder / "contact").read_text().strip())
        self.addCleanup(siege.end)
        return process, siege

    def let_workers_in(self):
        (self.folder / "start").touch()
        self.wait_until(lambda: len(list(self.folder.glob("up?"))) == 3, "three workers run")

    def ends_well(self, process):
        """Checks that every line of every worker has come. Returns how many strangers were turned away."""
        (self.folder / "end").touch()
        out, err = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, err)
        for rank in range(3):
            lines = [line.partition("] ")[2] for line in out.splitlines() if line.startswith(f"[worker {rank}] ")]
            count = int(lines[-1].removeprefix("in all "))
            self.assertEqual(lines, [*(f"line {i}" for i in range(count)), f"in all {count}"])
        told, = re.findall(r"^launch.py: ([\d,]+) connections were turned away, because they did not prove in time "
                           r"that they know this job's token;", err, re.M)
        self.assertEqual(err.count("\n"), 1, err)
        return int(told.replace(",", ""))

    def test_ten_thousand_strangers_do_not_end_a_job(self):
        for where in (["--launcher", "local"], ["-H", self.folder / "hosts"]):
            with self.subTest(where=where):
                process, siege = self.launcher(where)
                self.assertEqual(":" in siege.place, where[0] == "-H")
                self.let_workers_in()
                siege.attack(STRANGERS)
                self.assertTrue(siege.all_are_turned_away())
                self.assertEqual(self.ends_well(process), STRANGERS)
            for name in ("contact", "start", "end", "up0", "up1", "up2"):
                (self.folder / name).unlink(missing_ok=True)

    def test_workers_get_in_among_strangers_that_have_taken_every_file_there_is(self):
        process, siege = self.launcher(["--launcher", "local"], limit="ulimit -n 64;")
        siege.kinds = ["half-open"]
        siege.attack(200)
        self.let_workers_in()
        siege.attack(200)
        self.ends_well(process)


if __name__ == "__main__":
    unittest.main()
