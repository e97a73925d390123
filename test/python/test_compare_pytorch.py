#!/usr/bin/python3
"""benchmarks/compare/pytorch.py and its parts: verdicts and record of suite pytorch."""
import unittest
from unittest import mock

from comparing import KIB, MIB, row
from compare import cli, peers, pytorch, torch_collectives, torch_exchange, torch_hosts
from compare.contest import BenchError, Contest
from compare.figures import Figures


def raced(contest, times, ranks=4, size=MIB):
    """Rows of one contest. times: {who: µs}"""
    return [row(contest, who, us, ranks, size) for who, us in times.items()]


def judged(verdicts):
    return [(verdict.wanted, verdict.reached, verdict.verdict) for verdict in verdicts]


class Collectives(unittest.TestCase):
    def verdicts(self, rows):
        return judged(torch_collectives.verdicts(Figures(rows)))

    def test_allreduce_has_a_bar_of_its_own_from_64_kib_on(self):
        rows = raced("allreduce", {"tutti": 10, "Gloo": 39}, size=64 * KIB)
        self.assertEqual(self.verdicts(rows), [(">= 4 x", "3.90 x", "short")])

    def test_other_collectives_are_twice_as_fast_and_no_small_one_is_slower(self):
        rows = raced("scatter", {"tutti": 10, "Gloo": 21}) + raced("scatter", {"tutti": 10, "Gloo": 9}, size=KIB)
        self.assertEqual(self.verdicts(rows), [(">= 2 x", "2.10 x", "pass"), (">= 1 x", "0.90 x", "short")])

    def test_a_call_that_one_library_lacks_is_not_judged(self):
        self.assertEqual(self.verdicts(raced("send", {"Gloo": 9})), [(">= 2 x", "-", "not measured")])

    def test_every_collective_of_the_program_is_a_contest_of_its_own(self):
        def run(*_):
            return [{**one, "op": op} for op in ("reduce", "gather")
                    for one in raced("tutti", {"tutti": 1, "Gloo": 3}, ranks=2)]
        request = cli.parse(["--suite", "pytorch", "--quick", "--rounds", "1"])
        with mock.patch.object(peers, "has_module", lambda *_: True), mock.patch.object(Contest, "race", run):
            outcome = torch_collectives.measure(request)
        self.assertEqual([line[0] for line in outcome.lines], ["reduce", "reduce", "gather", "gather"])
        self.assertEqual([curve.ys for curve in outcome.curves], [[3], [3]])


class Exchanges(unittest.TestCase):
    def test_ddp_and_fsdp_have_bars_of_their_own(self):
        rows = raced("ddp, vgg16", {"tutti": 10, "Gloo": 25}) + raced("fsdp, vgg16", {"tutti": 10, "Gloo": 25})
        self.assertEqual(judged(torch_exchange.judged(Figures(rows))),
                         [(">= 3 x", "2.50 x", "short"), (">= 2 x", "2.50 x", "pass")])

    def test_what_ddp_does_in_a_step_without_an_exchange_is_neither_librarys(self):
        rows = raced("ddp, vgg16", {"tutti": 10, "Gloo": 25, "no exchange": 4})
        self.assertEqual(judged(torch_exchange.judged(Figures(rows))), [(">= 3 x", "3.50 x", "pass")])
        rows = raced("ddp, vgg16", {"tutti": 10, "Gloo": 25, "no exchange": 10})
        self.assertEqual(judged(torch_exchange.judged(Figures(rows))), [(">= 3 x", "-", "not measured")])

    def test_between_hosts_bf16_is_judged_beside_gloos_float32(self):
        rows = raced("ddp, resnet50", {"tutti": 10, "Gloo": 11, "tutti, bf16": 7})
        self.assertEqual(judged(torch_hosts.judged(Figures(rows))),
                         [(">= 1.1 x", "1.10 x", "pass"), (">= 1.8 x", "1.57 x", "short")])


class Suite(unittest.TestCase):
    def test_without_the_package_it_says_how_to_get_it(self):
        for module in pytorch.PARTS.values():
            request = cli.parse(["--suite", "pytorch", "--quick"])
            with mock.patch.object(peers, "has_module", lambda _, name: name != "tutti.torch"), \
                    self.assertRaisesRegex(BenchError, r"has no tutti.torch: .* -m pip install \. in the repository"):
                module.measure(request)


if __name__ == "__main__":
    unittest.main()
