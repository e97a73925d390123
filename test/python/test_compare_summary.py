#!/usr/bin/python3
"""benchmarks/compare/summary.py: a record of suite node as a small table, and where tutti loses."""
import pathlib
import re
import tempfile
import unittest

from comparing import KIB, MIB, is_drawn, row
from compare import summary
from compare.targets import size_text, times

try:
    import matplotlib
except ImportError:
    matplotlib = None

BENCHMARKS = pathlib.Path(summary.__file__).resolve().parents[1]
UNITS = {"µs": 1, "ms": 1e3, "s": 1e6}


def record():
    """Two ranks: tutti beside each peer's settings."""
    rows = [row("Open MPI", "tutti", 11.64, 2, size) for size in (4, 16 * KIB, 64 * KIB, MIB)]
    rows += [row("Open MPI, picked", "tutti", 1, 2, 4)]  # the luckier race does not count
    rows += [row("Open MPI", "Open MPI", 16, 2, size) for size in (4, 16 * KIB, 64 * KIB, MIB)]
    rows += [row("Open MPI, picked", "Open MPI, picked", 5.828, 2, 4)]
    rows += [row("Intel MPI", "Intel MPI", us, 2, size)
             for size, us in ((4, 7), (16 * KIB, 11.638), (64 * KIB, 6.834), (MIB, 9))]
    rows += [row("Gloo", "Gloo", 2500, 2, 4), row("hierarchical Open MPI", "hierarchical Open MPI", 1, 2, 4)]
    return {"suite": "node", "rounds": 5, "rows": rows, "machine": {"cpu": "a processor", "cores": 2}}


def microseconds(text):
    number, unit = text.split()
    return float(number) * UNITS[unit]


def in_one_line(text):
    return " ".join(text.split())


class Summary(unittest.TestCase):
    def test_every_peer_stands_at_its_best_beside_tutti_in_one_race(self):
        self.assertEqual(summary.table(record()).splitlines(), [
            "| ranks | size | tutti | Open MPI | Intel MPI | Gloo | Horovod | quickest peer | ratio |",
            "|---|---|---|---|---|---|---|---|---|",
            "| 2 | 4 B | 11.6 µs | 5.83 µs | 7 µs | 2.5 ms | - | Open MPI | 0.50 |",
            "| 2 | 64 KiB | 11.6 µs | 16 µs | 6.83 µs | - | - | Intel MPI | 0.59 |",
            "| 2 | 1 MiB | 11.6 µs | 16 µs | 9 µs | - | - | Intel MPI | 0.78 |"])

    def test_where_it_loses_names_every_size_at_which_any_peer_is_quicker(self):
        self.assertEqual(summary.where_it_loses(record()),
                         "2 ranks, 4 B, 64 KiB to 1 MiB (Open MPI or Intel MPI: 0.50 to 0.78 of tutti's time)")
        rows = [row("Open MPI", "tutti", 1), row("Open MPI", "Open MPI", 2)]
        self.assertEqual(summary.where_it_loses({"rows": rows}), "nowhere")

    def readme(self):
        return (BENCHMARKS / "README.md").read_text()

    def test_the_readme_shows_what_its_record_says(self):
        for name, shown in (("2026-11-29-node-xeon", (summary.table, summary.where_it_loses)),
                            ("2026-11-23-node-epyc-run3", (summary.where_it_loses,)),
                            ("2026-11-23-node", (summary.where_it_loses,))):
            for text in shown:
                said = text(summary.read(BENCHMARKS / f"results/{name}.json"))
                self.assertIn(in_one_line(said), in_one_line(self.readme()))

    def test_the_front_page_shows_what_the_record_says(self):
        text = (BENCHMARKS.parent / "README.md").read_text()
        record_of = summary.read(BENCHMARKS / "results/2026-11-29-node-xeon.json")
        cells = {(cell.ranks, cell.size): cell for cell in summary.cells(record_of)}
        wanted = []
        for ranks, size in ((2, 64 * KIB), (2, 64 * MIB), (8, 64 * KIB), (8, 64 * MIB)):
            cell = cells[ranks, size]
            of_peers = [times(cell.peers[peer]) for peer in ("Open MPI", "Intel MPI", "Horovod")]
            wanted.append(" | ".join(["", str(ranks), size_text(size), times(cell.tutti), *of_peers,
                                      f"{cell.ratio(cell.best):.2f}", ""]).strip())
        self.assertEqual(re.findall(r"^\| \d+ \| .*", text, re.M), wanted)
        loses = re.search(r"\*\*Where it loses\*\* there:(.*?)Between hosts", text, re.S)
        spans = r"\d\.\d\d(?: to \d\.\d\d)?"
        self.assertEqual(re.findall(spans, loses[1]), re.findall(spans, summary.where_it_loses(record_of)))

    def test_the_columns_of_the_readme_divide_to_the_ratio_beside_them(self):
        lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in self.readme().splitlines()
                 if re.match(r"\| \d+ \| \d+ [KM]?i?B \|", line)]
        self.assertEqual(len(lines), 12)
        for _, _, own, *peers, quickest, ratio in lines:
            peers = {name: microseconds(text) for name, text in zip(summary.PEERS, peers)}
            self.assertEqual(min(peers, key=peers.get), quickest)
            self.assertEqual(f"{peers[quickest] / microseconds(own):.2f}", ratio)

    @unittest.skipUnless(matplotlib, "this Python has no matplotlib")
    def test_the_chart_has_a_panel_for_each_number_of_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "chart.png")
            summary.write_chart(file, record())
            self.assertTrue(file.read_bytes().startswith(b"\x89PNG"))
            self.assertTrue(is_drawn(file))
        from matplotlib.figure import Figure
        figure, rows = Figure(), record()["rows"]
        summary.draw(figure, {**record(), "rows": rows + [{**one, "ranks": 4} for one in rows]})
        self.assertEqual([axes.get_title() for axes in figure.axes], ["2 ranks", "4 ranks"])
        for axes in figure.axes:
            lines = {line.get_label(): list(line.get_ydata()) for line in axes.get_lines()}
            self.assertEqual(list(lines), [*(f"{peer}, its best" for peer in summary.PEERS), "tutti"])
            for got, wanted in zip(lines["Intel MPI, its best"], (0.6, 1, 0.59, 0.78), strict=True):
                self.assertAlmostEqual(got, wanted, delta=0.01)


if __name__ == "__main__":
    unittest.main()
