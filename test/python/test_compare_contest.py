#!/usr/bin/python3
"""benchmarks/compare/contest.py: starting and ending programs."""
import dataclasses
import pathlib
import subprocess
import tempfile
import unittest
from unittest import mock

from comparing import contest
from compare.contest import BenchError, Launcher, end, execute, facts_of, last_words


class Plain(Launcher):
    """A contest whose program starts without mpirun."""
    def line(self, ranks, program):
        return list(map(str, program))


class Programs(unittest.TestCase):
    def test_wrong_sums_are_rows_and_no_failure_but_a_failure_without_rows_is_one(self):
        execute(["sh", "-c", "exit 1"], {}, lambda: [{"wrong": 3}])
        with self.assertRaisesRegex(BenchError, "ended with 1: no memory"):
            execute(["sh", "-c", "echo no memory >&2; exit 1"], {}, list)
        with self.assertRaisesRegex(BenchError, "cannot start no-such-program"):
            execute(["no-such-program"], {}, list)
        with self.assertRaisesRegex(BenchError, "still running"):
            execute(["sleep", "60"], {}, list, limit=0.2)

    def test_one_that_ends_well_and_leaves_no_rows_is_a_failure(self):
        with self.assertRaisesRegex(BenchError, "true .*: ended well, and left no rows"):
            dataclasses.replace(contest("x"), launcher=Plain()).run(2, [])

    def test_a_contest_that_hangs_is_given_up_after_its_own_limit(self):
        hangs = dataclasses.replace(contest("x"), launcher=Plain(), program=("sh", "-c", "sleep 60"), limit=0.2)
        with self.assertRaisesRegex(BenchError, "still running after 0.2 s"):
            hangs.run(2, [])

    def test_a_program_that_is_ended_may_clean_up_first(self):
        with tempfile.TemporaryDirectory() as folder:
            left = pathlib.Path(folder, "left")
            with self.assertRaises(BenchError):
                execute(["sh", "-c", f"trap 'touch {left}; exit' TERM; sleep 60 & wait"], {}, list, limit=0.5)
            self.assertTrue(left.exists())

    def test_a_program_that_does_not_end_is_killed(self):
        process = subprocess.Popen(["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"],
                                   start_new_session=True,
                                   stdout=subprocess.PIPE)
        process.stdout.readline()
        end(process, grace=0.2)
        self.assertEqual(process.returncode, -9)

    def test_a_failure_is_told_in_the_programs_words_not_in_mpiruns(self):
        frame = "-" * 74
        self.assertEqual(last_words(f"bad\nworse\n{frame}\nPrimary job ended\n{frame}\n"), "bad / worse")
        self.assertEqual(last_words(f"{frame}\nno such program\n{frame}\n"), "no such program")
        self.assertEqual(last_words("\n"), "it said nothing")

    def test_settings_of_the_callers_own_do_not_leak_in(self):
        shown = execute(["env"], {"OMPI_MCA_mine": "1"}, list)
        self.assertIn("OMPI_MCA_mine=1", shown)
        with mock.patch.dict("os.environ", {"OMPI_MCA_coll": "x", "TUTTI_REPLAY": "0", "HOROVOD_CYCLE_TIME": "9"}):
            shown = execute(["env"], {}, list)
        self.assertNotIn("HOROVOD_CYCLE_TIME", shown)
        self.assertNotIn("OMPI_MCA_coll", shown)
        self.assertNotIn("TUTTI_REPLAY", shown)

    def test_facts_are_the_lines_of_the_head(self):
        self.assertEqual(facts_of("# MPI: Open MPI v4, X\n# yes\n 4 1 f32: no\n"), {"MPI": "Open MPI v4, X"})


if __name__ == "__main__":
    unittest.main()
