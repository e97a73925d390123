#!/usr/bin/python3
"""benchmarks/compare/ps*.py and peers/served.py: bounds and verdicts of suite ps, and jobs with servers."""
import contextlib
import io
import os
import shlex
import sys
import unittest
from unittest import mock

from comparing import MIB
from compare import cases, cli, emulated, peers, ps_hosts, ps_node, served
from compare.contest import Contest, Launcher
from compare.emulated import Layout

sys.path.insert(0, str(peers.PEERS))
import served as program

MB = 10**6
WITH_KEYS = ", ResNet-50's keys"


def row(contest, who, us, ranks=8, size=40 * MB, **more):
    return {"contest": contest, "who": who, "ranks": ranks, "bytes": size, "time_us": {"p50": us},
            "setting": f"setting of {contest}", "wrong": 0, "version": "1", "facts": {}, "round": 0, "iters": 4,
            "sent_bytes_of_program": 0, **more}


def on_hosts(*times, layout=Layout(8)):
    """A case of rows (who, ms), with links that carry 100 MB/s."""
    rows = [row("Open MPI" if who == "tutti" else who.removesuffix(WITH_KEYS), who, ms * 1e3) for who, ms in times]
    return cases.Case(layout, rows, 100 * MB)


class Hosts(unittest.TestCase):
    def setUp(self):
        """Links that let nothing pass at once."""
        still = mock.patch.object(emulated.Links, "burst", 0)
        still.start()
        self.addCleanup(still.stop)

    def test_a_servers_link_carries_all_other_workers_and_its_own_workers_share_of_the_other_servers(self):
        found = [(ps_hosts.beside(8, servers), ps_hosts.one_after_the_other(8, servers)) for servers in (1, 2, 4, 8)]
        self.assertEqual(found, [(7, 14), (4, 7), (2.5, 3.5), (1.75, 1.75)])

    def test_the_link_of_a_server_alone_carries_what_all_workers_push_to_it(self):
        self.assertEqual([ps_hosts.apart(8, servers) for servers in (1, 2, 4, 8)], [8, 4, 2, 1])
        self.assertEqual(ps_hosts.apart(2, 4), 1, "then the workers' links are the busiest")
        case = on_hosts(("tutti", 700), ("tutti, 2 servers", 1840), layout=Layout(8, apart=8))
        self.assertEqual([line["bound_us"] for line in ps_hosts.facts(case)], [700e3, 1600e3])

    def test_tuttis_servers_are_held_against_their_own_layouts_bound_by_their_quicker_way(self):
        case = on_hosts(("tutti", 700), ("tutti, 1 server", 3300), ("tutti, 1 server" + WITH_KEYS, 3220),
                        ("tutti, 8 servers", 820))
        one, eight = (ps_hosts.servers_of_bound(case, 40 * MB, servers) for servers in (1, 8))
        self.assertEqual((one.reached, one.verdict), ("1.150 x", "pass"))
        self.assertIn("keys of ResNet-50", one.detail)
        self.assertEqual((eight.reached, eight.verdict), ("1.171 x", "short"))

    def test_tuttis_servers_are_no_slower_than_as_many_of_mxnets(self):
        case = on_hosts(("tutti", 700), ("tutti, 1 server", 3000), ("MXNet, 1 server", 5000),
                        ("MXNet, 1 server" + WITH_KEYS, 4500), ("tutti, 8 servers", 800))
        one, eight = (ps_hosts.servers_against(case, 40 * MB, servers) for servers in (1, 8))
        self.assertEqual((one.reached, one.verdict), ("1.50 x", "pass"))
        self.assertEqual(eight.verdict, "not measured")

    def test_bytes_on_the_wire_are_those_of_all_turns_of_a_program_and_the_worst_round_counts(self):
        def sent(*rounds_sent):
            rows = [row("tutti, 1 server", who, 1, round=number, sent_bytes_of_program=many)
                    for number, many in enumerate(rounds_sent)
                    for who in ("tutti, 1 server", "tutti, 1 server" + WITH_KEYS)]
            return ps_hosts.on_the_wire(cases.Case(Layout(8), rows, 100 * MB), 1, warmup=1)
        bound = 7 * 2 * 5 * 40 * MB  # sizes, ways, turns
        self.assertEqual((sent(bound, 1.04 * bound).reached, sent(bound).verdict), ("1.040 x", "pass"))
        self.assertEqual(sent(1.06 * bound, bound).verdict, "short")

    def test_mxnets_quicker_way_counts_beside_tuttis_allreduce(self):
        case = on_hosts(("tutti", 742), ("MXNet, 1 server", 5000), ("MXNet, 1 server" + WITH_KEYS, 4823),
                        ("MXNet, 8 servers", 900))
        one, two, eight = (ps_hosts.against(case, 40 * MB, servers) for servers in (1, 2, 8))
        self.assertEqual((one.reached, one.verdict), ("6.50 x", "pass"))
        self.assertIn("ResNet-50", one.detail)
        self.assertEqual((two.verdict, eight.verdict), ("not measured", "short"))

    def test_each_number_of_servers_has_its_bars_and_its_bound(self):
        case = on_hosts(("tutti", 742), ("tutti, 1 server", 3000), ("MXNet, 1 server", 5000),
                        ("MXNet, 1 server" + WITH_KEYS, 4800))
        ticks, drawn = ps_hosts.drawn(case, 40 * MB)
        self.assertEqual(ticks, ["tutti", "1 server"])
        found = {curve.label: (curve.xs, curve.ys) for curve in drawn}
        self.assertEqual(found["bound of the layout"], ([0, 1], [700, 2800]))
        self.assertEqual(found["MXNet, keys of ResNet-50"], ([1], [4800]))
        self.assertEqual(found["tutti, servers, one array"], ([1], [3000]))

    def test_the_record_has_each_lines_servers_median_bound_and_ratio(self):
        own, peer = ps_hosts.facts(on_hosts(("tutti", 800), ("MXNet, 2 servers", 2400)))
        self.assertEqual((own["who"], own["servers"], own["median_us"], own["bound_us"]), ("tutti", None, 800e3, 700e3))
        self.assertEqual([peer[name] for name in ("who", "setting", "servers", "median_us", "bound_us", "times_tutti")],
                         ["MXNet, 2 servers", "setting of MXNet, 2 servers", 2, 2400e3, 1600e3, 3])

    def test_there_are_no_more_servers_than_workers(self):
        request = cli.parse(["--suite", "ps"])
        self.assertEqual([ps_hosts.counts(request, workers) for workers in (8, 3)], [[1, 2, 4, 8], [1, 2]])

    def test_servers_run_beside_the_first_workers_or_on_the_hosts_behind_the_last(self):
        for layout, names in ((Layout(2), "x-h0,x-h1"), (Layout(2, apart=2), "x-h2,x-h3")):
            lab = emulated.hosts.Lab("x", (1,) * (layout.hosts + layout.apart))
            job = emulated.OnHosts(lab=lab, apart=layout.apart)
            stage = cases.Stage(cli.parse(["--suite", "ps"]), layout, (4,), job, None)
            words = ps_hosts.where(stage, 2)
            self.assertEqual(words[words.index("--hosts") + 1], names)
            self.assertEqual(words[words.index("--root") + 1], lab.addresses[layout.hosts if layout.apart else 0])
            self.assertEqual(shlex.split(job.line(2, ["program"])[-1]).count("x-h0:1,x-h1:1"), 1)

    def test_links_are_slower_where_the_processors_could_not_push_for_all_hosts(self):
        asked = []
        note = lambda request, layout: asked.append((request, layout)) or (None, None)
        with mock.patch.object(ps_hosts, "outcome", note), mock.patch.object(os, "sched_getaffinity", lambda _: {0, 1}):
            ps_hosts.Apart.measure(cli.parse(["--suite", "ps"]))
        (request, layout), = asked
        self.assertEqual((layout.hosts, layout.apart, request.links.rate), (8, 8, 1e10 / 16))


class OneHost(unittest.TestCase):
    def found(self, own, native, in_mxnet=None):
        rows = [row(name, name, us, 2, 4) for name, us in (("tutti, 1 server, one array", own),
                                                           ("MXNet, 1 server, one array", native),
                                                           ("tutti under MXNet's API, 1 server, one array", in_mxnet))
                if us]
        return [(v.reached, v.verdict) for v in ps_node.against(ps_node.Figures(rows), 2, 1, 4, ps_node.ARRAY)]

    def test_tutti_is_to_be_twice_as_fast_as_mxnets_own_from_c_and_by_the_same_script(self):
        self.assertEqual(self.found(100, 200, 125), [("2.00 x", "pass"), ("1.60 x", "short")])
        self.assertEqual(self.found(100, 199), [("1.99 x", "short")])

    def test_without_mxnet_nothing_is_judged(self):
        self.assertEqual(self.found(100, None), [("-", "not measured")])

    def measured(self, *has):
        request = cli.parse(["--suite", "ps", "--only", "one-host", "--quick", "--rounds", "1", "--mxnet-python", "/p"])

        def race(contest, ranks, sizes, pace):
            return [{**row(contest.name, next(iter(contest.names.values())), 10, ranks, size),
                     "facts": {ps_node.IDLE_FACT: "0.0004"}} for size in sizes]
        with mock.patch.object(peers, "has_module", lambda python, name: python == "/p" and name in has), \
                mock.patch.object(Contest, "race", race):
            return ps_node.measure(request)

    def test_it_measures_arrays_keys_and_updates_and_what_idle_servers_use(self):
        outcome = self.measured("mxnet", "tutti")
        self.assertEqual({one["who"].partition(", ")[0] for one in outcome.rows},
                         {"tutti", "MXNet", "tutti under MXNet's API"})
        self.assertEqual({one["who"].rpartition(", ")[2] for one in outcome.rows},
                         {ps_node.ARRAY, ps_node.KEYS, ps_node.UPDATES})
        self.assertEqual((outcome.verdicts[-1].reached, outcome.verdicts[-1].verdict), ("0.000 of a core", "pass"))

    def test_without_mxnet_it_measures_tutti_alone_and_says_what_is_missing(self):
        outcome = self.measured()
        self.assertEqual({one["who"].partition(", ")[0] for one in outcome.rows}, {"tutti"})
        self.assertIn("mxnet==1.9.1", outcome.skipped["MXNet's parameter server"])


class Served(unittest.TestCase):
    def run_it(self, *words):
        said, complained = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(said), contextlib.redirect_stderr(complained):
            status = program.main(["--workers", "1", "--servers", "2", *words])
        return status, said.getvalue(), complained.getvalue()

    def test_a_launcher_with_servers_starts_them_around_the_job(self):
        line = served.served(Launcher(("start",)), 2, "a role", ("--interface", "lo")).line(4, ("program", "--x"))
        given = program.parse(line[2:])
        self.assertEqual((given.workers, given.servers, given.role, given.interface), (4, 2, "a role", "lo"))
        self.assertEqual(given.job, ["start", "-n", "4", "program", "--x"])

    def test_each_process_is_told_its_role_and_place_and_the_jobs_status_is_passed_on(self):
        role = f"{sys.executable} -c \"import os, sys; sys.exit(os.environ['DMLC_ROLE'] == 'worker')\""
        job = "import os, sys; sys.exit(int(os.environ['DMLC_NUM_SERVER']) + 3 * (os.environ['DMLC_ROLE'] == 'worker'))"
        self.assertEqual(self.run_it("--role", role, sys.executable, "-c", job)[0], 5)

    def test_servers_that_do_nothing_use_nothing_of_a_core_and_busy_ones_do(self):
        for code, used in (("import time; time.sleep(30)", lambda cores: cores < 0.01),
                           ("while True: pass", lambda cores: cores > 0.02)):
            with mock.patch.object(program, "PATIENCE", 0):
                _, said, _ = self.run_it("--role", f"{sys.executable} -c '{code}'", "sleep", "2.2")
            self.assertTrue(used(float(said.rpartition(": ")[2])), said)

    def test_a_server_that_fails_ends_the_job(self):
        status, _, complained = self.run_it("--role", "sh -c 'exit 3'", "sleep", "60")
        self.assertNotEqual(status, 0)
        self.assertIn("ended with 3", complained)


if __name__ == "__main__":
    unittest.main()
