#!/usr/bin/env python3
"""The launcher's command line, host file and mpirun line, without starting anything."""
import contextlib
import io
import pathlib
import re
import sys
import tempfile
import unittest
from unittest import mock

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))

from launcher import hosts, mpirun, options, output

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

    def test_what_is_not_there_yet_says_so_and_what_is(self):
        self.assertRegex(self.refused("-n", "2", "-H", "hosts", "--mode", "ps", "true"),
                         "with --launcher local so far; .* --mode mpi, .* dist_sync_mpi")
        self.assertIn("use ssh or local", self.refused("-n", "2", "--launcher", "sge", "true"))

    def test_without_hosts_the_error_is_the_line_to_type(self):
        with mock.patch.object(sys, "argv", ["scripts/launch.py"]):
            said = self.refused("-n", "2", "--env", "A=b c", "python", "a.py", "--lr", "0.1")
        self.assertTrue(
            said.endswith("type: scripts/launch.py -n 2 --env 'A=b c' --launcher local python a.py --lr 0.1"), said)
        self.assertTrue(said.startswith("--launcher ssh, the default, needs the hosts: -H FILE"), said)
        for more in (["--launcher", "ssh"], ["--sync-dst-dir", "/tmp/job"]):
            self.assertNotIn("type:", self.refused("-n", "2", *more, "true"))

    def test_what_is_missing_is_named(self):
        self.assertIn("-n N", self.refused("--launcher", "local", "true"))
        self.assertIn("command", self.refused("-n", "2"))
        self.assertIn("command", self.refused(*LOCAL))
        self.assertIn("command", self.refused(*LOCAL, " "))
        self.assertIn("--launcher ssh", self.refused(*LOCAL, "--sync-dst-dir", "/tmp/x", "true"))

    def test_values_that_cannot_be_are_refused(self):
        for grace in ("-1", "nan", "inf"):
            self.assertIn(f"--grace {grace}", self.refused(*LOCAL, "--grace", grace, "true"))
        self.assertIn("names no variable", self.refused(*LOCAL, "--env", "=3", "true"))
        for given in ("TUTTI_LAUNCH_CONTACT=x", "TUTTI_LAUNCH_CONTACT", "TUTTI_MODE=ps"):
            self.assertIn("the launcher sets this variable itself", self.refused(*LOCAL, "--env", given, "true"))

    def test_help_gives_every_option_a_default_and_an_example(self):
        text = io.StringIO()
        with contextlib.redirect_stdout(text), self.assertRaises(SystemExit):
            options.parse(["--help"])
        helps = re.split(r"\n  (?=-)", re.split("options:|optional arguments:", text.getvalue())[1])[1:]
        self.assertGreater(len(helps), 8)
        for entry in helps:
            if not entry.startswith("-h,"):
                self.assertRegex(" ".join(entry.split()), r"(default:|must be given).*example: -")


class Hosts(unittest.TestCase):
    def read(self, text):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(text)
            file.flush()
            return hosts.read_hostfile(file.name)

    def test_a_host_file_has_names_slots_comments_and_empty_lines(self):
        self.assertEqual(self.read("# ours\na\n\n10.0.0.2 slots=4  # big\n"), [("a", None), ("10.0.0.2", 4)])

    def test_a_bad_host_file_is_refused_with_its_line(self):
        for text, told in (("a\nb slot=2\n", ":2: 'b slot=2'"), ("a slots=0\n", ":1:"),
                           ("-oPermitLocalCommand\n", ":1:"), ("a\x1b[31m\n", ":1:"), ("\n", "names no host")):
            with self.assertRaisesRegex(options.UsageError, told):
                self.read(text)
        with self.assertRaisesRegex(options.UsageError, "no-such-file: No such file"):
            hosts.read_hostfile("no-such-file")

    def test_without_slots_hosts_get_even_shares(self):
        self.assertEqual(hosts.deal(5, [("a", None), ("b", None)]), [("a", 3), ("b", 2)])
        self.assertEqual(hosts.deal(1, [("a", None), ("b", None)]), [("a", 1)])
        self.assertEqual(hosts.deal(3, [("a", None), ("a", None)]), [("a", 3)])

    def test_with_slots_hosts_are_filled_in_turn_and_never_beyond(self):
        self.assertEqual(hosts.deal(5, [("a", 4), ("b", 4)]), [("a", 4), ("b", 1)])
        self.assertEqual(hosts.deal(3, [("a", 2), ("b", None)]), [("a", 2), ("b", 1)])
        with self.assertRaisesRegex(options.UsageError, "9 workers do not fit: the host file has 8 slots"):
            hosts.deal(9, [("a", 4), ("b", 4)])

    def test_an_unknown_interface_lists_those_there_are(self):
        self.assertEqual(hosts.addresses("lo"), {"lo": "127.0.0.1"})
        with self.assertRaisesRegex(options.UsageError, "DMLC_INTERFACE=ethX: .* there are lo"):
            hosts.addresses("ethX")

    def test_other_hosts_are_told_no_address_that_is_their_own(self):
        for known, told in (({"lo": "127.0.0.1", "eth0": "10.0.0.5"}, ["10.0.0.5"]),
                            ({"lo": "127.0.0.1"}, ["127.0.0.1"])):
            with mock.patch.object(hosts, "addresses", return_value=known):
                self.assertEqual(hosts.reachable(), told)

    def test_what_copies_to_hosts_is_installed_without_the_tests_packages(self):
        setup = (pathlib.Path(hosts.__file__).parents[1] / "setup").read_text()
        packages = re.search(r"^build_packages=\((.*?)\)", setup, re.M | re.S)[1].split()
        self.assertLessEqual({"rsync", "openssh-client", "openmpi-bin"}, set(packages))

    def test_the_line_of_a_copy_and_what_failed_carry_no_escape_sequence(self):
        failed = mock.Mock(returncode=23, communicate=lambda: (b"no \x1b[2Jroom\n", None))
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
        return options.parse(["-n", "4", *words, "python", "train.py"])

    def test_over_ssh_the_line_names_hosts_interface_folder_and_variables(self):
        request = self.request("-H", "hosts", "--sync-dst-dir", "/tmp/job")
        line = mpirun.words("mpirun", request, [("a", 2), ("b", 2)], ["PATH", "PS_VERBOSE"], "eth0")
        text = " ".join(line)
        for part in ("--enable-recovery", "-n 4", "--host a:2,b:2", "--wdir /tmp/job", "-x PATH -x PS_VERBOSE",
                     "--mca oob_tcp_if_include eth0 --mca btl_tcp_if_include eth0"):
            self.assertIn(part, text)
        self.assertEqual(line[-1], '["python", "train.py"]')
        self.assertNotIn(str(mpirun.SHIM), line, "another host may not have this folder")

    def test_the_environment_that_travels_is_the_agreed_one(self):
        here = {"PATH": "/bin", "PS_VERBOSE": "1", "DMLC_INTERFACE": "lo", "OMP_NUM_THREADS": "2",
                "MXNET_X": "", "TUTTI_Y": "2", "HOME": "/", "PATHS": "no", "NAMED": "3"}
        with mock.patch.dict("os.environ", here, clear=True):
            env, names = mpirun.job_environment(self.request("-H", "f", "--env", "NAMED", "--env", "GIVEN=a=b"), "c@")
            self.assertEqual(names, ["DMLC_INTERFACE", "GIVEN", "MXNET_X", "NAMED", "OMP_NUM_THREADS", "PATH",
                                     "PS_VERBOSE", "TUTTI_AUTOLOAD", "TUTTI_LAUNCH_CONTACT", "TUTTI_MODE", "TUTTI_Y"])
            self.assertEqual((env["TUTTI_MODE"], env["GIVEN"]), ("mpi", "a=b"))
            with self.assertRaisesRegex(options.UsageError, "--env ABSENT: this variable is not set"):
                mpirun.job_environment(self.request("-H", "f", "--env", "ABSENT"), "c@")

    def test_copied_files_win_over_others_of_their_name(self):
        with mock.patch.dict("os.environ", {"PYTHONPATH": "/old"}, clear=True):
            env, _ = mpirun.job_environment(self.request("-H", "f", "--sync-dst-dir", "/tmp/job"), "c@")
        self.assertEqual((env["PYTHONPATH"], env["LD_LIBRARY_PATH"]), ("/tmp/job:/old", "/tmp/job"))

    def test_an_mpirun_that_is_not_open_mpi_is_refused(self):
        with mock.patch("shutil.which", return_value="/bin/echo"):
            with self.assertRaisesRegex(options.UsageError, "/bin/echo is not Open MPI's mpirun"):
                mpirun.find_mpirun()


if __name__ == "__main__":
    unittest.main()
