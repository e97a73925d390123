"""What a program prints that does not catch tutti's error.

    test_uncaught.py UNCAUGHT LAUNCHER [unittest options]
"""
import re
import sys
import unittest

from jobs import Job, mpirun

UNCAUGHT, LAUNCHER = sys.argv[1:3]
RANKS = 4
LAUNCHED = [sys.executable, LAUNCHER, "-n", str(RANKS), "--mode", "mpi", "--launcher", "local"]
TOLD = (r"tutti\[rank (\d)\] critical: the program ends by std::terminate after this error: "
        r"(mismatch: key 'g': shapes differ: rank 0 has \(4\), .*|peer_lost: .*)")
LONG = ("terminate called", "Process received signal", r"\[ 0\]", "End of error message")


class Uncaught(unittest.TestCase):
    def test_each_rank_prints_one_line_about_its_error(self):
        for words, everyone in ((mpirun(RANKS), False), (LAUNCHED, True)):
            job = Job([*words, UNCAUGHT, "mismatch"])
            self.assertEqual(job.code, 134, job)
            told = [re.search(TOLD, line) for line in job.lines("ends by std::terminate")]
            told = [found for found in told if found and "  [worker" not in found.string]
            self.assertTrue(any(found[2].startswith("mismatch") for found in told), job)
            ranks = sorted(found[1] for found in told)
            # mpirun may end some ranks before they say anything.
            self.assertEqual(ranks, sorted(set(ranks)), job)
            if everyone:
                self.assertEqual(ranks, [str(rank) for rank in range(RANKS)], job)
            for text in LONG:
                self.assertEqual(job.lines(text), [], job)

    def test_one_rank_of_the_machine_says_that_an_error_left_stores_open(self):
        job = Job([*LAUNCHED, UNCAUGHT, "exit"])
        told = job.lines(r"^\[worker.*a store was still open when the process ended with status 3: it stays open")
        self.assertEqual((job.code, len(told)), (3, 1), job)

    def test_so_does_one_rank_of_each_store_if_they_are_over_different_ranks(self):
        job = Job([*LAUNCHED, UNCAUGHT, "pairs"])
        told = job.lines(r"^\[worker.*a store was still open when the process ended with status 3: it stays open")
        self.assertEqual((job.code, len(told)), (3, 2), job)

    def test_ranks_get_the_error_for_which_another_has_ended(self):
        job = Job([*LAUNCHED, UNCAUGHT, "late"])
        told = job.lines(r"^\[worker.*rank [123] got: key 'g': shapes differ: rank 0 has \(4\)")
        self.assertEqual(len(told), RANKS - 1, job)

    def test_a_handler_of_the_programs_own_is_called(self):
        job = Job([*mpirun(2), UNCAUGHT, "own"])
        self.assertTrue(job.lines("^the program's own handler$"), job)
        self.assertEqual((job.code, job.lines("ends by std::terminate")), (9, []), job)

    def test_a_program_that_takes_log_lines_and_sigabrt_gets_both(self):
        job = Job([*mpirun(2), UNCAUGHT, "handled"])
        self.assertTrue(job.lines("^tutti: the program ends by std::terminate after this error: "), job)
        self.assertEqual(job.code, 8, job)

    def test_a_program_that_ends_while_it_handles_an_error_is_not_said_to_leave_it_uncaught(self):
        job = Job([*mpirun(2), UNCAUGHT, "thread"])
        self.assertTrue(job.lines("caught it$"), job)
        self.assertTrue(job.lines("the program ends by std::terminate after this error: mismatch: key 'g'"), job)
        self.assertEqual(job.lines("does not catch"), [], job)

    def test_another_exception_is_told_as_always(self):
        job = Job([*mpirun(1), UNCAUGHT, "other"])
        self.assertTrue(job.lines("terminate called after throwing an instance of 'std::runtime_error'"), job)
        self.assertTrue(job.lines("what.*none of tutti's"), job)
        self.assertEqual(job.lines("ends by std::terminate"), [], job)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
