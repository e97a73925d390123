#!/usr/bin/python3
"""benchmarks/compare.py: its medians, verdicts, rounds, files and command line, without measuring anything."""
import contextlib
import dataclasses
import io
import json
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))

from compare import cli, lab, negotiation, node_targets, openmpi, outcome, peers, plot, record, rounds, table, targets, wire
from compare.contest import BenchError, Contest, Launcher, execute, facts_of, last_words
from compare.figures import Figures

KIB, MIB = 1 << 10, 1 << 20


def row(contest, who, us, ranks=2, size=4):
    return {"contest": contest, "who": who, "ranks": ranks, "bytes": size, "time_us": {"p50": us},
            "setting": f"setting of {contest}", "wrong": 0}


def contest(name, needed=False, covers=None):
    return Contest(name, "as it comes", ("true",), Launcher(), {}, covers=covers, needed=needed)


class Medians(unittest.TestCase):
    def test_a_time_is_the_median_over_rounds(self):
        figures = Figures([row("a", "tutti", us) for us in (9, 1, 2)])
        self.assertEqual(figures.time("a", "tutti", 2, 4), 2)
        self.assertEqual(figures.spread("a", "tutti", 2, 4), (1, 9))
        self.assertIsNone(figures.time("a", "tutti", 4, 4))

    def test_a_ratio_is_that_of_the_medians_not_the_median_of_ratios(self):
        own, peer = (1, 2, 10), (20, 4, 6)
        figures = Figures([row("a", who, us) for who, times in (("tutti", own), ("Open MPI", peer)) for us in times])
        self.assertEqual(figures.best("tutti", "Open MPI", 2, 4).value, 3)

    def test_the_best_of_a_peers_settings_counts_against_tutti_of_the_same_process(self):
        figures = Figures([row("default", "tutti", 10), row("default", "Open MPI", 40),
                           row("picked", "tutti", 20), row("picked", "Open MPI, picked", 30),
                           row("Intel MPI", "Intel MPI", 5)])
        ratio = figures.best("tutti", "Open MPI", 2, 4)
        self.assertEqual((ratio.peer_us, ratio.own_us, ratio.setting), (30, 20, "setting of picked"))

    def test_a_peers_setting_is_told_for_the_ranks_that_it_had(self):
        rows = [{**row("picked", who, 1, ranks), "setting": f"the one for {ranks}"}
                for ranks in (2, 8) for who in ("tutti", "Open MPI, picked")]
        figures = Figures(rows)
        self.assertEqual([figures.best("tutti", "Open MPI", n, 4).setting for n in (2, 8)], ["the one for 2", "the one for 8"])

    def test_a_peer_without_tutti_in_its_process_is_held_against_the_first_that_has(self):
        figures = Figures([row("default", "tutti", 10), row("picked", "tutti", 20), row("Gloo", "Gloo", 50)])
        self.assertEqual(figures.best("tutti", "Gloo", 2, 4).value, 5)
        self.assertIsNone(figures.best("tutti", "Horovod", 2, 4))


class Verdicts(unittest.TestCase):
    def test_the_wanted_value_itself_passes_and_what_is_printed_decides(self):
        self.assertEqual([targets.judge(value, 1.8) for value in (1.8, 1.796, 1.794)], ["pass", "pass", "short"])
        self.assertEqual([targets.judge(value, 3, at_most=True) for value in (3, 3.01)], ["pass", "short"])

    def found(self, rows, sizes=(64 * MIB,), ranks=(8,), floor=None):
        return {verdict.what: verdict for verdict in node_targets.verdicts(Figures(rows), ranks, sizes, floor or {})}

    def test_large_private_buffers_are_held_against_open_mpi_intel_mpi_and_the_floor(self):
        rows = [row("Open MPI", who, us, 8, 64 * MIB) for who, us in (("tutti", 100), ("Open MPI", 349))]
        rows.append(row("Intel MPI", "Intel MPI", 105, 8, 64 * MIB))
        found = self.found(rows, floor={(8, 64 * MIB): 60})
        self.assertEqual(found["8 ranks, 64 MiB, tutti : Open MPI"].verdict, "short")
        self.assertEqual(found["8 ranks, 64 MiB, tutti : Open MPI"].reached, "3.49 x")
        self.assertEqual(found["8 ranks, 64 MiB, tutti : Intel MPI"].verdict, "pass")
        self.assertEqual(found["8 ranks, 64 MiB, part of the memory floor"].verdict, "pass")
        self.assertEqual(found["8 ranks, 64 MiB, tutti, shared : Open MPI"].verdict, "not measured")

    def test_both_medians_and_the_peers_setting_are_told(self):
        rows = [row("Open MPI", "tutti", 2, 2, 64 * KIB), row("Open MPI", "Open MPI", 2500, 2, 64 * KIB)]
        found = self.found(rows, (64 * KIB,), (2,))
        self.assertEqual(found["2 ranks, 64 KiB, tutti : Open MPI"].detail, "2 µs : 2.5 ms (setting of Open MPI)")

    def test_open_mpi_counts_as_it_comes_and_its_best_setting_is_told(self):
        rows = [row("Open MPI", "tutti", 20, 8, 4), row("Open MPI", "Open MPI", 25, 8, 4),
                row("picked", "tutti", 20, 8, 4), row("picked", "Open MPI, picked", 22, 8, 4)]
        found = self.found(rows, (4,))["8 ranks, 4 B, tutti : Open MPI"]
        self.assertEqual((found.reached, found.verdict), ("1.25 x", "pass"))
        self.assertEqual(found.detail, "20 µs : 25 µs (setting of Open MPI); best 22 µs, 1.10 x (setting of picked)")

    def test_each_number_of_ranks_has_its_own_factor_at_16_mib_and_from_64_mib(self):
        wanted = [found.wanted for n in (2, 4, 8) for size in (16 * MIB, 64 * MIB)
                  for found in node_targets.large(Figures([]), n, [size]) if "Open MPI" in found.what]
        self.assertEqual([text.split()[1] for text in wanted],
                         ["1.6", "3", "1.8", "4", "1.7", "3.3", "2.5", "5", "2.1", "4", "3.5", "6"])

    def test_negotiation_wants_no_message_while_replaying_and_some_without(self):
        def steps(who, sent):
            return {"who": who, "ranks": 2, "time_us": {"p50": 30}, "control_messages": sent, "idle_cores": 0.001,
                    "iters": 9, "wrong": 0}
        rows = [steps(negotiation.REPLAYED, 0), steps(negotiation.REPLAYED, 1), steps(negotiation.ASKED, 4)]
        self.assertEqual([v.verdict for v in negotiation.verdicts(rows, [2])],
                         ["pass", "short", "pass", "pass", "not measured"])
        self.assertEqual([v.verdict for v in negotiation.verdicts(rows[::2], [2])][1], "pass")

    def test_horovods_default_counts_for_small_sizes_and_its_best_is_told(self):
        rows = [row("Open MPI", "tutti", 10, 2, size) for size in (4, 64 * KIB, 64 * MIB)]
        rows += [row(who, who, us, 2, size) for who, us in (("Horovod", 200), ("Horovod, 0 ms", 25), ("Horovod, 0.1 ms", 30))
                 for size in (4, 64 * MIB)]
        rows.append(row("Horovod", "Horovod", 199, 2, 64 * KIB))
        found = {v.what: v for v in node_targets.verdicts(Figures(rows), (2,), (4, 64 * KIB, 64 * MIB), {}) if "Horovod" in v.what}
        self.assertEqual([(what, v.verdict) for what, v in found.items()],
                         [("2 ranks, 4 B, tutti : Horovod", "pass"), ("2 ranks, 64 KiB, tutti : Horovod", "short")])
        self.assertEqual(found["2 ranks, 4 B, tutti : Horovod"].detail,
                         "10 µs : 200 µs (setting of Horovod); best 25 µs, 2.50 x (setting of Horovod, 0 ms)")

    def test_without_horovods_default_small_sizes_are_not_measured_against_it(self):
        rows = [row("Open MPI", "tutti", 10), row("Horovod, 0 ms", "Horovod, 0 ms", 900)]
        verdicts = {sizes: [v.verdict for v in node_targets.verdicts(Figures(rows), (2,), sizes, {}) if "Horovod" in v.what]
                    for sizes in ((4,), (MIB,))}
        self.assertEqual(verdicts, {(4,): ["not measured"], (MIB,): []})

    def test_a_step_is_held_against_the_best_of_horovods_with_as_many_ranks(self):
        rows = [{"who": who, "ranks": ranks, "time_us": {"p50": us}} for who, ranks, us in (
            (negotiation.REPLAYED, 2, 30), ("Horovod", 2, 5000), ("Horovod, 0 ms, grouped", 2, 597), ("DDP, Gloo", 2, 1),
            ("Horovod, 0.1 ms", 2, 600), (negotiation.REPLAYED, 8, 100), ("Horovod", 8, 2000), ("Horovod, 0 ms, grouped", 8, 9000))]
        found = [negotiation.against_horovod(rows, ranks) for ranks in (2, 8)]
        self.assertEqual([(v.reached, v.verdict) for v in found], [("19.90 x", "short"), ("20.00 x", "pass")])
        self.assertEqual(found[0].detail, "30 µs : 597 µs (Horovod, 0 ms, grouped)")

    def test_steps_of_peers_stand_in_the_table_without_what_only_tutti_counts(self):
        own = {"who": negotiation.REPLAYED, "ranks": 2, "time_us": {"p50": 30}, "control_messages": 3, "idle_cores": 0, "iters": 9}
        peer = {"who": "Horovod", "ranks": 2, "time_us": {"p50": 600}, "idle_cores": 0.3, "iters": 2}
        lines = negotiation.table_lines([{**one, "setting": "x"} for one in (own, peer)], [2])
        self.assertEqual([line[4:] for line in lines], [["30 µs-30 µs", "1.00", "3", 9, "0.00 %"],
                                                        ["600 µs-600 µs", "20.00", "-", 2, "30.00 %"]])
        self.assertEqual([curve.label for curve in negotiation.curves([own, peer], [2])],
                         [negotiation.REPLAYED, "Horovod", "target at 2 ranks"])


class Peers(unittest.TestCase):
    def with_modules(self, *modules):
        """(contests, skipped) of node and of steps, with these in the peers' Python."""
        request = cli.parse(["--suite", "node"])
        with mock.patch.object(peers, "has_module", lambda _, name: name in modules), \
                mock.patch.object(peers, "prefix_of", lambda _: pathlib.Path("/no/such/prefix")):
            return peers.installed(request), peers.installed_for_steps(request)

    def test_what_is_not_installed_is_skipped_with_the_package_that_brings_it(self):
        (of_node, skipped), (of_steps, skipped_for_steps) = self.with_modules()
        self.assertEqual((of_node, of_steps), ([], []))
        self.assertEqual(set(skipped), {"Intel MPI", "Gloo", "Horovod", "MXNet's parameter server"})
        self.assertRegex(skipped["Horovod"], "^not installed; pip install horovod")
        self.assertRegex(skipped_for_steps["PyTorch's DDP"], "^not installed; pip install torch")

    def test_each_setting_of_horovod_has_rows_of_its_own(self):
        (of_node, skipped), (of_steps, skipped_for_steps) = self.with_modules("horovod.torch", "torch.distributed")
        self.assertNotIn("Horovod", {**skipped, **skipped_for_steps})
        horovods = [one for one in of_node if one.name.startswith("Horovod")]
        self.assertEqual([one.setting for one in horovods], ["default", "HOROVOD_CYCLE_TIME=0"])
        self.assertEqual([one.setting for one in of_steps][:3], ["default", "HOROVOD_CYCLE_TIME=0.1", "HOROVOD_CYCLE_TIME=0"])
        for contests in (of_node, of_steps):
            names = [who for one in contests for who in one.names.values()]
            self.assertEqual(len(names), len(set(names)), names)
        self.assertEqual([one.setting for one in of_node + of_steps if "Horovod" in one.names.values()], ["default"] * 2)

    def test_gloo_and_horovod_are_run_for_some_sizes(self):
        (of_node, _), _ = self.with_modules("horovod.torch", "torch.distributed")
        sizes = [4, KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 16 * MIB, 64 * MIB, 128 * MIB]
        self.assertEqual([one.sizes_of(sizes) for one in of_node],
                         [[4, 16 * KIB, 64 * KIB, MIB, 64 * MIB]] * 3)


class Rounds(unittest.TestCase):
    def run_all(self, contests, rounds_wanted=3, failing=()):
        ran, lost = [], {}

        def run(one):
            ran.append(one.name)
            if one.name in failing and len(ran) > len(contests):
                raise BenchError("it fell")
            return [row(one.name, one.name, 1)]
        return rounds.interleave(contests, 2, rounds_wanted, run, lost), ran, lost

    def test_every_contest_runs_once_a_round_and_each_round_begins_with_another(self):
        rows, ran, _ = self.run_all([contest("a"), contest("b"), contest("c")])
        self.assertEqual("".join(ran), "abcbcacab")
        self.assertEqual([r["round"] for r in rows], [0] * 3 + [1] * 3 + [2] * 3)

    def test_a_peer_that_fails_is_left_out_altogether_and_the_reason_told(self):
        rows, ran, lost = self.run_all([contest("a"), contest("b")], failing=("b",))
        self.assertEqual({r["who"] for r in rows}, {"a"})
        self.assertEqual(ran.count("b"), 2)
        self.assertEqual(lost, {"b, 2 ranks": "it fell"})

    def test_what_is_needed_must_not_fail(self):
        with self.assertRaises(BenchError):
            self.run_all([contest("a", needed=True)], failing=("a",))


class Programs(unittest.TestCase):
    def test_wrong_sums_are_rows_and_no_failure_but_a_failure_without_rows_is_one(self):
        execute(["sh", "-c", "exit 1"], {}, lambda: [{"wrong": 3}])
        with self.assertRaisesRegex(BenchError, "ended with 1: no memory"):
            execute(["sh", "-c", "echo no memory >&2; exit 1"], {}, list)
        with self.assertRaisesRegex(BenchError, "cannot start no-such-program"):
            execute(["no-such-program"], {}, list)
        with self.assertRaisesRegex(BenchError, "still running"):
            execute(["sleep", "60"], {}, list, limit=0.2)

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

    def test_screening_runs_each_candidate_once_and_keeps_each_sizes_quickest(self):
        ran, lost = [], {}
        times = {"3": {4: [9, 2], 64: [30]}, "4": {4: [8, 3], 64: [20]}}  # of 4 bytes first the turn that connects

        def race(one, ranks, sizes, _):
            number = one.env["OMPI_MCA_coll_tuned_allreduce_algorithm"]
            ran.append((number, sizes))
            if number == "6":
                raise BenchError("it fell")
            left = {size: list(us) for size, us in times[number].items()}
            return [row("screening", "Open MPI", left[size].pop(0), ranks, size) for size in sizes]
        with mock.patch.object(Contest, "race", race):
            choice = openmpi.screen(contest("x"), 8, (4, 64), openmpi.settings(True), lost)
        self.assertEqual({size: setting.algorithm for size, setting in choice.items()}, {4: 3, 64: 4})
        self.assertEqual(ran, [(number, (4, 4, 64)) for number in "346"])
        self.assertEqual(list(lost.values()), ["it fell"])

    def test_each_size_gets_the_algorithm_that_was_quickest_for_it(self):
        tuned, other = openmpi.settings(True)[0], openmpi.Setting("coll_sm", (("a", "b"),))
        choice = {4: other, 64: tuned, 4096: tuned}
        with tempfile.TemporaryDirectory() as folder:
            picked = openmpi.picked(contest("x"), 8, choice, pathlib.Path(folder))
            rules = pathlib.Path(folder, "coll_tuned-8.rules").read_text()
        self.assertEqual([one.sizes_of([4, 64, 4096]) for one in picked], [[64, 4096], [4]])
        self.assertEqual(rules.split("\n"), ["1", "2", "1", "8", "2", "0 3 0 0", "4096 3 0 0", ""])


class Shown(unittest.TestCase):
    def test_columns_line_up(self):
        self.assertEqual(table.grid(["who", "µs"], [["tutti", "3"], ["x", "12"]]), "who    µs\ntutti   3\nx      12")

    def test_times_and_sizes_are_said_in_fitting_units(self):
        self.assertEqual([targets.times(us) for us in (0.5, 999, 2500, 3e6)], ["0.5 µs", "999 µs", "2.5 ms", "3 s"])
        self.assertEqual([targets.size_text(size) for size in (4, 16 * KIB, 64 * MIB)], ["4 B", "16 KiB", "64 MiB"])

    def test_a_second_run_of_a_day_keeps_the_firsts_record(self):
        kept = outcome.Outcome("t", [row("a", "tutti", 1)], [], {"Horovod": "why"}, [], [], [], ("x", "y"),
                               extra={"floor_us": {"a": {"b": 1}}})
        with tempfile.TemporaryDirectory() as folder:
            request = dataclasses.replace(cli.parse(["--suite", "node"]), out=pathlib.Path(folder))
            files = [record.write(request, record.document(request, {"machine": {"a": {}}}, kept))[0] for _ in range(2)]
            read = [json.loads(file.read_text()) for file in files]
        self.assertTrue(files[1].name.endswith("-node-2.json"), files)
        self.assertEqual([document["rows"] for document in read], [kept.rows] * 2)
        self.assertEqual(read[0]["skipped"], {"Horovod": "why"})


class Plots(unittest.TestCase):
    def test_every_panel_is_drawn_as_lines_and_as_bars(self):
        curves = [outcome.Curve(f"panel {n}", label, [0, 1], [n + 1, 2], label == "bound")
                  for n in range(5) for label in ("tutti", "Open MPI, picked", "bound")]
        for style in (outcome.Style(), outcome.Style("linear", "linear"), outcome.Style(ticks=["a", "b"])):
            with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as said:
                drawn = outcome.Outcome("t", [], [], {}, [], [], curves, ("x", "y"), style=style)
                files = plot.write(pathlib.Path(folder, "p"), drawn)
                if "has no matplotlib" in said.getvalue():
                    self.skipTest(said.getvalue())
                self.assertEqual(pathlib.Path(folder, "p.svg").read_text().count("<!-- panel "), 5)
                self.assertEqual([file.suffix for file in files], [".png", ".svg"])


class CommandLine(unittest.TestCase):
    def test_quick_takes_fewer_rounds_and_keeps_its_record_out_of_the_tree(self):
        quick, full = cli.parse(["--suite", "node", "--quick", "--build", "/b"]), cli.parse(["--suite", "node"])
        self.assertEqual((quick.rounds, full.rounds), (3, 5))
        self.assertEqual(quick.out, pathlib.Path("/b/compare"))
        self.assertEqual(full.out, cli.ROOT / "benchmarks/results")

    def test_sizes_and_ranks_are_lists(self):
        request = cli.parse(["--suite", "node", "--bytes", "4,64K,1m", "--ranks", "2,8"])
        self.assertEqual((request.sizes, request.ranks), ((4, 64 * KIB, MIB), (2, 8)))

    def test_suite_lab_is_kept_part_by_part_and_one_may_be_chosen(self):
        all_parts, one = (cli.parts_of(cli.parse(["--suite", "lab", *words])) for words in ([], ["--only", "wire"]))
        self.assertEqual([request.part for request, _ in all_parts], list(lab.PARTS))
        self.assertEqual([(request.part, module) for request, module in one], [("wire", wire)])
        self.assertEqual([request.part for request, _ in cli.parts_of(cli.parse(["--suite", "node"]))], [""])
        with tempfile.TemporaryDirectory() as folder:
            request = dataclasses.replace(one[0][0], out=pathlib.Path(folder))
            file, = record.write(request, {"rows": []})
        self.assertTrue(file.name.endswith("-lab-wire.json"), file)

    def test_what_cannot_be_is_refused(self):
        for words in (["--only", "links"], ["--bytes", "3"], ["--bytes", "4,x"], ["--ranks", "0"], ["--rounds", "-1"]):
            with self.subTest(words), contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
                cli.parse(["--suite", "node", *words])


if __name__ == "__main__":
    unittest.main()
