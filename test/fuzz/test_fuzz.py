#!/usr/bin/env python3
"""Decoders refuse what is malformed and read nothing beyond its end: one program of libFuzzer's, for a minute.

    test_fuzz.py FUZZER CORPUS

Begins with the files of CORPUS, messages of every kind; leaves that folder as it is.
"""
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

SECONDS = 60
LEAST_TRIES = 100_000
corpus = pathlib.Path(sys.argv.pop())
fuzzer = sys.argv.pop()


class Fuzz(unittest.TestCase):
    def test_no_bytes_break_a_decoder(self):
        self.assertTrue(any(corpus.iterdir()), f"{corpus} is empty")
        with tempfile.TemporaryDirectory(prefix="tutti-fuzz-") as found:
            bad = pathlib.Path(found, "bad-")
            new = pathlib.Path(found, "new")
            new.mkdir()
            run = subprocess.run([fuzzer, f"-max_total_time={SECONDS}", f"-artifact_prefix={bad}", "-print_final_stats=1",
                                  "-rss_limit_mb=1024", new, corpus], check=False, text=True, errors="replace",
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            inputs = [f"{path.name}: {path.read_bytes().hex()}" for path in pathlib.Path(found).glob("bad-*")]
            self.assertEqual((run.returncode, inputs), (0, []), run.stdout[-4000:])
        tries = int(re.search(r"number_of_executed_units: (\d+)", run.stdout)[1])
        self.assertGreater(tries, LEAST_TRIES, run.stdout[-1000:])


if __name__ == "__main__":
    unittest.main(verbosity=2)
