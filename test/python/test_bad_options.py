#!/usr/bin/env python3
"""Every program of the build ends with status 2 for an option or value that does not exist, says why, and does nothing.
Scripts are in test_command_lines.py.

    test_bad_options.py BUILD [unittest options]
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

BUILD = pathlib.Path(sys.argv[1])
ROOT = pathlib.Path(__file__).resolve().parents[2]
# (program, its arguments, the text that it must print)
ASKED_FOR = [
    ("tutti-info", "--rank 4", "unknown option '--rank', did you mean '--ranks'?"),
    ("tutti-info", "--ranks many", "--ranks"),
    ("tutti-info", "--versoin", "did you mean '--version'?"),
    ("tutti-info", "more", "unexpected word 'more'"),
    ("benchmarks/allreduce_bench", "--max-byte 1M", "did you mean '--max-bytes'?"),
    ("benchmarks/allreduce_bench", "--op alreduce", "did you mean 'allreduce'?"),
    ("benchmarks/allreduce_bench", "--dtype f16", "MPI cannot reduce f16"),
    ("benchmarks/allreduce_bench", "--gpu 0", "--gpu is neither for MPI"),
    ("benchmarks/allreduce_bench", "-b 8 -g 1", "unknown option '-g'"),
    ("benchmarks/allreduce_bench", "-o prod", "'prod' is not known"),
    ("benchmarks/allreduce_bench", "-o average", "MPI has no average; use --impl tutti"),
    ("benchmarks/allreduce_bench", "--op sendrecv", "--op sendrecv needs two ranks"),
    ("benchmarks/allreduce_bench", "-n many", "--iters: 'many' is not a number"),
    ("benchmarks/allreduce_bench", "--csv /nonexistent/rows.csv", "cannot write /nonexistent/rows.csv"),
    ("benchmarks/allreduce_bench", "--impl tutti --kv-store nonsense", "nonsense"),
    ("benchmarks/negotiation_bench", "--tensor 4", "did you mean '--tensors'?"),
    ("benchmarks/negotiation_bench", "--steps 0", "--steps"),
    ("benchmarks/training_step", "--modle vgg16", "did you mean '--model'?"),
    ("benchmarks/training_step", "--model resnet51", "--model: 'resnet51' is not known, did you mean 'resnet50'?"),
    ("benchmarks/training_step", "--scale 0", "--scale: '0' is not above 0 and at most 10"),
    ("benchmarks/training_step", "--fusion-bytes 4X", "--fusion-bytes: '4X' is not a size, such as 65536"),
    ("benchmarks/training_step", "--link-gbps 0.94 --hosts 4", "--hosts 4, but the ranks are on 1"),
    ("benchmarks/training_step", "--link-gbps 0.94", "all ranks are on 1"),
    ("benchmarks/training_step", "--kv-store nonsense", "nonsense"),
    ("benchmarks/training_step", "--optimizer sdg", "did you mean 'sgd'?"),
    ("benchmarks/server_bench", "--kv-stor dist_sync", "did you mean '--kv-store'?"),
    ("benchmarks/server_bench", "--as aray", "did you mean 'array'?"),
    ("benchmarks/memory_probe", "--byte 4", "did you mean '--bytes'?"),
    ("benchmarks/memory_probe", "--threads 0", "--threads"),
    ("benchmarks/gpu_stages", "copeis", "did you mean 'copies'?"),
    ("benchmarks/gpu_stages", "copies --byte 4M", "did you mean '--bytes'?"),
    ("benchmarks/reduce_bench", "--benchmark_filtre=x", "--benchmark_filtre=x"),
    ("benchmarks/reduce_bench", "--benchmark_format=xml", "not one of those that there are"),
    ("benchmarks/reduce_bench", "--benchmark_min_time=long", "--benchmark_min_time"),
    ("benchmarks/reduce_bench", "--benchmark_filter=nothing_has_this_name", "nothing_has_this_name"),
    ("benchmarks/coordinator_bench", "more", "more"),
    ("benchmarks/queue_bench", "--bench", "--bench"),
    ("examples/train", "--newtork mlp", "did you mean '--network'?"),
    ("examples/train", "--network lenett", "--network: 'lenett' is not known, did you mean 'lenet'?"),
    ("examples/train", "--dataset digit", "did you mean 'digits'?"),
    ("examples/train", "--lr 1 --lr 2", "--lr is given more than once, with '1' and '2'; give it once"),
    ("examples/train", "--momentum 1.5", "--momentum: '1.5' is not a number from 0 to 1"),
    ("examples/train", "--num-epochs 1.5", "--num-epochs: '1.5' is not a whole number"),
    ("examples/train", "--network", "--network needs a value behind it"),
    ("examples/train", "--gpus 0", "CUDA"),
    ("examples/train", "--kv-store nonsense", "nonsense"),
    ("examples/train", "--json /nonexistent/run.json", "cannot write /nonexistent/run.json"),
    ("examples/hello", "--help-me", "takes no options"),
]


def start(program, words, env=None):
    return subprocess.run([BUILD / program, *words], text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, timeout=60, check=False, env=env)


class BadOptions(unittest.TestCase):
    def test_what_there_is_not_ends_a_program_with_2_and_a_reason(self):
        for program, words, said in ASKED_FOR:
            with self.subTest(f"{program} {words}"):
                if not (BUILD / program).exists():
                    self.skipTest("not built")
                done = start(program, words.split())
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertIn(said, done.stderr)

    def test_all_ranks_of_a_machine_say_what_is_wrong_once(self):
        misspelt = {"TUTTI_TIMEOUTT": "3"}
        for program, words, more in (("tutti-info", ["--rank", "4"], {}), ("examples/train", ["--newtork", "mlp"], {}),
                                     ("benchmarks/training_step", ["--modle", "x"], {}),
                                     ("examples/train", [], misspelt), ("benchmarks/training_step", [], misspelt),
                                     ("benchmarks/server_bench", [], misspelt),
                                     ("benchmarks/negotiation_bench", [], misspelt)):
            with self.subTest(program), tempfile.TemporaryDirectory() as folder:
                if not (BUILD / program).exists():
                    self.skipTest("not built")
                env = os.environ | more | {"PMIX_SERVER_TMPDIR": folder}
                ends = [start(program, words, env=env) for _ in range(3)]
                self.assertEqual([done.returncode for done in ends], [2, 2, 2])
                self.assertIn("did you mean", ends[0].stderr)
                self.assertEqual([done.stderr for done in ends[1:]], ["", ""])
                self.assertNotEqual(start(program, ["--another"], env=env).stderr, "")

    def test_one_rank_of_the_smallest_program_says_what_is_wrong(self):
        if not (BUILD / "examples/hello").exists():
            self.skipTest("not built")
        done = subprocess.run(["mpirun", "--oversubscribe", "-n", "4", BUILD / "examples/hello", "--such"], text=True,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=60,
                              check=False)
        self.assertEqual((done.returncode, done.stderr.count("takes no options")), (2, 1), done.stderr)

    def test_an_option_with_a_newline_forges_no_line(self):
        for words in (["--lr", "1\ntrain: all well"], ["--gpus", "0\ntrain: all well"],
                      ["--json", "/nonexistent/a\ntrain: all well"], ["a\ntrain: all well"]):
            with self.subTest(words):
                if not (BUILD / "examples/train").exists():
                    self.skipTest("not built")
                done = start("examples/train", words)
                self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn(r"\ntrain: all well", done.stderr)

    def test_every_program_of_the_build_is_in_the_table(self):
        recipes = {folder: (ROOT / folder / "meson.build").read_text() for folder in ("benchmarks", "examples")}
        built = {f"{folder}/{name}" for folder, text in recipes.items()
                 for name in re.findall(r"executable\('(\w+)'", text)}
        # The program that compare.py compiles against another MPI has the same main as allreduce_bench.
        self.assertEqual(built - {"benchmarks/mpi_allreduce"}, {str(program) for program, _, _ in ASKED_FOR} & built)

    def test_help_is_no_error(self):
        for program in sorted({str(program) for program, _, _ in ASKED_FOR} - {"examples/hello"}):
            with self.subTest(program):
                if not (BUILD / program).exists():
                    self.skipTest("not built")
                done = start(program, ["--help"])
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assertNotEqual(done.stdout, "")

    def test_each_program_says_its_version(self):
        known = re.search("version: '(.*)'", (ROOT / "meson.build").read_text())[1]
        for program in sorted({str(program) for program, _, _ in ASKED_FOR}):
            with self.subTest(program):
                if not (BUILD / program).exists():
                    self.skipTest("not built")
                done = start(program, ["--version"])
                self.assertEqual((done.returncode, done.stdout, done.stderr), (0, f"tutti {known}\n", ""))


class Information(unittest.TestCase):
    @unittest.skipUnless((BUILD / "tutti-info").exists(), "not built")
    def test_tutti_info_tells_all_as_one_json_object(self):
        done = start("tutti-info", ["--json", "--ranks", "4"])
        told = json.loads(done.stdout)
        self.assertEqual(list(told), ["build", "gpus", "options", "store", "memory"])
        self.assertEqual(told["build"]["host"], os.uname().nodename)
        self.assertTrue(told["build"]["processor"])
        self.assertEqual(told["options"]["TUTTI_LOG"], "warning")
        self.assertEqual([(one["ranks_per_node"], one["nodes"]) for one in told["memory"]], [(4, 1)])
        if done.returncode == 0 and "trouble" not in told["store"]:
            self.assertEqual(list(told["store"]), ["processes", "nodes", "buffer_bytes", "choices"])


class Announcements(unittest.TestCase):
    @unittest.skipUnless((BUILD / "benchmarks/reduce_bench").exists(), "not built")
    def test_a_benchmark_of_minutes_says_so_first_and_how_to_run_a_part(self):
        with subprocess.Popen([BUILD / "benchmarks/reduce_bench"], text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as whole:
            said = [whole.stderr.readline(), whole.stderr.readline()]
            whole.kill()
        self.assertRegex("".join(said), "all benchmarks take about 8 minutes; --benchmark_filter=REGEX runs some")

    @unittest.skipUnless((BUILD / "benchmarks/reduce_bench").exists(), "not built")
    def test_a_part_of_it_says_nothing_of_the_whole(self):
        part = start("benchmarks/reduce_bench", ["--benchmark_filter=memcpy 16KiB", "--benchmark_min_time=0.01"])
        self.assertEqual(part.returncode, 0, part.stderr)
        self.assertNotIn("all benchmarks take", part.stderr)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])
