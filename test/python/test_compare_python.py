#!/usr/bin/python3
"""benchmarks/compare/python.py: verdicts and record of suite python."""
import unittest
from unittest import mock

from comparing import KIB, MIB, row
from compare import cli, peers, python, record
from compare.contest import BenchError, Contest


def small(who, us, ranks, tensors=None):
    return {**row("c", who, us, ranks), "tensors": tensors}


def calls(cpp, own):
    """Rows of calls that take this many µs from C++ and from Python."""
    return [small(who, us, ranks, tensors) for ranks in python.CALL_RANKS for tensors in python.CALLS
            for who, us in ((python.CPP, cpp), (python.OURS, own))]


def made_up(contest, ranks, options):
    """The result of Contest.run, without running a program."""
    def option(name):
        return options[options.index(name) + 1]
    facts = {"contest": contest.name, "setting": contest.setting, "ranks": ranks, "wrong": 0, "time_us": {"p50": 2.0}}
    if "--tensors" in options:
        facts["tensors"] = int(option("--tensors"))
    sizes = map(int, option("--bytes").split(",")) if "--bytes" in options else [4]
    return [{**facts, "who": who, "bytes": size} for size in sizes for who in contest.names.values()]


class Verdicts(unittest.TestCase):
    def test_a_call_may_take_so_much_more_than_from_cpp(self):
        def verdicts(more):
            return [(v.reached, v.verdict) for v in python.call_verdicts(calls(2, 2 + more))]
        self.assertEqual(verdicts(5), [("5.0 µs", "pass")] * 4)
        self.assertEqual(verdicts(40), [("40.0 µs", "short")] * 2 + [("40.0 µs", "pass")] * 2)

    def test_allreduces_are_judged_from_16_kib_on_and_large_ones_more_strictly(self):
        sizes = (4, 16 * KIB, 4 * MIB)
        rows = [row("c", who, us, size=size) for size in sizes for who, us in (("tutti", 10), ("mpi4py", 12))]
        found = python.allreduce_verdicts(python.Figures(rows), [2], sizes)
        self.assertEqual([(v.wanted, v.reached, v.verdict) for v in found],
                         [(">= 1 x", "1.20 x", "pass"), (">= 1.5 x", "1.20 x", "short")])

    def test_import_create_and_the_idle_store_have_bounds(self):
        def verdicts(create, imported, alone, beside):
            rows = [small(python.FIRST_CREATE, create, 4), small(python.IMPORT, imported, 2),
                    small(python.ALONE, alone, 2), small(python.BESIDE, beside, 2)]
            return [v.verdict for v in python.idle_verdicts(rows)]
        self.assertEqual(verdicts(0.29e6, 0.149e6, 99, 100), ["pass"] * 3)
        self.assertEqual(verdicts(0.31e6, 0.151e6, 98, 100), ["short"] * 3)


class Suite(unittest.TestCase):
    def measured(self, *has):
        request = cli.parse(["--suite", "python", "--quick", "--rounds", "2"])
        with mock.patch.object(peers, "has_module", lambda _, name: name in has), \
                mock.patch.object(Contest, "run", made_up):
            return request, python.measure(request)

    def test_its_record_holds_rows_of_all_parts_and_a_verdict_on_each_target(self):
        request, outcome = self.measured("tutti", "mpi4py")
        kept = record.document(request, {}, outcome)
        self.assertEqual((kept["suite"], kept["rounds"], kept["skipped"]), ("python", 2, {}))
        self.assertEqual({one["who"] for one in kept["rows"]},
                         {"tutti", "tutti, C++", "mpi4py", *python.IDLE_NAMES.values()})
        self.assertEqual({one["round"] for one in kept["rows"]}, {0, 1})
        # Four of calls, of import, create and the idle store, and at three numbers of ranks two of the three sizes.
        self.assertEqual([one["target"] for one in kept["targets"]], ["P12"] * (4 + 3 + 3 * 2))
        self.assertEqual({curve.panel for curve in outcome.curves}, {"2 ranks", "4 ranks", "8 ranks"})

    def test_without_mpi4py_it_is_said_and_the_rest_measured(self):
        _, outcome = self.measured("tutti")
        self.assertIn("pip install mpi4py", outcome.skipped["mpi4py"])
        self.assertEqual([v.verdict for v in outcome.verdicts if "mpi4py" in v.what], ["not measured"] * 6)

    def test_without_the_package_it_says_how_to_get_it(self):
        with self.assertRaisesRegex(BenchError, "has no package tutti: .* pip install"):
            self.measured("mpi4py")


if __name__ == "__main__":
    unittest.main()
