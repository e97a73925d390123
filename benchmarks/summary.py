#!/usr/bin/python3
"""Prints a kept record of compare.py's suite node as a small table for a README, and where tutti loses. See --help."""
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "scripts")]
from command_line import Parser, file_problem  # pylint: disable=wrong-import-position
from compare import summary  # pylint: disable=wrong-import-position


def main():
    parser = Parser(description=__doc__.replace(" See --help.", ""))
    parser.add_argument("record", metavar="RECORD.json",
                        help="a record of suite node, such as benchmarks/results/2026-11-29-node-xeon.json")
    parser.add_argument("--chart", metavar="FILE.png",
                        help="also draw each peer's time divided by tutti's, into this file")
    given = parser.parse_args()
    try:
        record = summary.read(given.record)
    except OSError as error:
        parser.error(file_problem(error))
    except ValueError as error:
        parser.error(f"{given.record}: {error}")
    except KeyError as error:
        parser.error(f"{given.record}: is no record of compare.py: it lacks {error}")
    print(summary.text(record))
    if given.chart:
        summary.write_chart(given.chart, record)


if __name__ == "__main__":
    main()
