"""The commands that the package installs, `python -m tutti`, and the errors of programs that were started wrongly. Run
by the Python that the package is installed for, outside of any job.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import tutti
import tutti_scripts

BIN = pathlib.Path(sys.executable).parent
ROOT = pathlib.Path(__file__).resolve().parents[2]
HAS_PICTURES = subprocess.run(["/usr/bin/python3", "-c", "import matplotlib"], check=False,
                              stderr=subprocess.DEVNULL).returncode == 0


class Commands(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_words(self, *words, status=0, **env):
        """Runs a command in a folder of its own. Returns (stdout, stderr)."""
        done = subprocess.run([str(word) for word in words], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, check=False, timeout=60, cwd=self.folder, env=os.environ | env)
        self.assertEqual(done.returncode, status, f"{done.stdout}\n{done.stderr}")
        self.assertNotIn("Traceback", done.stderr)
        return done.stdout, done.stderr

    def write(self, name, text):
        (self.folder / name).write_text(text)
        return self.folder / name


class Files(unittest.TestCase):
    """Checks that the package has all its files. meson.build lists each file by its name."""

    def modules(self, folder):
        return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.py")}

    def test_the_launcher_and_the_timeline_are_the_repositorys_with_every_module(self):
        installed, scripts = pathlib.Path(tutti_scripts.__file__).parent, ROOT / "scripts"
        self.assertEqual(self.modules(installed / "launcher"), self.modules(scripts / "launcher"))
        for file in ("command_line.py", "launch.py", "timeline"):
            self.assertEqual((installed / file).read_text(), (scripts / file).read_text())

    def test_no_module_of_the_package_is_left_out(self):
        installed = pathlib.Path(tutti.__file__).parent
        self.assertEqual(self.modules(installed), self.modules(ROOT / "bindings/python/tutti"))


MPI_LAUNCH = (BIN / "tutti-launch", "--mode", "mpi", "--launcher", "local")


class Launch(Commands):
    def test_it_starts_workers_that_form_a_job(self):
        script = self.write("train.py", "import tutti\nwith tutti.create('dist_sync_mpi') as kv:\n"
                                        "    print('worker', kv.allgather_object(kv.rank))\n")
        out, _ = self.run_words(*MPI_LAUNCH, "-n", 2, sys.executable, script)
        self.assertEqual(sorted(out.splitlines()), ["[worker 0] worker [0, 1]", "[worker 1] worker [0, 1]"])

    def test_it_starts_the_packages_own_servers(self):
        script = self.write("serve.py", "import numpy, tutti\nwith tutti.create('dist_sync') as kv:\n"
                                        "    ones = numpy.ones(3)\n    kv.pushpull('w', ones).wait()\n"
                                        "    print('worker', kv.rank, 'sum', ones[0])\n")
        out, _ = self.run_words(BIN / "tutti-launch", "-n", 2, "-s", 1, "--launcher", "local", sys.executable, script)
        self.assertEqual(sorted(out.splitlines()), [f"[worker {i}] worker {i} sum 2.0" for i in (0, 1)])
        out, _ = self.run_words(BIN / "tutti-server", "--version")
        self.assertTrue(out.startswith("tutti "), out)

    def test_its_exit_code_is_the_first_failing_workers(self):
        _, err = self.run_words(*MPI_LAUNCH, "-n", 1, "sh", "-c", "exit 7", status=7)
        self.assertIn("exit code 7", err)

    def test_it_says_what_to_type_in_its_own_name(self):
        _, err = self.run_words(BIN / "tutti-launch", "-n", 2, "true", status=2)
        self.assertIn("tutti-launch -n 2 --launcher local true", err)

    def test_it_needs_neither_numpy_nor_mpi(self):
        self.run_words(sys.executable, "-c",
                       "import sys, tutti_scripts; assert not {'numpy', 'tutti'} & set(sys.modules)")


class Timeline(Commands):
    def test_it_draws_what_a_store_wrote(self):
        script = self.write("train.py", "import numpy, tutti\n"
                            "with tutti.create('dist_sync_mpi', timeline='trace.json') as kv:\n"
                            "    for _ in range(5):\n"
                            "        kv.pushpull('w', numpy.ones(1000)).wait()\n")
        self.run_words("mpirun", "-n", 2, sys.executable, script)
        if not HAS_PICTURES:
            self.skipTest("this machine has no matplotlib")
        out, _ = self.run_words(BIN / "tutti-timeline", "trace.json", "step.png")
        self.assertIn("wrote step.png", out)
        self.assertEqual((self.folder / "step.png").read_bytes()[:4], b"\x89PNG")

    def test_a_wrong_line_is_refused_by_name(self):
        if HAS_PICTURES:
            _, err = self.run_words(BIN / "tutti-timeline", "--form", "3", "a.json", "b.png", status=2)
            self.assertIn("did you mean --from?", err)


class Info(Commands):
    def test_it_tells_how_the_library_is_built_and_how_a_store_of_the_job_comes_up(self):
        for words, processes in (([], 1), (["mpirun", "-n", "2"], 2)):
            out, _ = self.run_words(*words, BIN / "tutti-info", "--ranks", 4, TUTTI_PART_BYTES="4M")
            for text in ("Build, libraries and machine", r"  host +\S", r"  processor +\S",
                         r"\* TUTTI_PART_BYTES +4M", f"processes +{processes}", "nodes +1",
                         r"1 node of 4 ranks +at most \d+\.\d\d MiB"):
                self.assertEqual(len(re.findall(text, out)), 1, f"{text}\n{out}")

    def test_a_store_that_does_not_come_up_is_told_with_its_reason(self):
        out, _ = self.run_words(BIN / "tutti-info", WORLD_SIZE="2", RANK="0", status=1)
        self.assertRegex(out, "does not come up: MPI sees 1 process")
        out, _ = self.run_words(BIN / "tutti-info", "--json", WORLD_SIZE="2", RANK="0", status=1)
        self.assertRegex(json.loads(out)["store"]["trouble"], "^MPI sees 1 process")

    def test_it_tells_the_same_as_json(self):
        out, _ = self.run_words("mpirun", "-n", "2", BIN / "tutti-info", "--ranks", 4, "--json", TUTTI_PART_BYTES="4M")
        told = json.loads(out)
        self.assertEqual(list(told), ["build", "gpus", "options", "store", "memory"])
        self.assertEqual(told["build"]["tutti"], tutti.__version__)
        self.assertEqual(told["build"]["host"], os.uname().nodename)
        self.assertTrue(told["build"]["processor"])
        self.assertEqual(told["options"]["TUTTI_PART_BYTES"], "4M")
        self.assertEqual((told["store"]["processes"], told["store"]["nodes"]), (2, 1))
        self.assertEqual(list(told["store"]["choices"][0]), ["name", "value", "origin"])
        self.assertEqual([one["ranks_per_node"] for one in told["memory"]], [4])

    def test_what_is_wrong_on_all_ranks_is_said_once(self):
        for words, text in ((["--rank", "2"], "did you mean --ranks?"), ([], "did you mean 'TUTTI_REPLAY'?")):
            env = {} if words else {"TUTTI_REPLAI": "1"}
            done = subprocess.run(["mpirun", "-n", "3", BIN / "tutti-info", *words], text=True, check=False, timeout=60,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=os.environ | env)
            self.assertEqual(done.stderr.count(text), 1, done.stderr)

    def test_a_wrong_line_or_environment_is_refused(self):
        for words, env, text in ((["--rank", "2"], {}, "did you mean --ranks?"), (["--ranks", "0"], {}, "'0'"),
                                 ([], {"TUTTI_REPLAI": "1"}, "TUTTI_REPLAY")):
            _, err = self.run_words(BIN / "tutti-info", *words, status=2, **env)
            self.assertIn(text, err)


class Bench(Commands):
    def test_it_times_right_sums_of_each_size(self):
        out, _ = self.run_words("mpirun", "-n", 2, BIN / "tutti-bench", "--impl", "tutti", "--max-bytes", "1K",
                                "--seconds", 0.01, "--json", "rows.json")
        rows = json.loads((self.folder / "rows.json").read_text())
        self.assertEqual([row["bytes"] for row in rows], [4, 16, 64, 256, 1024])
        for row in rows:
            self.assertFalse(row["wrong"])
            # The names of allreduce_bench.
            self.assertEqual((row["impl"], row["op"], row["dtype"], row["ranks"]), ("tutti", "allreduce", "f32", 2))
            took = row["time_us"]
            self.assertTrue(0 < took["min"] <= took["p50"] <= took["p99"] <= took["max"], row)
            self.assertAlmostEqual(row["algbw_GBps"], row["bytes"] / took["p50"] / 1e3)
            self.assertAlmostEqual(row["busbw_GBps"], row["algbw_GBps"])  # of two ranks
        # If mpi4py is not installed, one of the lines says so.
        self.assertIn(len(out.splitlines()), (3 + len(rows), 4 + len(rows)))

    def test_turns_begin_in_mpis_barrier_where_mpi4py_is_installed(self):
        (self.folder / "mpi4py").mkdir()
        self.write("mpi4py/__init__.py", "")
        self.write("mpi4py/MPI.py", "class COMM_WORLD:\n    @staticmethod\n    def Barrier():\n"
                   "        print('MPI')\n")
        code = ("import tutti.bench as bench\n"
                "class Kv:\n    rank, num_workers = 0, 1\n    def barrier(self):\n        print('store')\n"
                "kv = Kv()\n"
                "bench.Trial(kv, 'float32', 1, bench.meeting(kv)).turn(lambda ins, outs: print('sum'))\n")
        out, _ = self.run_words(sys.executable, "-c", code)
        self.assertEqual(out.split(), ["MPI", "sum", "MPI"])

    def test_what_there_is_not_is_refused(self):
        for words, text in ((["--dtpye", "int8"], "did you mean --dtype?"), (["--factor", "1"], "at least 2"),
                            (["--max-bytes", "1X"], "'1X'"), (["--min-bytes", "1G"], "above --max-bytes"),
                            (["--impl", "mpi"], "did you mean mpi4py?"), (["more"], "unexpected word more")):
            _, err = self.run_words(BIN / "tutti-bench", *words, status=2)
            self.assertIn(text, err)


SHOWS_ITSELF = """
import json, sys
print(json.dumps([__name__, __file__, sys.argv, sys.path[0], sys.modules["__main__"].__dict__ is globals()]))
sys.exit(3)
"""
ADAPTED = """
import sys, runpy
from tutti_scripts import autoload
autoload.ADAPTERS.update({"colorsys": "made_up", "no_such_library": "no_such_adapter"})
sys.argv[:] = ["-m", "script.py"]
runpy.run_module("tutti", run_name="__main__", alter_sys=True)
"""


class Module(Commands):
    def test_a_script_meets_what_it_meets_without(self):
        (self.folder / "sub").mkdir()
        script = self.write("sub/script.py", SHOWS_ITSELF)
        words = ["sub/script.py", "--lr", "0.1"]
        plain, _ = self.run_words(sys.executable, *words, status=3)
        out, _ = self.run_words(sys.executable, "-m", "tutti", *words, status=3)
        self.assertEqual(json.loads(out), json.loads(plain))
        self.assertEqual(json.loads(out)[2], ["sub/script.py", "--lr", "0.1"])
        self.assertEqual(json.loads(out)[3], str(script.parent))

    def test_a_library_has_its_adapter_when_the_script_has_imported_it(self):
        self.write("script.py", "print('script')\nimport colorsys\nprint(colorsys.rgb_to_hsv(0, 0, 0))\n"
                   "try:\n    import no_such_library\nexcept ImportError as error:\n    print(error)")
        self.write("made_up.py", "import colorsys\nprint('adapter of', colorsys.__name__)")
        out, _ = self.run_words(sys.executable, "-c", ADAPTED)
        self.assertEqual(out, "script\nadapter of colorsys\n(0.0, 0.0, 0)\nNo module named 'no_such_library'\n")

    def test_every_python_does_the_same_where_the_environment_names_the_library(self):
        self.write("mxnet.py", "print('library')")
        script = self.write("script.py", "print('script')\nimport sys\nsys.modules['tutti.mxnet'] = sys\n"
                            "import mxnet\nprint(type(mxnet.__spec__.loader).__module__)")
        out, _ = self.run_words(sys.executable, script)
        self.assertEqual(out, "script\nlibrary\n_frozen_importlib_external\n")
        out, _ = self.run_words(sys.executable, script, TUTTI_AUTOLOAD="mxnet")
        self.assertEqual(out, "script\nlibrary\ntutti_scripts.autoload\n")
        _, err = self.run_words(sys.executable, script, status=2, TUTTI_AUTOLOAD="mxnett")
        self.assertIn("no adapter for 'mxnett'; did you mean mxnet? (known: mxnet)", err)

    def test_a_process_of_another_role_is_told_what_to_start_before_the_library_takes_it(self):
        """MXNet itself becomes a server while it is imported, and ends the program afterwards."""
        self.write("mxnet.py", "print('library')")
        script = self.write("script.py", "import sys\nsys.modules['tutti.mxnet'] = sys\nimport mxnet")
        for role in ("server", "scheduler"):
            out, _ = self.run_words(sys.executable, script, DMLC_ROLE=role)  # MXNet's own jobs go on as they were
            self.assertEqual(out, "library\n")
            for words, env in (((script,), {"TUTTI_AUTOLOAD": "mxnet"}), (("-m", "tutti", script), {})):
                out, err = self.run_words(sys.executable, *words, status=2, DMLC_ROLE=role, **env)
                self.assertEqual(out, "")
                self.assertIn(f"DMLC_ROLE={role} asks for a {role}, but this program is a worker; start `tutti-server`",
                              err)
        out, _ = self.run_words(sys.executable, script, DMLC_ROLE="worker", TUTTI_AUTOLOAD="mxnet")
        self.assertEqual(out, "library\n")

    def test_without_a_script_that_is_there_it_says_how_it_is_used(self):
        for words, text in (([], "python -m tutti SCRIPT"), (["nothing.py"], "nothing.py: No such file"),
                            (["--kv", "x.py"], "--kv"), (["--verson"], "did you mean --version?")):
            _, err = self.run_words(sys.executable, "-m", "tutti", *words, status=2)
            self.assertIn(text, err)
        out, _ = self.run_words(sys.executable, "-m", "tutti", "--help")
        self.assertIn("python -m tutti SCRIPT", out)
        for command in (*Names.COMMANDS, "tutti-server"):
            self.assertIn(f"    {command} ", out)
        out, _ = self.run_words(sys.executable, "-m", "tutti", "--version")
        self.assertRegex(out, r"^tutti \d+\.\d+\.\d+\n$")


class Names(Commands):
    COMMANDS = ("tutti-bench", "tutti-info", "tutti-launch", "tutti-timeline")

    def test_a_command_calls_itself_as_the_user_typed_it(self):
        for command in self.COMMANDS:
            out, _ = self.run_words(BIN / command, "--help")
            self.assertIn(f"usage: {command} ", out)
            self.assertNotIn("launch.py", out)
            _, err = self.run_words(BIN / command, "--such", status=2)
            self.assertIn(f"{command}: error: " if command != "tutti-launch" else "tutti-launch: ", err)
        for command in (*self.COMMANDS, "tutti-server"):
            out, _ = self.run_words(BIN / command, "--version")
            self.assertEqual(out, f"tutti {tutti.__version__}\n")
        out, _ = self.run_words(sys.executable, "-m", "tutti.bench", "--help")
        self.assertIn("usage: python -m tutti.bench ", out)

    def test_a_reader_that_has_gone_ends_a_command_without_a_word(self):
        for words in (["tutti-info"], *([command, "--help"] for command in self.COMMANDS)):
            command = " ".join([str(BIN / words[0]), *words[1:]])
            _, err = self.run_words("bash", "-c", f"{command} | true; [[ ${{PIPESTATUS[0]}} =~ ^(0|141) ]]")
            self.assertEqual(err, "")


class Started(Commands):
    """Programs that mpirun starts in a way that costs speed."""

    CREATES = "import tutti\nfor kind in ('local', 'dist_sync_mpi', 'dist_sync_mpi'): tutti.create(kind).close()\n"

    def bound(self, how, **env):
        """The lines of two ranks that are bound in this way."""
        _, err = self.run_words("mpirun", "-n", 2, "--bind-to", how, sys.executable, self.write("s.py", self.CREATES),
                                **{"OMP_NUM_THREADS": "4", **env})
        return [line for line in err.splitlines() if line.startswith("tutti: ")]

    def test_ranks_bound_to_one_core_that_want_more_threads_are_told_once(self):
        line, = self.bound("core")
        self.assertIn("--bind-to none", line)
        self.assertIn("4 threads", line)

    def test_ranks_that_start_more_threads_than_there_are_processors_are_told_their_share_once(self):
        env = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
        words = ("mpirun", "-n", 2, "--bind-to", "none", "env", *(f"-u{name}" for name in env), sys.executable,
                 self.write("s.py", self.CREATES))
        own = len(os.sched_getaffinity(0))
        _, err = self.run_words(*words)
        lines = [line for line in err.splitlines() if line.startswith("tutti: ")]
        self.assertEqual(len(lines), int(own > 1), err)
        if own > 1:
            self.assertIn(f"each of the 2 ranks of this machine starts {own} threads", lines[0])
            self.assertIn(f"-x OMP_NUM_THREADS={own // 2}, ", lines[0])
        for chosen in ("OMP_NUM_THREADS=3", "OPENBLAS_NUM_THREADS=1", "TUTTI_LOG=error"):
            _, err = self.run_words(*words[:-2], chosen, *words[-2:])
            self.assertNotIn("threads of BLAS", err, chosen)

    def test_others_are_told_nothing(self):
        self.assertEqual(self.bound("none"), [])
        self.assertEqual(self.bound("core", OMP_NUM_THREADS="1"), [])
        self.assertEqual(self.bound("core", TUTTI_LOG="error"), [])


if __name__ == "__main__":
    unittest.main()
