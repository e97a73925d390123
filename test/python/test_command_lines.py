#!/usr/bin/env python3
"""Every program in Python and for the shell ends with status 2 for an option or value that does not exist, says why,
and does nothing.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
# (program, its arguments, the text that it must print). The programs of the build are in test_bad_options.py.
ASKED_FOR = [
    ("scripts/launch.py", "--nmu-workers 2 true", "unknown option --nmu-workers; did you mean --num-workers?"),
    ("scripts/launch.py", "-n two --launcher local true", "invalid int value: 'two'"),
    ("scripts/launch.py", "-n 0 --launcher local true", "-n N, with N at least 1"),
    ("scripts/launch.py", "-n 2 --launcher locla true", "did you mean local?"),
    ("scripts/launch.py", "-n 2 --launcher local true", "--mode ps needs tutti-server"),
    ("scripts/launch.py", "-n 2 true", "scripts/launch.py -n 2 --launcher local true"),
    ("scripts/launch.py", "-n 2 --launcher local", "the command to start is missing"),
    ("scripts/launch.py", "-n 2 --launcher local --grace soon true", "'soon'"),
    ("scripts/launch.py", "-n 2 -H /nonexistent true", "/nonexistent: No such file"),
    ("scripts/launch.py", "-n 2 -H /bin/sh true", "/bin/sh:1:"),
    ("scripts/lab", "", "COMMAND"),
    ("scripts/lab", "dwon", "unknown command dwon; known are up, exec, run, traffic, down, list; did you mean down?"),
    ("scripts/lab", "--nmae x down", "unknown option --nmae"),
    ("scripts/lab", "down --nmae=x", "did you mean --name?"),
    ("scripts/lab", "down x", "unexpected word x"),
    ("scripts/lab", "up two", "'two'"),
    ("scripts/lab", "up 0", "1 to 250 hosts"),
    ("scripts/lab", "up 2 --rate 1gb", "1mbit or more"),
    ("scripts/lab", "up 2 --name A_B", "small letters and digits"),
    ("scripts/lab", "run --map blok true", "did you mean block?"),
    ("scripts/lab", "run", "name the program"),
    ("scripts/lab", "exec h0 --verbose ls", "--verbose"),
    ("scripts/timeline", "--form 3 a.json b.png", "did you mean --from?"),
    ("scripts/timeline", "--from x a.json b.png", "'x'"),
    ("scripts/timeline", "a.json b.json", "no .png, .svg or .pdf"),
    ("scripts/timeline", "/nonexistent.json b.png", "error: /nonexistent.json: No such file or directory\n"),
    ("scripts/profile", "--case 2", "unknown option --case"),
    ("scripts/profile", "more", "unexpected word more"),
    ("scripts/gpu-check", "--form x", "did you mean --from?"),
    ("scripts/gpu-check", "--only copeis", "no section has this in its name"),
    ("scripts/demo", "--epochs", "unknown option --epochs"),
    ("scripts/test", "--teir full", "unknown option --teir"),
    ("scripts/test", "--tier fast", "not 'fast'"),
    ("scripts/test", "--tier", "not ''"),
    ("scripts/test", "--part", "--part needs a part's name"),
    ("scripts/setup", "--test", "unknown option --test"),
    ("scripts/run_tests.py", "", "TIER"),
    ("scripts/run_tests.py", "ful", "did you mean full?"),
    ("scripts/run_tests.py", "full --part fuz", "did you mean fuzz?"),
    ("scripts/checks/clang_syntax.py", "--biuld x", "did you mean --build?"),
    ("scripts/checks/contract.py", "--al", "unknown option --al"),
    ("scripts/checks/layout.py", "--al", "unknown option --al"),
    ("scripts/checks/layout.py", "/nonexistent", "/nonexistent is no folder"),
    ("scripts/checks/modules.py", "--al", "unknown option --al"),
    ("scripts/checks/mxnet_contract.py", "--al", "unknown option --al"),
    ("scripts/checks/public_headers.py", "--al", "unknown option --al"),
    ("scripts/checks/type_names.py", "--al", "unknown option --al"),
    ("scripts/checks/tidy.py", "--al", "did you mean --all?"),
    ("scripts/checks/format.sh", "--al", "--al"),
    ("benchmarks/compare.py", "--suit node", "did you mean --suite?"),
    ("benchmarks/compare.py", "--suite nod", "did you mean node?"),
    ("benchmarks/compare.py", "--suite node --rounds x", "--rounds"),
    ("benchmarks/summary.py", "--chrat x.png r.json", "did you mean --chart?"),
    ("benchmarks/summary.py", "/nonexistent.json", "error: /nonexistent.json: No such file or directory\n"),
    ("examples/plot_curves.py", "run.json", "--out"),
    ("examples/plot_curves.py", "--ot x.png run.json", "--out"),
    ("examples/plot_curves.py", "--out x.png /nonexistent/run.json", "/nonexistent/run.json"),
    ("examples/data/make_digits.py", "", "digits.csv.gz"),
    ("examples/data/make_digits.py", "--csv x", "--csv"),
    ("test/planted/planted.py", "--onyl x", "did you mean --only?"),
    ("test/planted/planted.py", "--only nonsense", "no bug has 'nonsense' in its name"),
    ("test/lab/on_hosts.py", "--rat 1gbit 2x1 true", "did you mean --rate?"),
    ("test/lab/on_hosts.py", "2x true", "2x4"),
    ("test/lab/on_hosts.py", "2x0 true", "1 rank or more"),
    ("test/lab/on_hosts.py", "2x1", "name the program"),
    ("test/lab/on_hosts.py", "--env A 2x1 true", "NAME=VALUE"),
]
# These programs are not for people. Other programs start them.
INNER = {".ci/run", "benchmarks/peers/ddp_steps.py", "benchmarks/peers/numpy_allreduce.py",
         "benchmarks/peers/numpy_idle.py", "benchmarks/peers/numpy_steps.py", "benchmarks/peers/gloo_allreduce.py",
         "benchmarks/peers/horovod_allreduce.py",
         "benchmarks/peers/horovod_steps.py", "benchmarks/peers/mxnet_pushpull.py",
         "benchmarks/peers/mxnet_updates.py", "benchmarks/peers/served.py", "test/lab/agent.sh",
         "test/lab/test_bits.py",
         "test/unit/seed_bugs.py"}


class CommandLines(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def refused(self, program, words, said, **how):
        done = subprocess.run([str(ROOT / program), *words.split()], text=True, cwd=self.folder,
                              stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60, check=False, **how)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertIn(said, done.stderr)
        self.assertNotIn("Traceback", done.stderr)
        self.assertEqual(os.listdir(self.folder), [])

    def test_what_there_is_not_ends_a_program_with_2_and_a_reason(self):
        for program, words, said in ASKED_FOR:
            with self.subTest(f"{program} {words}"):
                self.refused(program, words, said)

    @unittest.skipIf(os.geteuid() != 0, "only root can become another user")
    def test_so_it_is_for_who_may_not_make_hosts(self):
        for program, words, said in ASKED_FOR:
            if "lab" in program:
                with self.subTest(f"{program} {words}"):
                    os.chmod(self.folder, 0o755)
                    self.refused(program, words, said, user=65534)

    def test_what_the_user_typed_cannot_act_upon_the_terminal(self):
        self.refused("scripts/lab", "\x1b[31mdown", r"unknown command \x1b[31mdown")
        self.refused("scripts/launch.py", "-n\x1b[31m --launcher local true", r"\x1b[31m")

    def test_help_is_no_error(self):
        for program in sorted({program for program, _, _ in ASKED_FOR}):
            with self.subTest(program):
                done = subprocess.run([str(ROOT / program), "--help"], text=True, stdin=subprocess.DEVNULL,
                                      stdout=subprocess.PIPE,
                                      stderr=subprocess.PIPE, timeout=60, check=False)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertNotEqual(done.stdout, "")

    def test_a_program_says_the_trees_version(self):
        known = re.search("version: '(.*)'", (ROOT / "meson.build").read_text())[1]
        for words in (["scripts/launch.py"], ["scripts/timeline"], ["scripts/lab"], ["scripts/lab", "up"],
                      ["scripts/demo"], ["scripts/setup"], ["scripts/test"], ["examples/plot_curves.py"]):
            done = subprocess.run([str(ROOT / words[0]), *words[1:], "--version"], text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=60, check=False)
            self.assertEqual((done.returncode, done.stdout), (0, f"tutti {known}\n"))
            if words[0] not in ("scripts/demo", "scripts/setup", "scripts/test"):
                self.refused(words[0], "--versoin", "unknown option --versoin; did you mean --version?")

    def test_the_timelines_command_calls_itself_as_the_user_typed_it_also_without_matplotlib(self):
        started = ("import sys, pathlib, tutti_scripts; sys.modules['matplotlib'] = None; "
                   f"tutti_scripts.HERE = pathlib.Path({str(ROOT / 'scripts')!r}); "
                   "sys.argv = ['/bin/tutti-timeline', *sys.argv[1:]]; sys.exit(tutti_scripts.timeline())")
        for word, status, said in (("--help", 0, "usage: tutti-timeline "), ("--form", 2, "tutti-timeline: error: ")):
            done = subprocess.run([sys.executable, "-c", started, word], text=True, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, timeout=60, check=False, stdin=subprocess.DEVNULL,
                                  env={**os.environ, "PYTHONPATH": str(ROOT / "bindings/python")})
            self.assertEqual(done.returncode, status, done.stdout)
            self.assertIn(said, done.stdout)

    def test_every_program_of_the_tree_is_in_the_table(self):
        listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "-s"], text=True, stdout=subprocess.PIPE,
                                check=False)
        if listed.returncode != 0:
            self.skipTest("not a clone")
        programs = {line.split("\t")[1] for line in listed.stdout.splitlines() if line.startswith("100755")}
        self.assertEqual(programs - INNER, {program for program, _, _ in ASKED_FOR})


if __name__ == "__main__":
    unittest.main()
