"""Promises of the package to a program that has set up Python's logging; every rank of an MPI job runs all of it.

    mpirun -n N python package_logs.py
"""
import logging
import os
import threading
import unittest

import tutti
from package_fixture import PATIENCE, Ranks


class Heard(logging.Handler):
    """A handler that keeps the log records with this text."""

    def __init__(self, text):
        super().__init__()
        self.text, self.records, self.came = text, [], threading.Event()

    def emit(self, record):
        if self.text in record.getMessage():
            self.records.append(record)
            self.came.set()


class Logs(Ranks):
    def heard(self, text):
        handler = Heard(text)
        logging.getLogger("tutti").addHandler(handler)
        self.addCleanup(logging.getLogger("tutti").removeHandler, handler)
        return handler

    def test_a_stall_is_reported_to_the_programs_logging(self):
        if self.size == 1:
            self.skipTest("alone nobody is waited for")
        heard, array = self.heard("late"), self.mine()
        with tutti.create("dist_sync_mpi", stall_report_after=0.2) as kv:
            pending = kv.pushpull("late", array) if self.rank == 0 else None
            if self.rank == 0:
                self.assertTrue(heard.came.wait(PATIENCE))
            self.kv.barrier()
            (pending or kv.pushpull("late", array)).wait()
        if self.rank == 0:
            self.assertEqual({(record.name, record.levelno) for record in heard.records}, {("tutti", logging.WARNING)})
            self.assertRegex(heard.records[0].getMessage(), "^rank 0: ")

    def test_a_warning_reaches_a_handler_that_came_after_another_had_gone(self):
        for _ in range(2):
            heard = self.heard("records no timeline")
            with tutti.create("dist_sync_mpi", ranks=[self.rank], timeline=os.devnull):
                self.assertTrue(heard.came.wait(PATIENCE))
            logging.getLogger("tutti").removeHandler(heard)
            self.assertEqual([record.levelname for record in heard.records], ["WARNING"])


if __name__ == "__main__":
    unittest.main()
