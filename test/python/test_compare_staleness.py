#!/usr/bin/python3
"""benchmarks/compare/staleness.py: the trainings with their bounds, and the record of them."""
import json
import pathlib
import subprocess
import unittest
from unittest import mock

import comparing  # pylint: disable=unused-import
from compare import cli, record, staleness
from compare.contest import BenchError

SYNC, NONE, TWO, FREE = staleness.SETTINGS


def row(setting, *accuracies, network="lenet"):
    return {"network": network, "who": setting.name, "accuracy": list(accuracies), "loss": [1.0] * len(accuracies),
            "samples_per_second": [100.0] * len(accuracies), "wrong": 0}


def number_after(words, option):
    return int(words[words.index(option) + 1])


class Staleness(unittest.TestCase):
    def request(self, *words):
        return cli.parse(["--suite", "staleness", "--build", "/b", *words])

    def trained(self, words, code=0, weights=None, accuracy=0.5):
        weights = weights or ("aa",) * number_after(words, "-n")
        file = pathlib.Path(words[words.index("--json") + 1])
        file.write_text(json.dumps({"epochs": [{"test_accuracy": accuracy, "train_loss": 2.0,
                                                "all_samples_per_second": 9.0}]}))
        lines = "".join(f"[worker {i}] rank {i} weights sha256 {one}\n" for i, one in enumerate(weights))
        return subprocess.CompletedProcess(words, code, lines, "train: it failed\n")

    def test_the_same_is_trained_by_each_store_with_each_bound(self):
        ran = []

        def start(words, env, **_):
            ran.append((words, env.get("TUTTI_STALENESS")))
            return self.trained(words)
        with mock.patch.dict("os.environ", TUTTI_STALENESS="7"), mock.patch.object(subprocess, "run", start):
            outcome = staleness.measure(self.request("--rounds", "2", "--quick"))
        of = lambda option: [words[words.index(option) + 1] for words, _ in ran]
        self.assertEqual(list(zip(of("--kv-store"), (bound for _, bound in ran))),
                         2 * [("dist_sync", None), ("dist_async", "0"), ("dist_async", "2"), ("dist_async", "off")])
        self.assertEqual(of("--seed"), ["1"] * 4 + ["2"] * 4)
        self.assertEqual(set(of("--lr")), {str(staleness.RATE)})
        kept = record.document(self.request(), {}, outcome)
        self.assertEqual([(one["who"], one["round"]) for one in kept["rows"]],
                         [(one.name, number) for number in (0, 1) for one in staleness.SETTINGS])

    def test_a_whole_run_has_both_networks_the_long_one_once(self):
        with mock.patch.object(subprocess, "run", lambda words, **_: self.trained(words)):
            outcome = staleness.measure(self.request("--rounds", "3"))
        self.assertEqual({curve.panel for curve in outcome.curves}, {"lenet", "resnet18"})
        self.assertEqual([sum(one["network"] == network for one in outcome.rows) for network in ("lenet", "resnet18")],
                         [12, 4])

    def test_the_end_of_the_middle_round_is_judged(self):
        found = staleness.cells([row(one, 0.1, end) for one in (SYNC, FREE) for end in (0.94, 0.949, 0.99)])
        self.assertEqual([(v.reached, v.wanted, v.verdict) for v in staleness.verdicts(found)],
                         [("0.9490", ">= 0.95", "short"), ("0.9490", ">= 0.93", "pass")])

    def test_an_accuracy_is_judged_as_it_is_before_it_is_rounded(self):
        found = staleness.cells([row(SYNC, 0.94998)])
        self.assertEqual([v.verdict for v in staleness.verdicts(found)], ["short"])

    def test_each_bound_is_a_line_of_accuracies_by_epoch(self):
        drawn = staleness.drawn(staleness.cells([row(TWO, 0.2, 0.8), row(TWO, 0.4, 0.9), row(TWO, 0.3, 0.7),
                                                 row(NONE, 0.5, 0.6)]))
        self.assertEqual([(curve.label, curve.xs, curve.ys) for curve in drawn],
                         [(NONE.name, [1, 2], [0.5, 0.6]), (TWO.name, [1, 2], [0.3, 0.8])])

    def test_a_training_that_fails_or_leaves_workers_apart_ends_it_with_the_reason(self):
        for how, said in (({"code": 1}, "it failed"), ({"weights": ("aa", "ab", "aa", "aa")}, "not end with the same"),
                          ({"weights": ("aa",)}, "not end with the same")):
            with mock.patch.object(subprocess, "run", lambda words, how=how, **_: self.trained(words, **how)), \
                    self.assertRaisesRegex(BenchError, said):
                staleness.measure(self.request("--quick"))


if __name__ == "__main__":
    unittest.main()
