#!/usr/bin/env python3
"""Parameter-server jobs of scripts/launch.py --mode ps on this machine, with real processes.

    test_jobs.py TUTTI_SERVER TRAIN C_WORKER [slow]
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from launching import LOCAL, LaunchCase, variables_of

DIGITS = pathlib.Path(__file__).resolve().parents[2] / "examples/data"
SERVER, TRAIN, C_WORKER = sys.argv[1:4]
SLOW = sys.argv[4:] == ["slow"]
if SLOW:
    sys.argv.pop()
# Gives up well before the test does.
IMPATIENT = {"TUTTI_CREATE_SECONDS": "20", "TUTTI_TIMEOUT_SECONDS": "20"}
# Tries to listen at the scheduler's port as another program does that allows it to be shared.
INTRUDE = """
import os, socket, time
try:
    one = socket.create_server(("127.0.0.1", int(os.environ["DMLC_PS_ROOT_PORT"])))
except OSError as error:
    print(error, flush=True)
else:
    time.sleep(20)
"""
# Takes the place of tutti-server: the scheduler has no time yet, and an intruder connects.
HELD_UP = """#!/bin/sh
if [ "$DMLC_ROLE" = scheduler ]; then
  {python} -c '{intrude}' >&2 &
  sleep 1
fi
exec {server} "$@"
"""


def weights(text):
    return re.findall(r"rank \d weights sha256 (\w+)", text)


class JobCase(LaunchCase):
    def environment(self, **more):
        path = f"{pathlib.Path(SERVER).absolute().parent}:{os.environ['PATH']}"
        # For processes without a launcher. They must make no key in the home of the user who runs the tests.
        return super().environment(**{"PATH": path, "TUTTI_JOB_KEY": "5a" * 31 + "5b", **IMPATIENT, **more})

    def begun(self, *words):
        """A job that trains for long, in its first steps."""
        process = self.start("-n", 2, "-s", 2, *LOCAL, "--grace", 10, *words, TRAIN, "--network", "mlp",
                             "--kv-store", "dist_sync", "--epochs", 100000)
        self.wait_for_lines(process, 1, "Epoch 0: Train_loss")
        return process

    def end_of(self, process):
        out, err = process.communicate(timeout=40)
        return process.returncode, out, err


class Training(JobCase):
    def test_lenet_learns_the_digits_with_equal_weights_on_all_workers(self):
        code, out, err = self.launch("-n", 2, "-s", 2, *LOCAL, TRAIN, "--network", "lenet", "--dataset", "digits",
                                     "--kv-store", "dist_sync", "--epochs", 8)
        self.assertEqual(code, 0, err)
        accuracies = [float(text) for text in re.findall(r"Test_acc ([\d.]+)", out)]
        self.assertGreaterEqual(max(accuracies), 0.95, out)
        self.assertEqual(len(weights(out)), 2, out)
        self.assertEqual(len(set(weights(out))), 1, out)
        self.assert_nothing_left()

    def test_several_devices_of_a_worker_are_summed(self):
        code, out, err = self.launch("-n", 2, "--mode", "ps", *LOCAL, TRAIN, "--network", "mlp", "--devices", 2,
                                     "--kv-store", "dist_device_sync", "--epochs", 4)
        self.assertEqual(code, 0, err)
        self.assertGreaterEqual(float(re.findall(r"Test_acc ([\d.]+)", out)[-1]), 0.95, out)
        self.assertEqual(len(set(weights(out))), 1, out)

    def test_workers_learn_what_one_process_with_their_joint_batch_learns(self):
        def losses(*words, **how):
            with tempfile.TemporaryDirectory() as folder:
                file = pathlib.Path(folder, "numbers.json")
                code, _, err = self.launch(*words, "--network", "lenet", "--epochs", 2, "--json", file, **how)
                self.assertEqual(code, 0, err)
                return [loss for epoch in json.loads(file.read_text())["epochs"] for loss in epoch["step_loss"]]
        alone = losses("--batch-size", 36, command=[TRAIN])
        # Three times twelve.
        together = losses("-n", 3, "-s", 2, *LOCAL, TRAIN, "--kv-store", "dist_sync", "--batch-size", 12)
        self.assertEqual(len(together), len(alone))
        self.assertLess(max(abs(a - b) for a, b in zip(together, alone)), 1e-4)


class FurtherTraining(JobCase):
    def test_every_synchronous_name_and_any_number_of_servers_give_the_same_weights(self):
        found = set()
        for kind, servers, bound in (("dist", 1, "1000000"), ("dist_sync_device", 3, "100"), ("Dist_Sync", 2, "100")):
            code, out, err = self.launch("-n", 2, "-s", servers, *LOCAL, TRAIN, "--network", "mlp", "--kv-store", kind,
                                         "--epochs", 1, MXNET_KVSTORE_BIGARRAY_BOUND=bound)
            self.assertEqual(code, 0, err)
            self.assertEqual(len(weights(out)), 2, out)
            found.update(weights(out))
        self.assertEqual(len(found), 1)

    def test_servers_update_by_each_workers_gradients_of_several_devices(self):
        # Gradients of older weights bear a smaller rate than joint ones.
        code, out, err = self.launch("-n", 2, "-s", 2, *LOCAL, TRAIN, "--network", "lenet", "--kv-store", "dist_async",
                                     "--devices", 2, "--lr", "0.03", "--epochs", 12)
        self.assertEqual(code, 0, err)
        accuracies = [float(text) for text in re.findall(r"Test_acc ([\d.]+)", out)]
        self.assertGreaterEqual(max(accuracies), 0.93, out)
        self.assertEqual((len(weights(out)), len(set(weights(out)))), (2, 1), out)

    def test_one_worker_learns_the_same_asynchronously(self):
        found = set()
        for kind in ("dist_sync", "dist_async"):
            code, out, err = self.launch("-n", 1, "-s", 2, *LOCAL, TRAIN, "--network", "mlp", "--kv-store", kind,
                                         "--epochs", 2, "--lr", "0.05")
            self.assertEqual(code, 0, err)
            found.add(tuple(re.findall(r"Test_acc ([\d.]+)", out)))
        self.assertEqual(len(found), 1, found)


class AtLength(JobCase):
    def learns(self, network, epochs, kind, least, *words, workers=2):
        process = self.start("-n", workers, "-s", 2, *LOCAL, TRAIN, "--network", network, "--dataset", "digits",
                             "--kv-store", kind, "--epochs", epochs, *words, TUTTI_TIMEOUT_SECONDS="60")
        out, err = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 0, err)
        self.assertGreaterEqual(max(map(float, re.findall(r"Test_acc ([\d.]+)", out))), least, out)
        self.assertEqual((len(weights(out)), len(set(weights(out)))), (workers, 1), out)

    def test_networks_learn_the_digits_with_equal_weights_on_all_workers(self):
        for network, epochs in (("lenet", 10), ("resnet18", 5)):
            for kind, least, words in (("dist_sync", 0.95, ()), ("dist", 0.95, ()),
                                       ("dist_device_sync", 0.95, ("--devices", 2)),
                                       ("dist_async", 0.93, ())):
                with self.subTest(network, kind=kind):
                    self.learns(network, epochs, kind, least, *words)

    def test_four_workers_learn_the_digits_asynchronously_with_the_examples_own_settings(self):
        self.learns("lenet", 20, "dist_async", 0.93, workers=4)


class Values(JobCase):
    def test_a_c_program_does_all_that_servers_offer(self):
        for workers, servers in ((1, 3), (2, 2), (3, 1), (4, 2)):
            with self.subTest(workers=workers, servers=servers), tempfile.TemporaryDirectory() as folder:
                code, out, err = self.launch("-n", workers, "-s", servers, *LOCAL, C_WORKER, f"{folder}/states",
                                             MXNET_KVSTORE_BIGARRAY_BOUND="4")
                self.assertEqual(code, 0, err)
                self.assertEqual(out.count(": 0 checks failed"), 2 * workers, out)  # of two stores
        self.assert_nothing_left()

    def test_workers_that_may_run_ahead_differently_far_are_told(self):
        code, _, err = self.launch("-n", 2, "-s", 1, *LOCAL, "--grace", 1, "sh", "-c",
                                   f"TUTTI_STALENESS=$DMLC_RANK exec {TRAIN} --network mlp --kv-store dist_async")
        self.assertNotEqual(code, 0)
        self.assertRegex(err, r"mismatch: .*TUTTI_STALENESS=(1.*TUTTI_STALENESS=0|0.*TUTTI_STALENESS=1)")

    def test_a_bound_that_is_none_is_refused_by_name(self):
        code, _, err = self.launch("-n", 1, "-s", 1, *LOCAL, "--grace", 1, TRAIN, "--kv-store", "dist_sync",
                                   TUTTI_STALENESS="-1")
        self.assertNotEqual(code, 0)
        self.assertIn("TUTTI_STALENESS='-1' is not usable; it takes off, or a whole number", err)


class Deaths(JobCase):
    def test_a_worker_that_is_killed_is_named_by_the_others_and_by_the_launcher(self):
        process = self.begun()
        self.kill("worker", 1)
        code, _, err = self.end_of(process)
        self.assertEqual(code, 137, err)
        self.assertRegex(err, r"\[worker 0\] train: peer_lost: worker 1 is lost: its connection to the scheduler ended")
        self.assertIn("worker 1 on", err[err.rindex("was the first to fail") - 60:])
        self.assert_nothing_left()

    def test_a_worker_that_unwinds_is_the_first_to_fail_though_it_waits_for_the_others_to_close(self):
        command = (f"DATA={DIGITS}; [ $DMLC_RANK = 1 ] && DATA=/nowhere; "
                   f"{TRAIN} --network mlp --data-dir $DATA --kv-store dist_sync || exit $((40 + DMLC_RANK))")
        for _ in range(5):
            code, _, err = self.launch("-n", 2, "-s", 1, *LOCAL, "sh", "-c", command)
            self.assertRegex(err, r"worker 1 on .* was the first to fail: it ended with exit code 41")
            self.assertEqual(code, 41, err)
        self.assert_nothing_left()

    def test_a_server_that_is_killed_ends_every_worker(self):
        process = self.begun()
        self.kill("server", 1)
        code, _, err = self.end_of(process)
        self.assertEqual(code, 137, err)
        self.assertIn("server 1 on", err[err.rindex("was the first to fail") - 60:])
        for rank in range(2):
            self.assertRegex(err, rf"\[worker {rank}\] train: peer_lost: server 1 is lost")
        self.assert_nothing_left()

    def test_a_scheduler_that_is_killed_ends_everything(self):
        process = self.begun()
        self.kill("scheduler", 0)
        code, _, err = self.end_of(process)
        self.assertEqual(code, 137, err)
        self.assertIn("scheduler on", err[err.rindex("was the first to fail") - 60:])
        for rank in range(2):
            self.assertRegex(err, rf"\[worker {rank}\] train: peer_lost: the scheduler at 127.0.0.1:\d+ is lost")
            self.assertRegex(err, rf"\[server {rank}\] tutti-server: peer_lost: the scheduler")
        self.assert_nothing_left()

    def test_a_worker_that_is_stopped_is_lost_after_the_heartbeat_timeout(self):
        for given in ({"TUTTI_HEARTBEAT_SECONDS": "1"}, {"PS_HEARTBEAT_INTERVAL": "1", "PS_HEARTBEAT_TIMEOUT": "2"}):
            with self.subTest(**given):
                process = self.start("-n", 2, "-s", 1, *LOCAL, "--grace", 1, TRAIN, "--network", "mlp", "--kv-store",
                                     "dist_sync", "--epochs", 100000, **given)
                self.wait_for_lines(process, 1, "Epoch 0: Train_loss")
                os.kill(self.process_of("worker", 1), signal.SIGSTOP)
                code, _, err = self.end_of(process)
                self.assertNotEqual(code, 0, err)
                self.assertRegex(err, r"\[worker 0\] train: peer_lost: worker 1 is lost: \d+ heartbeats are missing")
                self.assert_nothing_left()

    def test_ctrl_c_leaves_nothing(self):
        process = self.begun()
        process.send_signal(signal.SIGINT)
        code, _, err = self.end_of(process)
        self.assertEqual(code, 130, err)
        self.assert_nothing_left()

    def test_a_killed_launcher_leaves_nothing(self):
        process = self.begun()
        process.kill()
        process.communicate(timeout=20)
        self.assert_nothing_left()


class Beginnings(JobCase):
    """Jobs that go wrong before all have come. In test_early_ends.py workers end then."""

    def ends_soon(self, *words, after=0.0, **env):
        """(exit code, standard error) of a job that is over in seconds."""
        begun = time.monotonic()
        code, _, err = self.launch("-n", 2, "-s", 2, *LOCAL, *words, **env)
        self.assertLess(time.monotonic() - begun, after + (20 if "ASAN_OPTIONS" in os.environ else 6), err)
        self.assert_nothing_left()
        return code, err

    def test_a_job_whose_program_cannot_begin_is_soon_over_and_the_launcher_says_why(self):
        for command, code, said in ((("no-such-program",), 127, "cannot start no-such-program"),
                                    ((sys.executable, "-c", "import no_such_module"), 1, "No module named")):
            with self.subTest(command):
                given, err = self.ends_soon(*command)
                self.assertEqual(given, code, err)
                self.assertRegex(err, rf"(?s)worker \d on \S+ was the first to fail: it ended with exit code {code}\..*"
                                      rf"{said}.*PATH there is ")

    def test_a_worker_that_is_stopped_before_its_create_is_named_by_the_others_and_the_launcher(self):
        command = f"[ $DMLC_RANK = 0 ] || kill -STOP $$; exec {TRAIN} --kv-store dist_sync"
        code, err = self.ends_soon("sh", "-c", command, after=3.0, TUTTI_CREATE_SECONDS="3")
        self.assertNotEqual(code, 0, err)
        self.assertRegex(err, r"\[worker 0\] train: timeout: the scheduler gave up waiting for worker 1: 1 of 2 work")
        self.assertRegex(err, r"launch.py: worker 1 on \S+ was the first to fail: it did not end by itself")

    def test_a_server_that_cannot_begin_is_named_by_the_workers(self):
        code, err = self.ends_soon("--server-state", "/proc/nowhere", TRAIN, "--kv-store", "dist_sync")
        self.assertNotEqual(code, 0, err)
        for rank in range(2):
            said = rf"\[worker {rank}\] train: peer_lost: .*server \d is lost: server \d on \S+ ended with exit code"
            self.assertRegex(err, said)

    def test_a_scheduler_that_is_killed_before_all_have_come_is_named_by_the_workers(self):
        process = self.start("-n", 2, "-s", 1, *LOCAL, "sh", "-c",
                             f"[ $DMLC_RANK = 0 ] || {{ echo waits; sleep 600; }}; exec {TRAIN} --kv-store dist_sync")
        self.wait_for_lines(process, 1, "waits")
        self.kill("scheduler", 0)
        said = r"\[worker 0\] train: peer_lost: the scheduler is lost: scheduler on \S+ was ended by signal 9"
        # Waits until the grace ends, even if worker 0 begins late.
        heard = []
        for line in process.stderr:
            heard.append(line)
            if re.search(said, line):
                break
        process.send_signal(signal.SIGTERM)
        self.end_of(process)
        self.assertRegex("".join(heard), said)


class Misuse(JobCase):
    def test_workers_without_a_store_end_well_and_take_the_servers_with_them(self):
        code, out, err = self.launch("-n", 2, "-s", 2, *LOCAL, "echo hello")
        self.assertEqual(code, 0, err)
        self.assertEqual(out.count("hello"), 2)
        self.assert_nothing_left()

    def test_without_a_launcher_the_error_says_what_is_missing(self):
        env = {name: value for name, value in self.environment().items() if not name.startswith("DMLC_")}
        done = subprocess.run([TRAIN, "--kv-store", "dist_sync"], env=env, text=True, capture_output=True, timeout=30,
                              check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"DMLC_PS_ROOT_URI is not set: .* scripts/launch.py --mode ps")

    def test_who_waits_for_a_scheduler_that_does_not_come_says_so_meanwhile_and_in_the_end(self):
        code, _, err = self.launch(command=[TRAIN, "--kv-store", "dist_sync"], DMLC_ROLE="worker",
                                   DMLC_PS_ROOT_URI="127.0.0.1", DMLC_PS_ROOT_PORT="19418", DMLC_NUM_WORKER="1",
                                   DMLC_NUM_SERVER="1", TUTTI_CREATE_SECONDS="3", TUTTI_STALL_SECONDS="1")
        self.assertNotEqual(code, 0)
        self.assertRegex(err, r"warning: this worker has waited 1 s for the scheduler at 127.0.0.1:19418: .*refused")
        self.assertRegex(err, r"timeout: .*127.0.0.1:19418.*Is it running")

    def test_a_worker_that_is_told_another_role_says_what_to_start_instead(self):
        code, _, err = self.launch("-n", 1, "-s", 1, *LOCAL, "--grace", 1, "env", "DMLC_ROLE=server", TRAIN,
                                   "--kv-store", "dist_sync")
        self.assertNotEqual(code, 0)
        self.assertRegex(err, r"DMLC_ROLE=server asks for a server, .* start `tutti-server`")

    def test_a_port_in_use_is_an_error_that_names_it(self):
        first = self.start(command=[SERVER], DMLC_ROLE="scheduler", DMLC_PS_ROOT_URI="127.0.0.1",
                           DMLC_PS_ROOT_PORT="19417", DMLC_NUM_WORKER="1", DMLC_NUM_SERVER="1")
        second = self.start(command=[SERVER], DMLC_ROLE="scheduler", DMLC_PS_ROOT_URI="127.0.0.1",
                            DMLC_PS_ROOT_PORT="19417", DMLC_NUM_WORKER="1", DMLC_NUM_SERVER="1")
        # Whichever came first has it.
        self.wait_until(lambda: first.poll() != second.poll(), "one of them has given up")
        loser = first if first.poll() is not None else second
        winner = second if loser is first else first
        winner.kill()
        winner.communicate()
        self.assertRegex(loser.communicate()[1], r"DMLC_PS_ROOT_PORT=19417: .*Address already in use")
        self.assertEqual(loser.returncode, 2)

    def test_a_job_of_the_launchers_has_a_key_of_its_own_whatever_file_is_named(self):
        code, out, err = self.launch("-n", 1, "-s", 1, *LOCAL, TRAIN, "--network", "mlp", "--kv-store", "dist_sync",
                                     "--epochs", 1, TUTTI_JOB_KEY_FILE="/nowhere/key", TUTTI_ENCRYPT="1")
        self.assertEqual(code, 0, err)
        self.assertEqual(len(weights(out)), 1, out)

    def test_a_key_file_that_others_may_read_is_refused_by_a_server(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("a" * 64)
            file.flush()
            os.chmod(file.name, 0o640)
            code, _, err = self.launch(command=[SERVER], DMLC_ROLE="server", DMLC_PS_ROOT_URI="127.0.0.1",
                                       DMLC_PS_ROOT_PORT="19419", DMLC_NUM_WORKER="1", DMLC_NUM_SERVER="1",
                                       TUTTI_JOB_KEY_FILE=file.name)
        self.assertNotEqual(code, 0)
        self.assertRegex(err, r"TUTTI_JOB_KEY_FILE\) is not usable: its mode is 0640.*chmod 600")

    def test_nobody_can_listen_at_the_schedulers_port_before_the_scheduler_does(self):
        with tempfile.TemporaryDirectory() as folder:
            server = pathlib.Path(folder, "tutti-server")
            server.write_text(HELD_UP.format(python=sys.executable, intrude=INTRUDE, server=SERVER))
            server.chmod(0o755)
            # Beside the worker's program lies the real one.
            code, out, err = self.launch("-n", 1, "-s", 1, *LOCAL, "--grace", 1, "env", TRAIN, "--network", "mlp",
                                         "--kv-store", "dist_sync", "--epochs", 1,
                                         PATH=f"{folder}:{os.environ['PATH']}")
        self.assertEqual(code, 0, out + err)
        self.assertIn("Address already in use", err)

    def test_the_jobs_secret_is_in_no_command_line(self):
        process = self.begun()
        key = variables_of(self.process_of("server", 0))["TUTTI_JOB_KEY"]
        self.assertRegex(key, "^[0-9a-f]{64}$")
        for pid in self.marked():
            self.assertNotIn(key, pathlib.Path("/proc", str(pid), "cmdline").read_text(errors="replace"))
        process.send_signal(signal.SIGTERM)
        self.end_of(process)


def load_tests(loader, _tests, _pattern):
    cases = (AtLength, FurtherTraining) if SLOW else (Training, Values, Deaths, Beginnings, Misuse)
    return unittest.TestSuite(map(loader.loadTestsFromTestCase, cases))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]])
