"""Passes the library's log to Python's logging, in programs that have configured it. Otherwise the log goes to stderr.
"""
import atexit
import logging
import os
import threading

from tutti import _core

#: By the library's levels: trace, debug, info, warning, error, critical.
LEVELS = (5, logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
#: At the end of the program the handlers have this many seconds.
PATIENCE = 1.0
LOGGER = logging.getLogger("tutti")
_follower = None  # the process whose log goes there


def follow():
    """From now on the logger 'tutti' gets the lines, if it has a handler."""
    global _follower  # pylint: disable=global-statement
    if _follower == os.getpid() or not LOGGER.hasHandlers():
        return
    _follower = os.getpid()
    lines = _core.log_lines()
    thread = threading.Thread(target=_run, args=(lines,), name="tutti-logs", daemon=True)
    thread.start()
    atexit.register(_stop, lines, thread, os.getpid())


def _run(lines):
    while (line := lines.next()) is not None:
        if line:
            _hand_over(*line)


def _hand_over(level, rank, text):
    try:
        LOGGER.log(LEVELS[level], "%s", f"rank {rank}: {text}" if rank >= 0 else text)
    except Exception as raised:  # pylint: disable=broad-except  # of a handler; the next line may have better luck
        _core.report(raised, LOGGER.log)


def _stop(lines, thread, process):
    if process != os.getpid():
        return
    lines.close()
    thread.join(PATIENCE)
    lines.show_all()
