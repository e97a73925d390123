#!/usr/bin/env python3
"""The launcher's command line and mpirun line, without starting anything."""
import contextlib
import io
import json
import pathlib
import re
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from launcher import hosts, members, mpirun, options, output, processes, servers, shim, starter

LOCAL = ["-n", "2", "--launcher", "local"]


class Options(unittest.TestCase):
    def refused(self, *words):
        with self.assertRaises(options.UsageError) as caught:
            options.parse(list(words))
        return str(caught.exception)

    def test_the_command_starts_at_the_first_word_that_is_no_option(self):
        request = options.parse([*LOCAL, "python", "train.py", "-n", "7", "--launcher", "x"])
        self.assertEqual(request.command, ["python", "train.py", "-n", "7", "--launcher", "x"])
        self.assertEqual(request.workers, 2)

    def test_a_quoted_command_goes_through_a_shell_and_a_lone_word_does_not(self):
        self.assertEqual(options.parse([*LOCAL, "python a.py"]).command, ["/bin/sh", "-c", "python a.py"])
        self.assertEqual(options.parse([*LOCAL, "./train"]).command, ["./train"])
        self.assertEqual(options.parse([*LOCAL, 'echo "a']).command, ["/bin/sh", "-c", 'echo "a'])

    def test_values_may_be_joined_to_their_option(self):
        request = options.parse(["-n3", "--launcher=local", "--", "-odd"])
        self.assertEqual((request.workers, request.command), (3, ["-odd"]))

    def test_a_misspelt_option_or_choice_suggests_the_right_one(self):
        self.assertIn("did you mean --hostfile?", self.refused("-n", "2", "--hostfle", "x", "true"))
        self.assertIn("did you mean --num-workers?", self.refused("--num-worker", "2", "true"))
        self.assertIn("did you mean slurm?", self.refused("-n", "2", "--launcher", "slrum", "true"))

    def test_a_parameter_server_over_ssh_is_the_default_with_as_many_servers_as_workers(self):
        request = options.parse(["-n", "3", "-H", "hosts", "true"])
        self.assertEqual((request.mode, request.launcher, request.servers, request.processes()), ("ps", "ssh", 3, 7))
        self.assertEqual([request.title(number) for number in (2, 3, 5, 6)],
                         ["worker 2", "server 0", "server 2", "scheduler"])
        self.assertEqual(options.parse([*LOCAL, "-s", "1", "true"]).servers, 1)
        self.assertEqual(options.parse([*LOCAL, "--mode", "mpi", "true"]).processes(), 2)

    def test_what_servers_keep_is_told_to_them_alone(self):
        keep = ("--server-state", "/kept", "--durable", "seconds=5", "--restore", "/old")
        request = options.parse([*LOCAL, *keep, "true"])
        workers, served, scheduler = starter.groups(request, "tutti-server")
        self.assertEqual(served["command"],
                         ["tutti-server", "--state", "/kept", "--durable", "seconds=5", "--restore", "/old"])
        self.assertEqual(scheduler["command"], ["tutti-server"])
        self.assertGreater(served["restarts"], 0)
        self.assertNotIn("restarts", workers)
        for words in (("--durable", "off"), ()):
            request = options.parse([*LOCAL, "--server-state", "/kept", *words, "true"])
            self.assertEqual(starter.groups(request, "tutti-server")[1]["restarts"], 0)

    def test_a_server_is_started_again_so_many_times_within_an_hour(self):
        restarts = shim.Restarts(2)
        for minute, granted in ((0, True), (30, True), (59, False), (61, True), (62, False), (91, True)):
            with mock.patch.object(shim.time, "monotonic", return_value=1000.0 + 60 * minute):
                self.assertEqual(restarts.take(), granted, minute)
        self.assertFalse(shim.Restarts(0).take())

    def test_an_order_gives_a_command_no_variables_but_the_schedulers_place_and_mpis_transports(self):
        place = {"DMLC_PS_ROOT_URI": "h", "DMLC_PS_ROOT_PORT": "9", "OMPI_MCA_btl": "^vader"}
        order = {**place, "LD_PRELOAD": "/x.so", "TUTTI_JOB_KEY": "k"}
        taken = mock.Mock(child=None, status=None)
        taken.link.receive.return_value = [json.dumps(order).encode()]
        shim.Shim.on_order(taken)
        taken.start.assert_called_once_with(place)

    def test_what_another_users_processes_refuse_does_not_keep_the_others_alive(self):
        alive, reaped = {3, 5, 7}, []

        def kill(pid, _):
            if pid == 5:
                raise PermissionError
            alive.discard(pid)

        with mock.patch.object(processes, "descendants", lambda: sorted(alive)), \
                mock.patch.object(processes.os, "kill", kill), \
                mock.patch.object(processes.os, "waitpid", lambda *_: reaped.append(1)):
            processes.end_all()
        self.assertEqual((alive, len(reaped)), ({5}, 1))

    def test_what_servers_cannot_keep_is_refused(self):
        for words, text in ((("--durable", "each"), "need --server-state FOLDER"),
                            (("--restore", "/old"), "need --server-state FOLDER"),
                            (("--server-state", "/kept", "--durable", "seconds=0"), "seconds=N up to 86400, or off"),
                            (("--server-state", "/kept", "--durable", "seconds=86401"), "seconds=N up to 86400"),
                            (("--env", "TUTTI_JOB_KEY_FILE=/key"), "TUTTI_JOB_KEY_FILE"),
                            (("--server-state", "/kept", "--mode", "mpi"), "a job in --mode mpi has no servers"),
                            (("--sever-state", "/kept"), "did you mean --server-state?")):
            self.assertIn(text, self.refused(*LOCAL, *words, "true"))

    def test_without_hosts_the_error_is_the_line_to_type(self):
        with mock.patch.object(sys, "argv", ["scripts/launch.py"]):
            said = self.refused("-n", "2", "--env", "A=b c", "python", "a.py", "--lr", "0.1")
        self.assertTrue(
            said.endswith("type: scripts/launch.py -n 2 --env 'A=b c' --launcher local python a.py --lr 0.1"), said)
        self.assertTrue(said.startswith("--launcher ssh, the default, needs the hosts: give -H FILE"), said)
        for more in (["--launcher", "ssh"], ["--sync-dst-dir", "/tmp/job"]):
            self.assertNotIn("type:", self.refused("-n", "2", *more, "true"))

    def test_what_is_missing_is_named(self):
        self.assertIn("-n N", self.refused("--launcher", "local", "true"))
        self.assertIn("command", self.refused("-n", "2"))
        self.assertIn("command", self.refused(*LOCAL))
        self.assertIn("command", self.refused(*LOCAL, " "))
        self.assertIn("--launcher ssh", self.refused(*LOCAL, "--sync-dst-dir", "/tmp/x", "true"))
        self.assertIn("-H FILE", self.refused("-n", "2", "--launcher", "mpi", "--sync-dst-dir", "/tmp/x", "true"))
        for system in ("slurm", "sge", "yarn"):
            self.assertIn(f"with --launcher {system} the batch system chooses the hosts",
                          self.refused("-n", "2", "--launcher", system, "-H", "hosts", "true"))

    def test_values_that_cannot_be_are_refused(self):
        for grace in ("-1", "nan", "inf"):
            self.assertIn(f"--grace {grace}", self.refused(*LOCAL, "--grace", grace, "true"))
        for words in (("--no-env", "TUTTI_MODE"), ("--no-env", "A", "--env", "A=1")):
            self.assertIn("every process gets this variable", self.refused(*LOCAL, *words, "true"))
        self.assertIn("names no variable", self.refused(*LOCAL, "--env", "=3", "true"))
        for given in ("TUTTI_LAUNCH_CONTACT=x", "TUTTI_LAUNCH_CONTACT", "TUTTI_MODE=ps", "DMLC_ROLE=server",
                      "TUTTI_JOB_KEY", "DMLC_PS_ROOT_URI=h"):
            self.assertIn("the launcher sets this variable itself", self.refused(*LOCAL, "--env", given, "true"))

    def test_help_gives_every_option_a_default_and_an_example(self):
        text = io.StringIO()
        with contextlib.redirect_stdout(text), self.assertRaises(SystemExit):
            options.parse(["--help"])
        helps = re.split(r"\n  (?=-)", re.split("options:|optional arguments:", text.getvalue())[1])[1:]
        self.assertGreater(len(helps), 8)
        for entry in helps:
            if not entry.startswith(("-h,", "--version ")):
                self.assertRegex(" ".join(entry.split()), r"(default:|must be given).*example: -")


class Hosts(unittest.TestCase):
    def test_without_slots_hosts_get_even_shares(self):
        self.assertEqual(hosts.deal(5, [("a", None), ("b", None)]), [("a", 3), ("b", 2)])
        self.assertEqual(hosts.deal(1, [("a", None), ("b", None)]), [("a", 1)])
        self.assertEqual(hosts.deal(3, [("a", None), ("a", None)]), [("a", 3)])

    def test_with_slots_hosts_are_filled_in_turn_and_never_beyond(self):
        self.assertEqual(hosts.deal(5, [("a", 4), ("b", 4)]), [("a", 4), ("b", 1)])
        self.assertEqual(hosts.deal(3, [("a", 2), ("b", None)]), [("a", 2), ("b", 1)])
        with self.assertRaisesRegex(options.UsageError, "9 workers do not fit: the host file has 8 slots"):
            hosts.deal(9, [("a", 4), ("b", 4)])

    def test_what_copies_to_hosts_is_installed_without_the_tests_packages(self):
        setup = (pathlib.Path(hosts.__file__).parents[1] / "setup").read_text()
        packages = re.search(r"^build_packages=\((.*?)\)", setup, re.M | re.S)[1].split()
        self.assertLessEqual({"rsync", "openssh-client", "openmpi-bin"}, set(packages))

    def test_the_line_of_a_copy_and_what_failed_carry_no_escape_sequence(self):
        failed = mock.Mock(returncode=23, communicate=lambda timeout: (b"no \x1b[2Jroom\n", None))
        with mock.patch("subprocess.Popen", return_value=failed), mock.patch.object(hosts, "write") as write:
            lines = hosts.copy_to(["h\x1b[31m"], "/tmp/a\nlaunch.py: all well")
        line, = write.call_args.args[1]
        self.assertIn(r"h\x1b[31m:/tmp/a\nlaunch.py: all well", line)
        self.assertNotRegex(line, "[\x1b\n]")
        with contextlib.redirect_stderr(io.StringIO()) as said:
            output.say("rsync failed", lines)
        self.assertNotIn("\x1b", said.getvalue())
        self.assertEqual([line[:2] for line in said.getvalue().splitlines()[1:]], ["  ", "  "])


class Mpirun(unittest.TestCase):
    def request(self, *words):
        return options.parse(["-n", "4", "--mode", "mpi", *words, "python", "train.py"])

    def test_over_ssh_the_line_names_hosts_interface_folder_and_variables(self):
        request = self.request("-H", "hosts", "--sync-dst-dir", "/tmp/job")
        with mock.patch.dict("os.environ", {"DMLC_INTERFACE": "eth0"}):
            line = mpirun.words("mpirun", request, [("a", 2), ("b", 2)], ["PATH", "PS_VERBOSE"])
        text = " ".join(line)
        for part in ("--enable-recovery", "-n 4", "--host a:2,b:2", "--wdir /tmp/job", "-x PATH -x PS_VERBOSE",
                     "--mca oob_tcp_if_include eth0 --mca btl_tcp_if_include eth0"):
            self.assertIn(part, text)
        group = {"count": 4, "command": ["python", "train.py"], "grace": 30}
        self.assertEqual(json.loads(line[-1]), {"groups": [group],
                                                "index": ["OMPI_COMM_WORLD_RANK", 0],
                                                "folder": "/tmp/job", "folder_owner": 0})
        self.assertNotIn(str(ROOT), text, "another host may not have this folder")

    def test_in_mode_ps_mpirun_starts_every_role_and_goes_round_the_hosts(self):
        request = options.parse(["-n", "4", "-s", "2", "--launcher", "mpi", "python", "train.py"])
        line = mpirun.words("mpirun", request, [], ["PATH"], "/opt/tutti-server")
        self.assertIn("-n 7 --bind-to none --map-by node:OVERSUBSCRIBE -x PATH", " ".join(line))
        self.assertEqual([(group["count"], group["role"], group["command"][0])
                          for group in json.loads(line[-1])["groups"]],
                         [(4, "worker", "python"), (2, "server", "/opt/tutti-server"),
                          (1, "scheduler", "/opt/tutti-server")])

    def test_the_environment_that_travels_is_the_agreed_one(self):
        here = {"PATH": "/bin", "PS_VERBOSE": "1", "DMLC_INTERFACE": "lo", "OMP_NUM_THREADS": "2",
                "MXNET_X": "", "TUTTI_Y": "2", "HOME": "/", "PATHS": "no", "NAMED": "3"}
        with mock.patch.dict("os.environ", here, clear=True):
            env, names = starter.environment(self.request("-H", "f", "--env", "NAMED", "--env", "GIVEN=a=b"), "c@")
            self.assertEqual(names, ["DMLC_INTERFACE", "GIVEN", "MXNET_X", "NAMED", "OMP_NUM_THREADS", "PATH",
                                     "PS_VERBOSE", "TUTTI_AUTOLOAD", "TUTTI_LAUNCH_CONTACT", "TUTTI_MODE", "TUTTI_Y"])
            self.assertEqual((env["TUTTI_MODE"], env["GIVEN"]), ("mpi", "a=b"))
            with self.assertRaisesRegex(options.UsageError, "--env ABSENT: this variable is not set"):
                starter.environment(self.request("-H", "f", "--env", "ABSENT"), "c@")

    def test_copied_files_win_over_others_of_their_name(self):
        with mock.patch.dict("os.environ", {"PYTHONPATH": "/old"}, clear=True):
            env, _ = starter.environment(self.request("-H", "f", "--sync-dst-dir", "/tmp/job"), "c@")
        self.assertEqual((env["PYTHONPATH"], env["LD_LIBRARY_PATH"]), ("/tmp/job:/old", "/tmp/job"))

    def test_an_mpirun_that_is_not_open_mpi_is_refused(self):
        with mock.patch("shutil.which", return_value="/bin/echo"):
            with self.assertRaisesRegex(options.UsageError, "/bin/echo is not Open MPI's mpirun"):
                mpirun.find_mpirun(self.request("-H", "f"))


class Members(unittest.TestCase):
    """One ssh for each process."""

    def request(self, *words):
        return options.parse(["-n", "3", "-s", "2", "-H", "hosts", *words, "python", "train.py"])

    def plan(self, *words, key="0" * 64):
        request = self.request(*words)
        where = members.spread(request, [("a", 2), ("b", 1)], ["a", "b"])
        return members.plan(request, where, {"TUTTI_JOB_KEY": key, "HOME": "/root"}, ["TUTTI_JOB_KEY"], "/opt/server")

    def test_servers_go_round_the_hosts_and_the_scheduler_is_on_the_first(self):
        self.assertEqual(members.spread(self.request(), [("a", 2), ("b", 1)], ["a", "b"]), list("aababa"))
        self.assertEqual([one["title"] for one in self.plan()],
                         ["worker 0 on a", "worker 1 on a", "worker 2 on b", "server 0 on a", "server 1 on b",
                          "scheduler on a"])

    def test_what_a_process_needs_goes_through_standard_input_and_never_by_the_command_line(self):
        for one in self.plan(key="5e" * 32):
            self.assertNotIn("5e5e", " ".join(one["words"]))
            self.assertLess(len(" ".join(one["words"])), 300)
            told = json.loads(one["told"].splitlines()[1])
            self.assertEqual(told["env"], {"TUTTI_JOB_KEY": "5e" * 32})
            self.assertIn("BatchMode=yes", " ".join(one["words"]), "nobody answers a question")

    def test_the_command_starts_in_the_copied_folder(self):
        told = [json.loads(one["told"].splitlines()[1]) for one in self.plan("--sync-dst-dir", "/tmp/job")]
        self.assertEqual({each["folder"] for each in told}, {"/tmp/job"})

    def test_the_server_is_where_the_current_folder_is_copied_to_if_it_lies_there(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch("os.getcwd", return_value=folder):
            self.assertEqual(servers.copied(f"{folder}/build/tutti-server", "/tmp/job"), "/tmp/job/build/tutti-server")
            self.assertEqual(servers.copied("/usr/bin/tutti-server", "/tmp/job"), "/usr/bin/tutti-server")
            self.assertEqual(servers.copied(f"{folder}/tutti-server", None), f"{folder}/tutti-server")


if __name__ == "__main__":
    unittest.main()
