#!/usr/bin/env python3
"""Runs an MPI job on emulated hosts that are made for it: network namespaces joined by a switch, each with
a host name. scripts/lab makes hosts that stay.

    on_hosts.py [OPTION ...] HOSTSxRANKS PROGRAM [ARGUMENT ...]

`2x4` is two hosts with four ranks each, `2+1+1` three hosts with these many ranks. Needs root; without
it, exits 77 (skipped) with the reason. Exits with mpirun's code. However it ends, the hosts and what runs
on them go away with it.
"""
import argparse
import os
import pathlib
import re
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
# pylint: disable=wrong-import-position
import mpi_job
from command_line import Parser
from hosts import SKIPPED, Lab, Refused, parse_rate, why_not
from registry import made


def parse(arguments):
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", default="none",
                        help="the rate of each link in both directions: 1gbit, 200mbit (%(default)s)")
    mpi_job.add_options(parser)
    parser.add_argument("layout", help="2x4, or 2+1+1")
    parser.add_argument("program", nargs=argparse.REMAINDER)
    args = parser.parse_args(arguments)
    try:
        mpi_job.check(args)
        args.plan = Lab(f"tutti{os.getpid()}", tuple(ranks_of(args.layout)), parse_rate(args.rate))
    except Refused as error:
        parser.error(str(error))
    return args


def ranks_of(layout):
    if not re.fullmatch(r"\d+(x\d+|(\+\d+)*)", layout):
        raise Refused(f"a layout is HOSTSxRANKS, as in 2x4, or the ranks of each host, as in 2+1+1; not '{layout}'")
    if "x" in layout:
        count, each = map(int, layout.split("x"))
        return [each] * count
    return [int(count) for count in layout.split("+")]


def main():
    args = parse(sys.argv[1:])
    reason = why_not()
    if reason:
        print(f"skipped: {reason}")
        return SKIPPED
    # Turn a polite end into an exception, so that mpirun ends before the hosts do.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        with made(args.plan) as lab:
            return mpi_job.run(lab, args)
    except Refused as error:
        print(f"on_hosts.py: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
