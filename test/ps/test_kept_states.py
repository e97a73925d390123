#!/usr/bin/env python3
"""Jobs of scripts/launch.py whose servers keep what they have.

    test_kept_states.py TUTTI_SERVER STEPS SLOW_DISK
"""
import os
import pathlib
import re
import signal
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from launching import LOCAL, LaunchCase

SERVER, STEPS, SLOW_DISK = sys.argv[1:4]
RIGHT = "finished, and all values were right"
UNWRITTEN = "ended before it had written its state"
SANITIZED = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
SLOWLY = ("--env", f"LD_PRELOAD={SLOW_DISK}", "--env", f"ASAN_OPTIONS={SANITIZED}")


class KeptStatesCase(LaunchCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def environment(self, **more):
        path = f"{pathlib.Path(SERVER).absolute().parent}:{os.environ['PATH']}"
        return super().environment(**{"PATH": path, "TUTTI_CREATE_SECONDS": "20", "TUTTI_TIMEOUT_SECONDS": "20",
                                      "MXNET_KVSTORE_BIGARRAY_BOUND": "1000", **more})

    def run_steps(self, phase, *words, servers=2):
        code, out, err = self.launch("-n", 2, "-s", servers, *LOCAL, *words, STEPS, "dist_sync", phase, 20, 20_000)
        self.assertEqual(code, 0, out + err)
        self.assertEqual(out.count(RIGHT), 2, out + err)
        return err


class KeptStates(KeptStatesCase):
    def test_a_server_that_is_killed_is_started_again_and_the_job_goes_on(self):
        process = self.start("-n", 2, "-s", 2, *LOCAL, "--server-state", self.folder, "--durable", "each", STEPS,
                             "dist_sync", "mixed", 300, 20_000, 4)
        lines = self.wait_for_lines(process, 1, "step 10")
        self.kill("server", 1)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, "".join(lines) + out + err)
        self.assertEqual(out.count(RIGHT), 2, out + err)
        self.assertIn("[server 1] launch.py: SIGKILL ended it; it is started again", err)
        self.assertRegex(err, r"\[server 1\] .*server 1 goes on from its state")
        self.assert_nothing_left()

    def test_a_server_that_is_killed_again_and_again_ends_the_job(self):
        process = self.start("-n", 1, "-s", 1, *LOCAL, "--server-state", self.folder, "--durable", "each", "--grace", 1,
                             STEPS, "dist_sync", "mixed", 1_000_000, 20_000, 4)
        for _ in range(6):
            self.wait_for_lines(process, 1, "step ")
            self.kill("server", 0)
        out, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGKILL, out + err)
        again = re.findall(r"^\[server 0\] launch.py: SIGKILL ended it; it is started again", err, re.M)
        self.assertEqual(len(again), 5, err)
        self.assertRegex(err, "server 0 on .* was the first to fail: it was ended by signal 9")

    def test_without_durable_a_killed_server_ends_the_job(self):
        process = self.start("-n", 1, "-s", 1, *LOCAL, "--server-state", self.folder, "--grace", 5, STEPS, "dist_sync",
                             "mixed", 1_000_000, 20_000, 4)
        self.wait_for_lines(process, 1, "step 10")
        self.kill("server", 0)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 128 + signal.SIGKILL, err)
        self.assertNotIn("started again", err)

    def test_the_next_job_goes_on_and_another_number_of_servers_restores(self):
        old, new = self.folder / "old", self.folder / "new"
        self.run_steps("mixed", "--server-state", old)
        self.run_steps("mixed-after-20", "--server-state", old, "--durable", "seconds=5")
        self.run_steps("mixed-after-40", "--server-state", new, "--restore", old, servers=3)


class LastStates(KeptStatesCase):
    """The state that is left when the job is over, on a slow disk: longer than servers that need not write have."""

    def begun(self, *words):
        """A job that goes on until it is ended; its server has begun."""
        process = self.start("-n", 1, "-s", 1, *LOCAL, *SLOWLY, "--server-state", self.folder, *words, STEPS,
                             "dist_sync", "mixed", 1_000_000, 20_000, 4)
        self.wait_for_lines(process, 1, "step 10")
        return process

    def end_of(self, process):
        """Returns its exit code, and the rest of its standard error."""
        _, err = process.communicate(timeout=60)
        self.assert_nothing_left()
        return process.returncode, err

    def kept(self):
        return sorted(path.name for path in self.folder.iterdir() if "lock" not in path.name)

    def test_the_launcher_waits_until_it_is_written(self):
        err = self.run_steps("mixed", *SLOWLY, "--server-state", self.folder, servers=1)
        self.assertRegex(err, "launch.py: server 0 on .* writes its state")
        self.run_steps("mixed-after-20", "--server-state", self.folder, servers=1)

    def test_ctrl_c_leaves_it_behind(self):
        process = self.begun()
        process.send_signal(signal.SIGINT)
        code, err = self.end_of(process)
        self.assertEqual(code, 128 + signal.SIGINT, err)
        self.assertEqual(self.kept(), ["server-0-of-1.checkpoint-2"], err)
        self.assertNotIn(UNWRITTEN, err)

    def test_another_ctrl_c_ends_all_at_once_and_it_is_said_that_the_state_may_be_an_earlier_one(self):
        process = self.begun()
        process.send_signal(signal.SIGINT)
        for line in process.stderr:
            if "writes its state" in line:
                break
        process.send_signal(signal.SIGINT)
        code, err = self.end_of(process)
        self.assertEqual(code, 128 + signal.SIGINT, err)
        self.assertIn("server-0-of-1.checkpoint-1", self.kept(), err)
        self.assertRegex(err, f"server 0 on .* {UNWRITTEN}: {self.folder} may have an earlier state")

    def test_a_server_that_is_killed_meanwhile_is_not_taken_for_one_that_has_written_it(self):
        process = self.start("-n", 1, "-s", 1, *LOCAL, *SLOWLY, "--server-state", self.folder, STEPS, "dist_sync",
                             "mixed", 20, 20_000)
        self.wait_for_lines(process, 1, RIGHT)
        for line in process.stderr:
            if "writes its state" in line:
                break
        self.kill("server", 0)
        code, err = self.end_of(process)
        self.assertEqual(code, 1, err)
        self.assertRegex(err, f"server 0 on .* {UNWRITTEN}: {self.folder} may have an earlier state")

    def test_a_durable_server_has_it_already(self):
        words = ("--server-state", self.folder, "--durable", "each")
        self.run_steps("mixed", *SLOWLY, *words, servers=1)
        self.assertEqual(self.kept(), ["server-0-of-1.checkpoint-1", "server-0-of-1.journal-1"])
        self.run_steps("mixed-after-20", *words, servers=1)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
