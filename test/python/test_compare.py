#!/usr/bin/python3
"""benchmarks/compare.py: its medians, verdicts, rounds, files and command line, without measuring anything."""
import contextlib
import dataclasses
import io
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))

from compare import cli, lab, lanes, machine, negotiation, node_targets, openmpi, outcome, peers, record, rounds, table, targets, wire
from compare.contest import BenchError, Contest, Launcher, end, execute, facts_of, last_words
from compare.figures import Figures

KIB, MIB = 1 << 10, 1 << 20


def row(contest, who, us, ranks=2, size=4):
    return {"contest": contest, "who": who, "ranks": ranks, "bytes": size, "time_us": {"p50": us},
            "setting": f"setting of {contest}", "wrong": 0}


def contest(name, needed=False, covers=None):
    return Contest(name, "as it comes", ("true",), Launcher(), {}, covers=covers, needed=needed)


class Plain(Launcher):
    """Starts a program without an mpirun."""
    def line(self, ranks, program):
        return list(map(str, program))


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

    def test_per_cents_and_what_is_near_0_or_1_are_not_rounded_to_whole_per_cents(self):
        self.assertEqual([targets.judge_share(share, 0.95) for share in (0.946, 0.9494, 0.9496)], ["short", "short", "pass"])
        self.assertEqual([targets.at_most("P8", "", idle, 0.01, "of a core", targets.FINE).verdict for idle in (0.0149, 0.0104)],
                         ["short", "pass"])
        self.assertEqual(targets.at_most("P8", "", 0.0149, 0.01, "of a core", targets.FINE).reached, "0.015 of a core")
        figures = Figures([row("Open MPI", "tutti", 100, 2, 64 * MIB)])
        floor, = node_targets.of_floor(figures, 2, [64 * MIB], {(2, 64 * MIB): 59.6})
        self.assertEqual((floor.reached, floor.verdict), ("59.6 %", "short"))

    def test_nothing_passes_where_sums_are_wrong(self):
        verdicts = [targets.Verdict("P1", "", "", "", "", verdict) for verdict in ("pass", "short", "not measured")]
        wrong = [{"wrong": 0}, {"wrong": 2}]
        self.assertEqual([v.verdict for v in targets.trusted(verdicts, wrong)], ["wrong sums", "short", "not measured"])
        self.assertEqual(targets.trusted(verdicts, wrong[:1]), verdicts)

    def found(self, rows, sizes=(64 * MIB,), ranks=(8,), floor=None):
        return {verdict.what: verdict for verdict in node_targets.verdicts(Figures(rows), ranks, sizes, floor or {})}

    def test_large_private_buffers_are_held_against_open_mpi_intel_mpi_and_the_floor(self):
        rows = [row("picked", who, us, 8, 64 * MIB) for who, us in (("tutti", 100), ("Open MPI, picked", 349))]
        rows.append(row("Intel MPI", "Intel MPI", 105, 8, 64 * MIB))
        found = self.found(rows, floor={(8, 64 * MIB): 60})
        self.assertEqual(found["8 ranks, 64 MiB, tutti : Open MPI"].verdict, "short")
        self.assertEqual(found["8 ranks, 64 MiB, tutti : Open MPI"].reached, "3.49 x")
        self.assertEqual(found["8 ranks, 64 MiB, tutti : Intel MPI"].verdict, "pass")
        self.assertEqual(found["8 ranks, 64 MiB, part of the memory floor"].verdict, "pass")
        self.assertEqual(found["8 ranks, 64 MiB, tutti, shared : Open MPI"].verdict, "not measured")

    def test_both_medians_and_the_peers_setting_are_told(self):
        rows = [row("picked", "tutti", 2, 2, 64 * KIB), row("picked", "Open MPI, picked", 2500, 2, 64 * KIB)]
        found = self.found(rows, (64 * KIB,), (2,))
        self.assertEqual(found["2 ranks, 64 KiB, tutti : Open MPI"].detail, "2 µs : 2.5 ms (setting of picked)")

    def test_the_best_of_open_mpis_settings_counts_and_its_default_is_told(self):
        rows = [row("Open MPI", "tutti", 20, 8, 4), row("Open MPI", "Open MPI", 25, 8, 4),
                row("picked", "tutti", 20, 8, 4), row("picked", "Open MPI, picked", 22, 8, 4)]
        found = self.found(rows, (4,))["8 ranks, 4 B, tutti : Open MPI"]
        self.assertEqual((found.wanted, found.reached, found.verdict), (">= 1.2 x", "1.10 x", "short"))
        self.assertEqual(found.detail, "20 µs : 22 µs (setting of picked); default 25 µs, 1.25 x")

    def test_where_the_default_is_open_mpis_best_it_counts(self):
        rows = [row("Open MPI", "tutti", 20, 8, 4), row("Open MPI", "Open MPI", 25, 8, 4),
                row("picked", "tutti", 20, 8, 4), row("picked", "Open MPI, picked", 30, 8, 4)]
        found = self.found(rows, (4,))["8 ranks, 4 B, tutti : Open MPI"]
        self.assertEqual((found.reached, found.detail), ("1.25 x", "20 µs : 25 µs (setting of Open MPI)"))

    def test_without_a_picked_setting_open_mpis_best_is_not_known(self):
        rows = [row("Open MPI", who, us, 8, size) for who, us in (("tutti", 1), ("tutti, shared", 1), ("Open MPI", 900))
                for size in (4, 16 * KIB, 16 * MIB, 64 * MIB)]
        found = [v for v in self.found(rows, (4, 16 * KIB, 16 * MIB, 64 * MIB)).values() if "Open MPI" in v.what]
        self.assertEqual([v.verdict for v in found], ["not measured"] * 7)
        self.assertIn("default 900 µs, 900.00 x", found[0].detail)

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
                         [negotiation.REPLAYED, "Horovod", "target"])


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
        self.assertEqual(set(skipped), set(peers.ELSEWHERE))
        self.assertEqual(set(skipped_for_steps), set(peers.ELSEWHERE))
        self.assertRegex(skipped["Horovod"], "^not installed; pip install horovod")
        self.assertRegex(skipped_for_steps["PyTorch's DDP"], "^not installed; pip install torch")

    def test_each_setting_of_horovod_has_rows_of_its_own(self):
        (of_node, skipped), (of_steps, skipped_for_steps) = self.with_modules("horovod.torch", "torch.distributed")
        self.assertNotIn("Horovod", {**skipped, **skipped_for_steps})
        yielding = "OMPI_MCA_mpi_yield_when_idle=1"
        horovods = [one for one in of_node if one.name.startswith("Horovod")]
        self.assertEqual([one.setting for one in horovods],
                         ["default", "HOROVOD_CYCLE_TIME=0", f"HOROVOD_CYCLE_TIME=0, {yielding}"])
        self.assertEqual([one.setting for one in of_steps][:5],
                         ["default", "HOROVOD_CYCLE_TIME=0.1", "HOROVOD_CYCLE_TIME=0",
                          f"HOROVOD_CYCLE_TIME=0.1, {yielding}", f"HOROVOD_CYCLE_TIME=0, {yielding}"])
        for contests in (of_node, of_steps):
            names = [who for one in contests for who in one.names.values()]
            self.assertEqual(len(names), len(set(names)), names)
        self.assertEqual([one.setting for one in of_node + of_steps if "Horovod" in one.names.values()], ["default"] * 2)

    def test_horovod_is_told_to_yield_where_open_mpi_does_not_by_itself(self):
        with mock.patch("os.sched_getaffinity", return_value={0, 1}):
            (of_node, _), _ = self.with_modules("horovod.torch")
        self.assertEqual([[one.name for one in peers.fitting(of_node, ranks)] for ranks in (2, 4)],
                         [["Horovod", "Horovod, 0 ms", "Horovod, 0 ms, yielding"], ["Horovod", "Horovod, 0 ms"]])
        self.assertEqual(of_node[-1].env["OMPI_MCA_mpi_yield_when_idle"], "1")

    def test_everyones_steps_have_the_same_part_before_them(self):
        warmup = [int(words[words.index("--warmup") + 1]) for words in
                  (negotiation.options(steps, 1) for steps in (negotiation.STEPS, negotiation.STEPS // negotiation.PEERS_PART))]
        self.assertEqual(warmup, [1000, 25])

    def test_gloo_and_horovod_are_run_for_some_sizes(self):
        (of_node, _), _ = self.with_modules("horovod.torch", "torch.distributed")
        sizes = [4, KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 16 * MIB, 64 * MIB, 128 * MIB]
        self.assertEqual([one.sizes_of(sizes) for one in of_node],
                         [[4, 16 * KIB, 64 * KIB, MIB, 64 * MIB]] * 4)


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

    def test_one_that_ends_well_and_leaves_no_rows_is_a_failure(self):
        with self.assertRaisesRegex(BenchError, "true .*: ended well, and left no rows"):
            dataclasses.replace(contest("x"), launcher=Plain()).run(2, [])

    def test_a_program_that_is_ended_may_clean_up_first(self):
        with tempfile.TemporaryDirectory() as folder:
            left = pathlib.Path(folder, "left")
            with self.assertRaises(BenchError):
                execute(["sh", "-c", f"trap 'touch {left}; exit' TERM; sleep 60 & wait"], {}, list, limit=0.5)
            self.assertTrue(left.exists())

    def test_a_program_that_does_not_end_is_killed(self):
        process = subprocess.Popen(["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"], start_new_session=True,
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

    def test_screening_runs_each_candidate_once_and_keeps_each_sizes_quickest(self):
        ran, lost = [], {}
        times = {"3": {4: 2, 64: 30}, "4": {4: 3, 64: 20}}

        def race(one, ranks, sizes, _):
            number = one.env["OMPI_MCA_coll_tuned_allreduce_algorithm"]
            ran.append((number, sizes))
            if number == "6":
                raise BenchError("it fell")
            return [row("screening", "Open MPI", times[number][size], ranks, size) for size in sizes]
        with mock.patch.object(Contest, "race", race):
            choice = openmpi.screen(contest("x"), 8, (4, 64), openmpi.settings(True, 8), lost)
        self.assertEqual({size: setting.algorithm for size, setting in choice.items()}, {4: 3, 64: 4})
        self.assertEqual(ran, [(number, (4, 64)) for number in "346"])
        self.assertEqual(list(lost.values()), ["it fell"])

    def screened(self, ranks, sizes, candidates, wrong=()):
        """({setting: sizes that it was run for}, paces, what was chosen)"""
        ran, paces = {}, set()

        def race(one, _, all_sizes, pace):
            name = next(setting.name for setting in candidates if dict(setting.env) == one.env)
            ran[name] = one.sizes_of(all_sizes)
            paces.add(pace)
            return [{**row("screening", "Open MPI", len(ran), ranks, size), "wrong": int(name in wrong)} for size in ran[name]]
        with mock.patch.object(Contest, "race", race):
            choice = openmpi.screen(contest("x"), ranks, sizes, candidates, {})
        return ran, paces, choice

    def test_a_segmented_ring_has_segments_and_no_candidate_runs_what_it_cannot_be_best_for(self):
        ran, paces, _ = self.screened(8, (MIB, 16 * MIB), openmpi.on_hosts(False))
        self.assertEqual({name: sizes for name, sizes in ran.items() if "segment" in name or "doubling" in name},
                         {"coll_tuned recursive doubling": [MIB], "coll_tuned segmented ring, segments of 32K": [MIB, 16 * MIB],
                          "coll_tuned segmented ring, segments of 128K": [MIB, 16 * MIB],
                          "coll_tuned segmented ring, segments of 1M": [16 * MIB]})
        self.assertIn("coll_tuned ring, eager limit of 512K", ran)
        pace, = paces
        self.assertEqual((pace.least, pace.warmup), (3, 1))
        self.assertEqual(self.screened(2, (16 * MIB,), openmpi.on_hosts(False))[0]["coll_tuned recursive doubling"], [16 * MIB])

    def test_a_candidate_with_wrong_sums_is_not_picked(self):
        first, second = openmpi.on_hosts(True)[:2]
        self.assertEqual(self.screened(2, (4,), [first, second], wrong=(first.name,))[2], {4: second})

    def test_each_ranks_own_core_is_a_setting_where_there_are_as_many(self):
        with mock.patch("os.sched_getaffinity", return_value={0, 1}):
            self.assertEqual([[setting.env for setting in openmpi.settings(True, ranks) if setting.name == "bound to cores"]
                              for ranks in (2, 4)], [[(("OMPI_MCA_hwloc_base_binding_policy", "core"),)], []])

    def test_a_rule_has_its_segment_and_the_setting_names_it(self):
        ring, segmented = openmpi.tuned(4), openmpi.tuned(openmpi.SEGMENTED, 128 * KIB)
        with tempfile.TemporaryDirectory() as folder:
            picked, = openmpi.picked(contest("x"), 4, {MIB: segmented, 4: ring}, pathlib.Path(folder))
            rules = pathlib.Path(folder, "coll_tuned-4.rules").read_text()
        self.assertEqual(rules.split("\n")[5:], ["0 4 0 0", f"{MIB} 5 0 {128 * KIB}", ""])
        self.assertEqual(picked.setting, "coll_tuned by size: ring, segmented ring, segments of 128K")
        self.assertEqual(dict(segmented.env)["OMPI_MCA_coll_tuned_allreduce_algorithm_segmentsize"], str(128 * KIB))

    def test_each_size_gets_the_algorithm_that_was_quickest_for_it(self):
        tuned, other = openmpi.tuned(3), openmpi.Setting("coll_sm", (("a", "b"),))
        choice = {4: other, 64: tuned, 4096: tuned}
        with tempfile.TemporaryDirectory() as folder:
            picked = openmpi.picked(contest("x"), 8, choice, pathlib.Path(folder))
            rules = pathlib.Path(folder, "coll_tuned-8.rules").read_text()
        self.assertEqual([one.sizes_of([4, 64, 4096]) for one in picked], [[64, 4096], [4]])
        self.assertEqual(rules.split("\n"), ["1", "2", "1", "8", "2", "0 3 0 0", "4096 3 0 0", ""])


class Shown(unittest.TestCase):
    def test_columns_line_up(self):
        self.assertEqual(table.grid(["who", "µs"], [["tutti", "3"], ["x", "12"]]), "who    µs\ntutti   3\nx      12")

    def test_wrong_sums_have_lines_of_their_own(self):
        rows = [{**row("a", "tutti", 1), "round": 1, "wrong": wrong} for wrong in (0, 3)]
        shown = table.of_outcome(outcome.Outcome("t", rows, [], {}, ["who"], [["tutti"]], [], ("x", "y")))
        self.assertEqual([line for line in shown.splitlines() if line.startswith("wrong")],
                         ["wrong: tutti (setting of a), 2 ranks, 4 bytes, round 2: 3 elements"])

    def test_programs_that_say_the_same_share_a_line_and_what_is_not_said_is_not_made_up(self):
        rows = [{**row("a", "tutti", 1, ranks), "version": "1", "facts": facts} for ranks, facts in (
            (2, {"MPI": "Open MPI 4", "single copy in a node": "cma"}), (4, {"MPI": "Open MPI 4", "single copy in a node": "cma"}), (8, {}))]
        self.assertEqual([line.split(" (setting of a): ") for line in lanes.describe(rows)],
                         [["# 2, 4 ranks, a", "Open MPI 4; yields when idle: not said; single copy: cma; processors of rank 0: not said"],
                          ["# 8 ranks, a", "1; yields when idle: not said; single copy: not said; processors of rank 0: not said"]])

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


class Machine(unittest.TestCase):
    def test_what_others_and_the_host_take_is_told_of_the_time_that_has_passed(self):
        with tempfile.TemporaryDirectory() as folder:
            files = [pathlib.Path(folder, name) for name in ("before", "after")]
            for file, line in zip(files, ("cpu  10 20 30 400 40 5 6 7 0 0", "cpu  60 30 50 700 90 15 16 57 0 0")):
                file.write_text(line + "\ncpu0 1 2 3 4 5 6 7 8 0 0\n")
            passed = machine.times(files[0]).since(machine.times(files[1]))
        self.assertEqual((passed.busy, passed.stolen), (100 / 500, 50 / 500))

    def test_a_busy_machine_is_said_so(self):
        facts = dict.fromkeys(("cpu", "cores", "last_level_cache", "memory", "system", "kernel", "commit"), "x")
        self.assertNotIn("something else", machine.text({**facts, "busy_before": 0.049}))
        self.assertIn("before the run: 6.0 % - something else is running", machine.text({**facts, "busy_before": 0.06}))


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

    def refusal(self, *words):
        with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
            cli.parse(["--suite", *words])
        return said.getvalue().splitlines()[-1]

    def test_an_option_is_never_cut_short_and_a_misspelt_one_is_told_its_name(self):
        self.assertIn("--round (did you mean --rounds?)", self.refusal("node", "--round", "9"))
        self.assertIn("--byts=4 (did you mean --bytes?)", self.refusal("node", "--byts=4"))
        self.assertTrue(self.refusal("node", "xyz").endswith("unknown: xyz"))

    def test_a_signal_ends_it_once_behind_what_it_cleans_up(self):
        ended, said = [], io.StringIO()

        def measure(_):
            try:
                signal.raise_signal(signal.SIGHUP)
            finally:
                signal.raise_signal(signal.SIGTERM)
                ended.append("cleaned up")
        kept = {number: signal.getsignal(number) for number in cli.ENDED_BY}
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup has it ignored, also by this test
        try:
            with mock.patch.object(cli.node, "measure", measure), contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
                status = cli.main(["--suite", "node"])
        finally:
            for number, handler in kept.items():
                signal.signal(number, handler)
        self.assertEqual((status, ended), (128 + signal.SIGHUP, ["cleaned up"]))
        self.assertIn("ended by SIGHUP", said.getvalue())

    def test_what_a_suite_would_ignore_is_refused(self):
        for words, said in ((["lab", "--only", "ranks", "--ranks", "2"], "--ranks: suite lab, part ranks, has its own"),
                            (["lab", "--ranks", "2"], "--only chooses another part"),
                            (["negotiation", "--bytes", "4"], "--bytes: suite negotiation has its own"),
                            (["training", "--bytes", "4"], "--bytes: suite training has its own"),
                            (["lab", "--only", "parameter-server", "--bytes", "4,8"], "part parameter-server, takes one value"),
                            (["lab", "--only", "parameter-server", "--ranks", "4,8"], "part parameter-server, takes one value")):
            with self.subTest(words):
                self.assertIn(said, self.refusal(*words))
        cli.parse(["--suite", "lab", "--only", "parameter-server", "--ranks", "4", "--bytes", "4M"])


if __name__ == "__main__":
    unittest.main()
