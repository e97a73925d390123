#!/usr/bin/python3
"""benchmarks/compare/peers.py: the peers that run, and their settings."""
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

from comparing import KIB, MIB
from compare import cli, intel_on_hosts, peers
from compare.contest import BenchError


class Peers(unittest.TestCase):
    def with_modules(self, *modules):
        """The (contests, skipped) of node and of steps, if the peers' Python has these modules."""
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

    def test_without_the_python_that_has_them_peers_are_skipped_and_it_is_named(self):
        request = cli.parse(["--suite", "node", "--peers-python", "/no/such/python"])
        for find, here in ((peers.installed, ("Intel MPI", "Gloo", "Horovod")),
                           (peers.installed_for_steps, ("Horovod", "PyTorch's DDP"))):
            contests, skipped = find(request)
            self.assertEqual(contests, [])
            self.assertEqual({skipped[name] for name in here}, {"/no/such/python: there is no such program"})

    def python(self, script):
        """A program that plays a Python."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        program = pathlib.Path(folder.name, "python")
        program.write_text(script)
        program.chmod(0o755)
        return str(program)

    def test_a_python_that_fails_is_told_as_such_for_every_peer_with_what_it_said(self):
        broken = self.python("#!/bin/sh\necho 'no encodings here' >&2\nexit 3\n")
        request = cli.parse(["--suite", "node", "--peers-python", broken])
        stage = mock.Mock(request=request)
        on_hosts = lambda _: peers.found(request, {
            "Intel MPI": lambda _: intel_on_hosts.contests(stage),
            "MXNet's parameter server": lambda one: peers.mxnet(one, None, 1)})
        for find in (peers.installed, peers.installed_for_steps, on_hosts):
            contests, skipped = find(request)
            here = {name: why for name, why in skipped.items() if why != peers.ELSEWHERE[name]}
            self.assertEqual((contests, len(here)), ([], 3 if find is peers.installed else 2))
            for why in here.values():
                self.assertRegex(why, f'^{broken}: "import .*" ended with 3: no encodings here$')

    def test_no_folder_is_taken_for_that_of_a_python_that_does_not_name_its_own(self):
        for program, said in ((self.python("#!/bin/sh\n"), "ended with 0: it said nothing"),
                              (self.python("#!/bin/sh\npwd; exit 1\n"), "ended with 1"),
                              ("/", "cannot start /: Permission denied")):
            with self.assertRaisesRegex(BenchError, said):
                peers.prefix_of(program)
        self.assertEqual(peers.prefix_of(sys.executable), pathlib.Path(sys.prefix))

    def test_a_module_is_missing_where_it_is_not_found_alone_not_where_it_cannot_be_imported(self):
        self.assertTrue(peers.has_module(sys.executable, "json.decoder"))
        self.assertFalse(peers.has_module(sys.executable, "no_such_peer.torch"))
        with tempfile.TemporaryDirectory() as folder, mock.patch.dict("os.environ", PYTHONPATH=folder):
            pathlib.Path(folder, "needs_another.py").write_text("import no_such_peer\n")
            with self.assertRaisesRegex(BenchError,
                                        "import needs_another\" ended with 1: .*No module named 'no_such_peer'"):
                peers.has_module(sys.executable, "needs_another")

    def test_a_python_that_does_not_answer_is_no_peer_that_is_not_installed(self):
        with mock.patch("subprocess.run", side_effect=subprocess.TimeoutExpired("python", 1)), \
                self.assertRaisesRegex(BenchError, "import x.* still runs after"):
            peers.has_module("/some/python", "x")

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
        self.assertEqual([one.setting for one in of_node + of_steps if "Horovod" in one.names.values()],
                         ["default"] * 2)

    def test_horovod_is_told_to_yield_where_open_mpi_does_not_by_itself(self):
        with mock.patch("os.sched_getaffinity", return_value={0, 1}):
            (of_node, _), _ = self.with_modules("horovod.torch")
        self.assertEqual([[one.name for one in peers.fitting(of_node, ranks)] for ranks in (2, 4)],
                         [["Horovod", "Horovod, 0 ms", "Horovod, 0 ms, yielding"], ["Horovod", "Horovod, 0 ms"]])
        self.assertEqual(of_node[-1].env["OMPI_MCA_mpi_yield_when_idle"], "1")

    def test_gloo_and_horovod_are_run_for_some_sizes(self):
        (of_node, _), _ = self.with_modules("horovod.torch", "torch.distributed")
        sizes = [4, KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 16 * MIB, 64 * MIB, 128 * MIB]
        self.assertEqual([one.sizes_of(sizes) for one in of_node],
                         [[4, 16 * KIB, 64 * KIB, MIB, 64 * MIB]] * 4)


if __name__ == "__main__":
    unittest.main()
