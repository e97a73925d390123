#!/usr/bin/python3
"""compare.py's suites on emulated hosts: bounds, verdicts and the sums of the peers' programs. The tests measure
nothing.
"""
import pathlib
import shlex
import sys
import tempfile
import unittest
from unittest import mock

BENCHMARKS = pathlib.Path(__file__).resolve().parents[2] / "benchmarks"
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS / "peers")]

import racing
import stepping
from compare import cases, cli, emulated, links, peers, ps_hosts, ranks_a_host, training, wire
from compare.contest import rows_of
from compare.emulated import Layout, hosts
from compare.intel_on_hosts import Hydra
from resnet50 import in_proportion, resnet50

MB = 10**6
REAL_BURST = emulated.Links.burst


def row(contest, who, us, ranks, size):
    return {"contest": contest, "who": who, "ranks": ranks, "bytes": size, "time_us": {"p50": us},
            "setting": f"setting of {contest}", "wrong": 0, "version": "1", "facts": {}}


def on_hosts(*times, layout=Layout(8), size=40 * MB, rate=100 * MB):
    """A contest on hosts with rows (contest, who, ms)."""
    return cases.Case(layout, [row(name, who, ms * 1e3, layout.ranks, size) for name, who, ms in times], rate)


class Lab(unittest.TestCase):
    def setUp(self):
        """Sets links that let no bytes pass at once, except in tests about that."""
        still = mock.patch.object(emulated.Links, "burst", 0)
        still.start()
        self.addCleanup(still.stop)

    def test_an_allreduce_sends_each_link_twice_the_bytes_but_for_its_own_share(self):
        self.assertEqual([Layout(n).share() for n in (2, 4, 8)], [1, 1.5, 1.75])
        self.assertEqual(on_hosts().bound_us(40 * MB), 700_000)
        self.assertEqual(Layout(2, 4).share(), 1, "ranks of one host share its link")

    def test_what_a_rested_link_lets_pass_at_once_is_no_part_of_the_bound(self):
        with mock.patch.object(emulated.Links, "burst", 125e3):
            case = on_hosts(("Open MPI", "tutti", 9.2), ("Open MPI, picked", "Open MPI, picked", 10), layout=Layout(2),
                            size=MB)
            self.assertEqual(case.bound_us(MB), 8750)
            of_bound, peer = links.verdicts([case])
            self.assertEqual((of_bound.reached, of_bound.verdict), ("95.1 %", "pass"))
            self.assertIn("at most 1.14 x", peer.detail)
            self.assertEqual([line["bound_us"] for line in cases.facts(case)], [8750] * 2)
            self.assertEqual([line["bound_us"] for line in wire.halved(
                on_hosts(("bf16", wire.label("bf16"), 5), layout=Layout(2), size=MB))],
                             [3750])
            eight = on_hosts(("Open MPI", "tutti", 16.25), ("m", "MXNet, 1 server", 70), size=MB)
            self.assertEqual([line["bound_us"] for line in ps_hosts.facts(eight)], [16250, 68750])
            self.assertGreater(on_hosts(size=4).bound_us(4), 0)

    def test_a_link_lets_a_thousandth_of_a_seconds_payload_pass_at_once(self):
        with mock.patch.object(emulated.Links, "burst", REAL_BURST):
            self.assertAlmostEqual(emulated.Links().burst, 117_700, delta=50)

    def test_of_slow_links_a_whole_piece_of_tcps_passes_at_once(self):
        with mock.patch.object(emulated.Links, "burst", REAL_BURST):
            self.assertAlmostEqual(emulated.Links(1e8).burst, 68_000 * 1448 / 1514)

    def test_a_link_is_as_quick_as_the_first_stream_that_fills_it_and_never_slower_than_it_is_shaped_to(self):
        full = emulated.Links().payload
        for seen, streams, rate in (([full / 2, 0.99 * full, 1.01 * full, full, full], 3, 1.01 * full),
                                    ([0.8 * full, 0.7 * full, 0.9 * full, 0.6 * full, 0.5 * full], 5, full)):
            with mock.patch.object(emulated, "stream_rate", side_effect=seen) as stream:
                self.assertEqual(emulated.payload_rate(None, emulated.Links(), 0.8), rate)
                self.assertEqual(stream.call_count, streams)

    def test_shares_of_the_bound_are_not_rounded_to_whole_per_cents(self):
        self.assertEqual(links.of_bound("P3", on_hosts(("Open MPI", "tutti", 740)), 40 * MB, 0.95).verdict, "short",
                         "94.6 %")
        self.assertEqual(ps_hosts.of_bound(on_hosts(("Open MPI", "tutti", 744.8)), 40 * MB).verdict, "short",
                         "1.064")

    def test_without_a_picked_setting_open_mpis_best_is_not_known(self):
        case = on_hosts(("Open MPI", "tutti", 700), ("Open MPI", "Open MPI", 1400))
        for verdict in (links.against_open_mpi(case, 40 * MB), ranks_a_host.verdict(case, 40 * MB)):
            self.assertEqual((verdict.verdict, verdict.reached), ("not measured", "-"))
            self.assertIn("default 1.4 s, 2.00 x", verdict.detail)

    def test_every_part_says_which_peers_it_does_not_run_and_which_does(self):
        def measured(_, layout, sizes, *__):
            return on_hosts(("Open MPI", "tutti", 700), layout=layout, size=sizes[0])
        request = cli.parse(["--suite", "lab", "--quick"])
        with mock.patch.object(cases, "measure", measured), mock.patch.object(training, "on_hosts",
                                                                              lambda *args: ([], 1.0)):
            skipped = {part: set(part.measure(request).skipped)
                       for part in (links, ranks_a_host, wire, training)}
        everyone = set(peers.ELSEWHERE)
        self.assertEqual([everyone - names for names in skipped.values()],
                         [{"Intel MPI", "Gloo"}, set(), set(), set()])
        self.assertEqual(peers.elsewhere()["Horovod"], "suites node and negotiation measure it")

    def test_with_one_rank_a_host_the_bound_and_open_mpis_best_are_what_counts(self):
        case = on_hosts(("Open MPI", "tutti", 735), ("Open MPI", "Open MPI", 1400),
                        ("Open MPI, picked", "tutti", 730), ("Open MPI, picked", "Open MPI, picked", 770))
        of_bound, peer = links.verdicts([case])
        self.assertEqual((of_bound.reached, of_bound.verdict), ("95.2 %", "pass"))
        self.assertEqual((peer.reached, peer.verdict), ("1.05 x", "short"), "its bound leaves 770 / 700 = 1.1")
        self.assertEqual(links.of_bound("P3", on_hosts(("Open MPI", "tutti", 800)), 40 * MB, 0.95).verdict, "short")

    def test_hydra_starts_one_rank_on_each_host_through_the_labs_agent(self):
        line = Hydra(lab=hosts.Lab("x", (1, 1)), prefix=pathlib.Path("/p")).line(2, ("program", "--bytes", 4))
        words = shlex.split(line[-1])
        self.assertEqual(words[0], "/p/bin/mpiexec.hydra")
        of = lambda option: words[words.index(option) + 1]
        self.assertEqual((of("-hosts"), of("-ppn"), of("-n")), ("x-h0,x-h1", "1", "2"))
        self.assertTrue(of("-bootstrap-exec").endswith("agent.sh"))
        self.assertEqual(words[-3:], ["program", "--bytes", "4"])

    def test_peers_that_are_not_there_are_skipped_and_what_brings_them_is_told(self):
        stage, lost = cases.Stage(cli.parse(["--suite", "lab"]), Layout(2), (4,), mock.Mock(), None), {}
        nowhere = mock.patch.multiple("compare.peers", prefix_of=lambda python: pathlib.Path("/nowhere"),
                                      has_module=lambda python, name: False)
        with nowhere, mock.patch("compare.cases.with_open_mpi", return_value=[]):
            self.assertEqual(links.contests(stage, lost), [])
        self.assertEqual({name: brings in lost[name] for name, brings in (("Intel MPI", "impi-rt"), ("Gloo", "torch"))},
                         {"Intel MPI": True, "Gloo": True})

    def test_a_python_that_is_not_there_skips_its_peers_and_ends_nothing(self):
        stage, lost = cases.Stage(cli.parse(["--suite", "lab", "--peers-python", "/nowhere"]), Layout(2), (4,),
                                  mock.Mock(), None), {}
        with mock.patch("compare.cases.with_open_mpi", return_value=[]):
            links.contests(stage, lost)
        self.assertEqual(set(lost.values()), {"/nowhere: there is no such program"})
        self.assertEqual(set(lost), {"Intel MPI", "Gloo"})

    def test_where_open_mpi_is_near_the_bound_no_one_is_asked_to_be_faster_than_the_links(self):
        case = on_hosts(("Open MPI", "tutti", 705), ("picked", "Open MPI, picked", 720))
        self.assertEqual(links.against_open_mpi(case, 40 * MB).verdict, "no room")

    def test_several_ranks_a_host_are_held_against_flat_open_mpi_alone(self):
        case = on_hosts(("Open MPI", "tutti", 100), ("Open MPI", "Open MPI, picked", 130),
                        (ranks_a_host.HIERARCHICAL, "tutti", 100),
                        (ranks_a_host.HIERARCHICAL, ranks_a_host.HIERARCHICAL, 90),
                        layout=Layout(2, 4, "cyclic"))
        verdict = ranks_a_host.verdict(case, 40 * MB)
        self.assertEqual((verdict.reached, verdict.verdict), ("1.30 x of 4", "pass"))
        self.assertIn("towards 4 x", verdict.wanted)

    def test_bars_of_several_ranks_a_host_are_in_times_of_each_layouts_bound(self):
        found = [on_hosts(("Open MPI", "tutti", 480), layout=Layout(2, each)) for each in (2, 4)]
        ticks, drawn = ranks_a_host.drawn(found)
        self.assertEqual(ticks, ["2 x 2", "2 x 4"])
        self.assertEqual({curve.label: curve.ys for curve in drawn}, {"tutti": [1.2, 1.2], "bound": [1, 1]})

    def test_lines_show_the_rate_over_a_link_by_hosts(self):
        tutti, bound = links.drawn([on_hosts(("Open MPI", "tutti", 1400))])
        self.assertEqual((tutti.xs, tutti.ys, bound.ys), ([8], [50], [100]))

    def test_a_16_bit_wire_is_held_against_tuttis_own_f32(self):
        case = on_hosts(("tutti, f32", "tutti", 190), ("bf16", wire.label("bf16"), 100),
                        ("fp16", wire.label("fp16"), 101))
        found = [wire.verdict(case, 40 * MB, kind) for kind in wire.WIRES]
        self.assertEqual([(v.reached, v.verdict) for v in found], [("1.90 x", "pass"), ("1.88 x", "short")])
        self.assertEqual(wire.verdict(on_hosts(("tutti, f32", "tutti", 1)), 40 * MB, "bf16").verdict, "not measured")

    def test_the_plot_of_16_bit_wires_has_their_ratios_beside_bound_and_target_and_half_the_bytes_halve_the_bound(self):
        case = on_hosts(("tutti, f32", "tutti", 190), ("bf16", wire.label("bf16"), 100),
                        ("fp16", wire.label("fp16"), 95))
        drawn = {curve.label: (curve.panel, curve.xs, curve.ys, curve.bound) for curve in wire.drawn([case])}
        self.assertEqual(
            drawn, {wire.label("bf16"): ("40 MB", [8], [1.9], False), wire.label("fp16"): ("40 MB", [8], [2], False),
                    "bound": ("40 MB", [8], [2], True), "target": ("40 MB", [8], [wire.TIMES_F32], True)})
        self.assertEqual({line["who"]: line["bound_us"] for line in wire.halved(case)},
                         {"tutti": 700e3, wire.label("bf16"): 350e3, wire.label("fp16"): 350e3})
        self.assertEqual([line["link_bytes"] for line in wire.halved(case)], [70 * MB, 35 * MB, 35 * MB])

    def test_a_lines_share_of_the_bound_is_that_of_its_own_layout(self):
        line, = cases.lines(cases.facts(on_hosts(("Open MPI", "tutti", 1400))))
        self.assertEqual(line[-3:], ["50.0", "50 %", "1.00"])


class Training(unittest.TestCase):
    def test_the_target_is_for_the_most_hosts_and_the_defaults(self):
        rows = [{"model": "vgg16", "scale": 0.25, "hosts": hosts, "who": who, "step_ms": {"p50": 1 / reached},
                 "bound_ms": 1}
                for hosts, who, reached in ((2, training.AS_IT_COMES, 0.5), (8, training.AS_IT_COMES, 0.97),
                                            (8, training.AS_IT_COMES, 0.99), (8, training.AS_IT_COMES, 0.98),
                                            (8, "no replay", 0.9))]
        found = training.verdicts(training.cells(rows), 8)
        self.assertEqual([(v.reached, v.verdict) for v in found],
                         [("50.0 %", "-"), ("98.0 %", "pass"), ("90.0 %", "-")])
        self.assertEqual(found[1].what, "vgg16 at 0.25 of its size, 8 hosts, as it comes")

    def test_a_share_of_97_6_is_short_and_fewer_than_8_hosts_are_not_what_the_target_is_for(self):
        self.assertEqual([training.verdict(share, 8, training.AS_IT_COMES, 8) for share in (0.976, 0.98)],
                         ["short", "pass"])
        self.assertEqual(training.verdict(0.99, 4, training.AS_IT_COMES, 4), "not measured")
        rows = [{"model": "vgg16", "scale": 1, "hosts": 4, "who": training.AS_IT_COMES, "step_ms": {"p50": 100},
                 "bound_ms": 99}]
        found, = training.verdicts(training.cells(rows), 4)
        self.assertEqual((found.wanted, found.reached), (">= 98 %", "99.0 %"))
        self.assertIn("the target is for 8 hosts", found.detail)

    def test_the_least_bound_of_all_rounds_counts_for_the_median_step(self):
        rows = [{"step_ms": {"p50": step}, "bound_ms": bound} for step, bound in ((100, 98), (110, 97), (90, 130))]
        self.assertEqual(training.reached(rows), 0.97)

    def test_compute_takes_as_long_as_the_links_need(self):
        words = training.words_for(cli.parse(["--suite", "training"]), Layout(8), "vgg16", 100 * MB)
        of = lambda option: float(words[words.index(option) + 1])
        self.assertAlmostEqual(of("--compute-ms") + of("--forward-ms"), 1.75 * 4 * 34.589386e6 / 100e6 * 1e3, places=1)
        self.assertEqual(of("--link-gbps"), 0.8)

    def test_every_setting_runs_on_the_most_hosts_and_the_defaults_on_fewer(self):
        most, all_of_them = 8, tuple(training.SETTINGS)
        self.assertEqual(training.works((2, 4, most)), [
            (2, {"resnet50": (training.AS_IT_COMES,)}), (4, {"resnet50": (training.AS_IT_COMES,)}),
            (most, {"resnet50": all_of_them, "vgg16": all_of_them})])

    def test_steps_count_once_batches_are_replayed_and_more_of_what_the_target_is_for(self):
        request = cli.parse(["--suite", "training"])
        steps = {who: training.steps_for(request, who)[1::2] for who in training.SETTINGS}
        self.assertEqual(steps[training.AS_IT_COMES], [3, 3])
        self.assertEqual(steps["no replay"], [1, 1])
        self.assertEqual(steps["no fusion"], [1, 3])

    def test_bars_of_training_stand_by_setting_beside_the_bound(self):
        rows = [{"model": "vgg16", "hosts": 8, "who": who, "step_ms": {"p50": 100}, "bound_ms": 100 * reached}
                for who, reached in ((training.AS_IT_COMES, 0.99), ("bf16 wire", 0.9))]
        self.assertEqual(
            {curve.label: (curve.xs, curve.ys, curve.bound) for curve in training.drawn(training.cells(rows))},
            {"tutti, 8 hosts": ([0, 4], [99, 90], False), "bound": ([0, 4], [100, 100], True)})

    def test_a_program_that_leaves_one_object_has_one_row(self):
        with tempfile.NamedTemporaryFile("w+") as file:
            file.write('{"wrong": 0}')
            file.flush()
            self.assertEqual(rows_of(pathlib.Path(file.name)), [{"impl": "tutti", "wrong": 0}])


class PeersPrograms(unittest.TestCase):
    def test_resnet50_has_as_many_parameters_as_it_has(self):
        self.assertEqual((len(resnet50()), sum(resnet50())), (161, 25_557_032))

    def test_keys_in_proportion_have_all_elements_together_and_one_at_least_each(self):
        scaled = in_proportion(10**5, resnet50())
        self.assertEqual((len(scaled), sum(scaled), min(scaled) >= 1), (161, 10**5, True))

    def test_sums_are_those_of_all_ranks_numbers(self):
        numbers, sums = racing.numbers(3), racing.sums(3)
        turn, at = 5, 17
        mine = [numbers[(at + racing.phase_of(rank, turn)) % racing.PERIOD] for rank in range(3)]
        self.assertEqual(sum(mine), sums[(at + racing.phase_of(0, turn)) % racing.PERIOD])

    def test_a_peer_rests_before_each_turns_barrier_outside_the_time(self):
        done = []
        peer = mock.Mock(wrong=lambda turn: 0, fill=lambda turn: done.append("fill"),
                         barrier=lambda: done.append("barrier"), exchange=lambda: done.append("exchange"))
        with mock.patch.object(racing.time, "sleep", lambda seconds: done.append(seconds)):
            racing.Race(peer, 2.5).take()
            racing.Race(peer).take()
        turn = ["barrier", "exchange", "barrier"]
        self.assertEqual(done, ["fill", 0.0025, *turn, "fill", *turn])

    def test_every_turn_in_the_lab_is_behind_twice_the_burst_that_the_bound_allows_for(self):
        with mock.patch.object(emulated.Links, "burst", 117_700):
            for words in ([], ["--quick"]):
                self.assertAlmostEqual(cases.pace(cli.parse(["--suite", "lab", *words])).rest, 2, delta=0.001)
                self.assertAlmostEqual(cases.pace(cli.parse(["--suite", "lab", "--rate", "500mbit", *words])).rest, 4,
                                       delta=0.001)

    def test_a_step_adds_up_over_all_ranks(self):
        self.assertEqual(stepping.offsets(3, 205), sum(stepping.offset(rank, 205) for rank in range(3)))
        self.assertEqual([stepping.offsets(2, turn) for turn in (0, 1, 99, 100)], [1, 3, 199, 1])

    def test_steps_are_timed_and_checked_after_the_warmup_and_during_it(self):
        class Contestant:
            filled, wrong_turns = [], (1, 4)
            fill = filled.append

            def exchange(self):
                pass

            def wrong(self, turn):
                return int(turn in self.wrong_turns)
        steps = stepping.Steps(Contestant())
        times = steps.run(stepping.parser("").parse_args(["--warmup", "2", "--steps", "5"]))
        self.assertEqual((len(times), Contestant.filled, steps.wrong), (5, list(range(7)), 2))

    def test_a_peers_row_of_steps_is_that_of_negotiation_bench(self):
        given = stepping.parser("").parse_args(["--tensors", "16", "--idle", "0.1", "--steps", "3", "--warmup", "0"])
        still = mock.Mock(wrong=lambda turn: 1)
        asked = []

        def doubled(values, how):
            asked.append((how, len(values)))
            return [value * 2 for value in values] if how == "SUM" else values
        with mock.patch.dict("os.environ", {"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}):
            found, = stepping.measure(given, 2, {"peer": still}, "peer 1", doubled)
        self.assertEqual({name: found[name] for name in ("impl", "version", "op", "ranks", "hosts", "bytes", "tensors",
                                                         "iters", "wrong")},
                         {"impl": "peer", "version": "peer 1", "op": "negotiation", "ranks": 2, "hosts": 1, "bytes": 4,
                          "tensors": 16,
                          "iters": 3, "wrong": 6})
        self.assertEqual(asked, [("MAX", 3), ("SUM", 1), ("MAX", 1)])
        self.assertEqual(sorted(found["time_us"]), ["max", "min", "p50", "p99"])
        self.assertLess(found["idle_cores"], 0.5)


if __name__ == "__main__":
    unittest.main()
