#!/usr/bin/python3
"""benchmarks/compare/plot.py and looks.py: no two series look alike, a series looks the same in all plots, and no plot
hides anything.
"""
import pathlib
import tempfile
import unittest
from unittest import mock

from comparing import is_drawn, row
from compare import (cases, cli, links, looks, negotiation, node, peers, plot, ps_hosts, ps_node, ranks_a_host, scaling,
                     staleness, training, wire)
from compare.emulated import Layout
from compare.figures import Figures
from compare.outcome import Curve, Outcome, Style

try:
    import matplotlib
except ImportError:
    matplotlib = None


def series():
    """{plot: labels of all its series, with every peer installed}"""
    request = cli.parse(["--suite", "node"])
    with mock.patch.object(peers, "has_module", lambda *_: True), mock.patch.object(peers, "prefix_of",
                                                                                    lambda _: pathlib.Path("/none")):
        here, steps = ([who for one in found(request)[0] for who in one.names.values()]
                       for found in (peers.installed, peers.installed_for_steps))
    both = ["tutti", "Open MPI", "Open MPI, picked"]
    on_hosts = [ps_hosts.place(f"{who}, 2 servers{keys}")[1] for who in ("tutti", "MXNet")
                for keys in ("", ", ResNet-50's keys")]
    on_node = [peers.with_servers(who, servers) for who in (ps_node.TUTTI, ps_node.MXNET, ps_node.IN_MXNET)
               for servers in (1, 2)]
    return {"node": [*both, "tutti, shared", "Intel MPI", *here], "negotiation": [*negotiation.OWN, *steps],
            "links": [*both, "Intel MPI", "Gloo"], "ranks": [*both, ranks_a_host.HIERARCHICAL],
            "beside": [*both, *on_hosts], "one-host": on_node, "wire": [wire.label(one) for one in wire.WIRES],
            "training": [f"tutti, {hosts} hosts" for hosts in training.HOSTS], "python": ["tutti", "mpi4py"],
            "staleness": [one.name for one in staleness.SETTINGS],
            "scaling": {one.series() for one in scaling.SETTINGS}}


class Looks(unittest.TestCase):
    def test_no_two_series_of_a_plot_have_one_colour_or_look_alike_as_lines_or_bars(self):
        for name, labels in series().items():
            found = looks.of(labels)
            for kind in (lambda look: look.colour,
                         lambda look: (look.line()["linestyle"], look.line()["marker"], look.family),
                         lambda look: (look.bar()["color"], look.bar()["hatch"])):
                self.assertEqual(len({kind(look) for look in found.values()}), len(labels), name)

    def test_a_series_looks_the_same_whoever_else_is_in_the_plot(self):
        for labels in series().values():
            for label, look in looks.of(labels).items():
                self.assertEqual(looks.of([label, "a stranger"])[label], look)
                self.assertEqual(looks.wanted(label), look)

    def test_all_settings_of_a_peer_are_of_its_colour_and_no_two_peers_share_one(self):
        labels = {label for plotted in series().values() for label in plotted}
        of_family = {}
        for label in labels:
            of_family.setdefault(looks.wanted(label).family, set()).add(looks.family_of(label))
        self.assertEqual({len(families) for families in of_family.values()}, {1})
        self.assertEqual(set(of_family), set(looks.FAMILIES.values()))

    def test_a_family_is_a_whole_name(self):
        self.assertEqual([looks.family_of(label)
                          for label in ("Open MPI, picked", "Open MPIs", "DDP, Gloo", "Gloo", "hierarchical Open MPI")],
                         ["Open MPI", None, "DDP, Gloo", "Gloo", "hierarchical Open MPI"])

    def test_what_is_not_known_gets_a_look_that_nobody_wants(self):
        strangers = ["Horovod, 5 ms", "Horovod, 7 ms", "tutti, 3 hosts", "x", "y"]
        labels = [*strangers, *series()["negotiation"]]
        found = looks.of(labels)
        self.assertEqual(len(set(found.values())), len(labels))
        self.assertEqual(found["Horovod, 5 ms"].family, looks.FAMILIES["Horovod"])

    def test_what_others_are_held_against_is_drawn_thicker_than_they(self):
        widths = {family: looks.Look(colour).line()["linewidth"] for family, colour in looks.FAMILIES.items()}
        thick = [widths.pop(family) for family in ("tutti", "dist_sync")]
        self.assertGreater(min(thick), max(widths.values()))


class Groups(unittest.TestCase):
    def test_groups_of_bars_are_as_wide_as_they_have_bars_and_bounds_take_no_place(self):
        both, first, bound = Curve("p", "a", [0, 1], [1, 1]), Curve("p", "b", [0], [1]), Curve("p", "bound", [0, 1],
                                                                                               [1, 1], True)
        self.assertEqual(plot.groups_of([bound, both, first], 2), [(0, [both, first]), (2 + plot.BETWEEN, [both])])

    def test_a_panel_is_as_wide_as_its_bars_need(self):
        many = [Curve("p", str(n), [0], [1]) for n in range(40)]
        self.assertEqual(plot.panel_width(many[:1], 1), plot.PANEL_WIDTH)
        self.assertGreater(plot.panel_width(many, 1), 40 * plot.BAR_WIDTH)


class Races(unittest.TestCase):
    def test_of_tuttis_races_each_plot_shows_the_one_beside_open_mpi_as_it_comes(self):
        rows = [row(contest, who, us * 1e3) for contest, who, us in
                (("Open MPI", "tutti", 4), ("picked", "tutti", 1), ("Open MPI", "Open MPI", 9))]
        case = cases.Case(Layout(2), rows, 1e6)
        for plotted, unit in ((node.drawn(Figures(rows), {}), 1e3),
                              (ranks_a_host.drawn([case])[1], 1e3 / case.bound_us(4)),
                              (ps_hosts.drawn(case, 4)[1], 1)):
            self.assertEqual([curve.ys for curve in plotted if curve.label == "tutti"], [[4 * unit]])
        rates = {curve.label: curve.ys[0] for curve in links.drawn([case])}
        self.assertAlmostEqual(rates["tutti"] / rates["Open MPI"], 9 / 4)


@unittest.skipUnless(matplotlib, "this Python has no matplotlib")
class Plots(unittest.TestCase):
    STYLES = Style(), Style("linear", "linear"), Style(ticks=["a", "b"])

    def outcome(self, style, curves=None):
        curves = curves or [Curve(f"panel {n}", label, [0, 1], [n + 1, 2], label == "bound")
                            for n in range(5) for label in ("bound", "tutti", "Open MPI, picked")]
        return Outcome("t", [], [], {}, [], [], curves, ("x", "y"), style=style)

    def drawn(self, outcome):
        from matplotlib.figure import Figure
        figure = Figure()
        plot.draw(figure, outcome)
        figure.canvas.draw()
        return figure

    def test_every_panel_is_drawn_as_lines_and_as_bars(self):
        for style in self.STYLES:
            with tempfile.TemporaryDirectory() as folder:
                files = plot.write(pathlib.Path(folder, "p"), self.outcome(style))
                self.assertEqual(pathlib.Path(folder, "p.svg").read_text().count("<!-- panel "), 5)
                self.assertEqual([file.suffix for file in files], [".png", ".svg"])
                self.assertTrue(is_drawn(files[0]))

    def test_one_legend_names_each_series_once_behind_them_the_bound_and_covers_no_panel(self):
        for style in self.STYLES:
            figure = self.drawn(self.outcome(style))
            legend, = figure.legends
            self.assertEqual([text.get_text() for text in legend.get_texts()], ["tutti", "Open MPI, picked", "bound"])
            self.assertFalse(any(axes.get_window_extent().overlaps(legend.get_window_extent()) for axes in figure.axes))
            self.assertFalse(any(axes.get_legend() for axes in figure.axes))

    def test_what_the_curves_are_stands_below_the_title(self):
        outcome = self.outcome(Style())
        self.assertEqual([text.get_text() for text in self.drawn(outcome).texts], ["t"])
        outcome.caption = "of one race"
        self.assertEqual([text.get_text() for text in self.drawn(outcome).texts], ["t\nof one race"])

    def test_a_series_that_one_panel_alone_has_is_in_the_legend_too(self):
        curves = [Curve("first", "tutti", [0], [1]), Curve("second", "Gloo", [0], [2])]
        legend, = self.drawn(self.outcome(Style(ticks=["a"]), curves)).legends
        self.assertEqual([text.get_text() for text in legend.get_texts()], ["tutti", "Gloo"])

    def test_all_panels_have_room_for_the_least_and_the_most_of_any(self):
        curves = [Curve(f"panel {n}", "tutti", [0, 1], [10**n, 5]) for n in range(3)]
        for style in self.STYLES:
            for axes in self.drawn(self.outcome(style, curves)).axes:
                low, high = axes.get_ylim()
                self.assertLess(low, 1)
                self.assertGreater(high, 100)

    def test_a_linear_axis_begins_at_its_base_unless_something_is_below(self):
        def bottom(least):
            curves = [Curve("p", "tutti", [0, 1], [least, 2])]
            return self.drawn(self.outcome(Style("linear", "linear", base=1), curves)).axes[0].get_ylim()[0]
        self.assertEqual([bottom(1.5), bottom(0.5)], [1, 0.5])

    def test_bars_lie_side_by_side_below_the_bound_of_their_group(self):
        curves = [Curve("p", label, xs, [3] * len(xs), label == "bound") for label, xs in
                  (("tutti", [0, 1]), ("Gloo", [0]), ("bound", [0, 1]))]
        axes, = self.drawn(self.outcome(Style(ticks=["a", "b"]), curves)).axes
        bars = sorted((bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches)
        self.assertTrue(all(end <= begin for (_, end), (begin, _) in zip(bars, bars[1:])), bars)
        lines = [(line[0][0], line[1][0]) for line in axes.collections[0].get_segments()]
        self.assertEqual([sum(begin < left and right < end for left, right in bars) for begin, end in lines], [2, 1])


if __name__ == "__main__":
    unittest.main()
