#!/usr/bin/python3
"""benchmarks/compare/cli.py: the options, and the end of a run."""
import contextlib
import dataclasses
import io
import json
import pathlib
import signal
import tempfile
import unittest
from unittest import mock

from comparing import KIB, MIB
from compare import cli, lab, ps, pytorch, record, wire
from compare.outcome import Outcome


class CommandLine(unittest.TestCase):
    def build(self, kind="release"):
        """A build folder with the files that compare.py looks for."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        for part in ("benchmarks", "meson-info"):
            pathlib.Path(folder.name, part).mkdir()
        options = [{"name": "prefix", "value": "/usr"}, {"name": "buildtype", "value": kind}]
        pathlib.Path(folder.name, "meson-info/intro-buildoptions.json").write_text(json.dumps(options))
        return folder.name

    def kept(self, kind):
        """The output of a run, and its record of the machine."""
        said = io.StringIO()
        measure = lambda request: Outcome("t", [], [], {}, ["c"], [], [], ("x", "y"))
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(said), \
                mock.patch.object(cli.node, "measure", measure), mock.patch.object(cli.machine, "busy_processors",
                                                                                   lambda: 0.0), \
                mock.patch.object(cli.machine, "shared_cores", lambda: 1.0), \
                mock.patch.object(cli.plot, "write", lambda *_: []), mock.patch.object(cli.signal, "signal"):
            self.assertEqual(cli.main(["--suite", "node", "--out", folder, "--build", self.build(kind)]), 0)
            return said.getvalue(), json.loads(next(pathlib.Path(folder).iterdir()).read_text())["machine"]

    def test_a_record_holds_the_build_type_and_one_that_is_no_release_is_said_so(self):
        said, kept = self.kept("debugoptimized")
        self.assertEqual(kept["build_type"], "debugoptimized")
        self.assertIn("a debugoptimized build is slower than what users get", said)
        said, kept = self.kept("release")
        self.assertEqual(kept["build_type"], "release")
        self.assertNotIn("slower", said)

    def test_without_a_build_it_says_how_to_make_one(self):
        with contextlib.redirect_stderr(io.StringIO()) as said, mock.patch.object(cli.signal, "signal"):
            self.assertEqual(cli.main(["--suite", "node", "--build", "/nonexistent/build-release"]), 2)
        self.assertIn("meson setup /nonexistent/build-release --buildtype=release", said.getvalue())
        self.assertEqual(cli.parse(["--suite", "node"]).build, cli.ROOT / "build-release")

    def test_how_long_it_takes_is_said_where_it_is_known(self):
        said = lambda *words: cli.duration(cli.parse(["--suite", *words]))
        self.assertIn("about 15 minutes", said("node"))
        self.assertIn("about 6 minutes", said("node", "--rounds", "2"))
        self.assertIn("about 33 minutes", said("lab"))
        self.assertIn("about 2 minutes", said("lab", "--only", "wire"))
        self.assertEqual((said("node", "--quick"), said("node", "--bytes", "4")), ("", ""))
        self.assertEqual(set(cli.MINUTES), (set(cli.SUITES) - set(cli.PARTS)) | {*lab.PARTS, *ps.PARTS, *pytorch.PARTS})

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
            file, = record.write(request, {"machine": {"cpu": "Intel"}, "rows": []})
        self.assertTrue(file.name.endswith("-lab-wire.json"), file)

    def test_each_part_is_kept_with_a_look_from_right_before_it(self):
        done, said = [], io.StringIO()

        def part():
            measure = lambda request: done.append(request.part) or Outcome("t", [], [], {}, ["c"], [], [], ("x", "y"))
            return mock.Mock(spec=["measure"], measure=measure)
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(said), \
                mock.patch.object(cli.lab, "PARTS", {"first": part(), "second": part()}), \
                mock.patch.dict(cli.MINUTES, first=1, second=1), \
                mock.patch.object(cli.machine, "busy_processors", lambda: float(len(done))), \
                mock.patch.object(cli.machine, "shared_cores", lambda: 1 + len(done) / 10), \
                mock.patch.object(cli.plot, "write", lambda *_: []), mock.patch.object(cli.signal, "signal"):
            self.assertEqual(cli.main(["--suite", "lab", "--out", folder, "--build", self.build()]), 0)
            kept = {document["part"]: document["machine"] for document in
                    (json.loads(file.read_text()) for file in pathlib.Path(folder).iterdir())}
        self.assertEqual({part: looks["busy_processors_before"] for part, looks in kept.items()},
                         {"first": 0, "second": 1})
        self.assertEqual({part: looks["shared_cores"] for part, looks in kept.items()},
                         {"first": [1, 1.1], "second": [1.1, 1.2]})
        self.assertIn("busy before the run: 1.00 - something else", said.getvalue())
        self.assertIn("took 1.10 times as long as at best\n", said.getvalue())

    def test_what_cannot_be_is_refused(self):
        for words in (["--only", "links"], ["--bytes", "3"], ["--bytes", "4,x"], ["--ranks", "0"], ["--rounds", "-1"]):
            with self.subTest(words), contextlib.redirect_stderr(io.StringIO()), self.assertRaises(SystemExit):
                cli.parse(["--suite", "node", *words])

    def refusal(self, *words):
        with contextlib.redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
            cli.parse(["--suite", *words])
        return said.getvalue().splitlines()[-1]

    def test_an_option_is_never_cut_short_and_a_misspelt_one_is_told_its_name(self):
        self.assertIn("unknown option --round; did you mean --rounds?", self.refusal("node", "--round", "9"))
        self.assertIn("unknown option --byts; did you mean --bytes?", self.refusal("node", "--byts=4"))
        self.assertTrue(self.refusal("node", "xyz").endswith("unexpected word xyz"))

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
            with mock.patch.object(cli.node, "measure",
                                   measure), contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
                status = cli.main(["--suite", "node", "--build", self.build()])
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
                            (["ps", "--only", "beside", "--bytes", "4,8"], "part beside, takes one value"),
                            (["ps", "--only", "apart", "--ranks", "4,8"], "part apart, takes one value"),
                            (["lab", "--only", "beside"], "suite lab has the parts links, ranks, wire"),
                            (["node", "--only", "beside"], "suite node has no parts")):
            with self.subTest(words):
                self.assertIn(said, self.refusal(*words))
        cli.parse(["--suite", "ps", "--only", "beside", "--ranks", "4", "--bytes", "4M"])

    def test_links_have_the_rate_that_is_asked_for_where_there_are_hosts(self):
        of = lambda *words: cli.parse(["--suite", *words]).links
        self.assertEqual(
            [str(links) for links in (of("lab"), of("lab", "--rate", "500mbit"), of("training", "--rate", "2.5gbit"))],
            ["links of 1 Gbit/s", "links of 500 Mbit/s", "links of 2.5 Gbit/s"])
        for words, said in (
                (["node", "--rate", "1gbit"], "--rate is of emulated hosts' links, which suite node has none of"),
                (["lab", "--rate", "none"], "a rate is needed"),
                (["lab", "--rate", "500"], "not '500'")):
            with self.subTest(words):
                self.assertIn(said, self.refusal(*words))


if __name__ == "__main__":
    unittest.main()
