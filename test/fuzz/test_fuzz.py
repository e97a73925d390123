#!/usr/bin/env python3
"""Decoders refuse what is malformed, read nothing beyond its end and take no more memory than it is worth.

    test_fuzz.py FUZZER CORPUS SECONDS

Reads the seeds of FUZZER, a program of libFuzzer's, and the files of CORPUS; then makes up inputs for SECONDS, which
may be 0. CORPUS stays as it is.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

LEAST_TRIES = 5_000
fuzzer, corpus, seconds = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3])


class Fuzz(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tutti-fuzz-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name in ("new", "seeds"):
            (self.folder / name).mkdir()
        subprocess.run([fuzzer, "seeds", self.folder / "seeds"], check=True)

    def run_fuzzer(self, *options):
        """Runs the fuzzer. Returns its output if it has found nothing."""
        limits = ("-timeout=30", "-rss_limit_mb=1024")
        run = subprocess.run([fuzzer, *options, *limits, f"-artifact_prefix={self.folder}/bad-", "-print_final_stats=1",
                              self.folder / "new", self.folder / "seeds", corpus], check=False,
                             env={**os.environ, "TMPDIR": str(self.folder)}, text=True, errors="replace",
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        bad = [f"{path.name}: {path.read_bytes().hex()}" for path in self.folder.glob("bad-*")]
        self.assertEqual((run.returncode, bad), (0, []), run.stdout[-4000:])
        return run.stdout

    def test_seeds_and_corpus_break_no_decoder(self):
        inputs = len([*corpus.iterdir(), *(self.folder / "seeds").iterdir()])
        self.assertIn(f"seed corpus: files: {inputs} ", self.run_fuzzer("-runs=0"))

    @unittest.skipUnless(seconds, "no time for it")
    def test_no_input_breaks_a_decoder(self):
        said = self.run_fuzzer(f"-max_total_time={seconds}")
        tries = int(re.search(r"number_of_executed_units: (\d+)", said)[1])
        self.assertGreater(tries, LEAST_TRIES, said[-1000:])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
