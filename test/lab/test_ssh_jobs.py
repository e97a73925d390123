"""Parameter-server jobs over ssh, on hosts with a real sshd.

    test_ssh_jobs.py TUTTI_SERVER TRAIN [slow]
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import unittest

from cifar10 import write_cifar10
from ssh_lab import SECOND, SshCase, why_not
from launching import COUNTS
import hosts

SLOW = sys.argv[-1] == "slow"
if SLOW:
    sys.argv.pop()
SERVER, TRAIN = (str(pathlib.Path(word).resolve()) for word in sys.argv[1:3])  # for programs in other folders


def of_process(pid, what):
    """The text of /proc about the process. Nothing if it has ended, like those that the launcher runs for a moment."""
    try:
        return pathlib.Path("/proc", str(pid), what).read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


class Jobs(SshCase):
    PATH = f"{pathlib.Path(SERVER).absolute().parent}:{SshCase.PATH}"

    def train(self, *words, network="mlp", **env):
        return self.over_hosts(*words, TRAIN, "--network", network, "--kv-store", "dist_sync", "--epochs", 1, **env)

    def weights(self, out):
        return re.findall(r"rank \d weights sha256 (\w+)", out)

    def role(self, pid):
        variables = dict(text.partition("=")[::2] for text in of_process(pid, "environ").split("\0"))
        return f"{variables.get('DMLC_ROLE')} {variables.get('DMLC_RANK')}"

    def begun(self):
        process = self.start("-H", "hosts", "-n", 2, "--grace", 10, TRAIN, "--network", "mlp", "--kv-store",
                             "dist_sync", "--epochs", 100000)
        self.wait_for_lines(process, 1, "Epoch 0: Train_loss")
        return process


class Quick(Jobs):
    def test_workers_of_a_shared_folder_train_with_as_many_servers(self):
        code, out, err = self.train("-n", 2, "--launcher", "ssh")
        self.assertEqual(code, 0, err)
        self.assertEqual(len(self.weights(out)), 2, out)
        self.assertEqual(len(set(self.weights(out))), 1, out)
        self.assert_hosts_are_idle()

    def test_files_are_copied_and_the_command_starts_among_them_which_win_over_others(self):
        target = self.folder / "job"
        (self.folder / "job.sh").write_text('echo "$(hostname) $(pwd) $DMLC_ROLE $DMLC_RANK $PS_X $TUTTI_MODE"\n'
                                            "cd / && python3 -c 'import beside; print(beside.__file__)'\n")
        other = self.folder / "other"
        other.mkdir()
        for place in (other, self.folder):
            (place / "beside.py").touch()
        code, out, err = self.over_hosts("-n", 2, "--sync-dst-dir", target, "sh job.sh", PS_X="a b",
                                         PYTHONPATH=str(other))
        self.assertEqual(code, 0, err)
        self.assertEqual(out.count(f"] {target}/beside.py\n"), 2, out)
        for rank, host in enumerate(self.names):
            self.assertIn(f"[worker {rank}] {host} {target} worker {rank} a b ps\n", out)
            self.assertRegex(out, rf"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d rsync {self.folder}/ -> {host}:{target}\n")

    def test_all_traffic_goes_through_the_interface_that_is_asked_for(self):
        # Left to itself MPI takes any of both.
        for mode, wanted, other in (("ps", SECOND, "eth0"), ("mpi", SECOND, "eth0"), ("mpi", "eth0", SECOND)):
            with self.subTest(mode, wanted=wanted):
                there, elsewhere = self.traffic(wanted), self.traffic(other)
                code, out, err = self.train("-n", 2, "--mode", mode, DMLC_INTERFACE=wanted)
                self.assertEqual(code, 0, err)
                for old, new in zip(there, self.traffic(wanted)):
                    self.assertGreater(new - old, 1_000_000, out)
                # ssh goes where the hosts' names lead.
                for old, new in zip(elsewhere, self.traffic(other)):
                    self.assertLess(new - old, 200_000, out)

    def test_a_server_that_is_killed_on_its_host_is_named(self):
        process = self.begun()
        for pid in self.marked():
            if of_process(pid, "comm") == "tutti-server\n" and self.role(pid) == "server 1":
                os.kill(pid, signal.SIGKILL)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 137, err)
        self.assertIn(f"server 1 on {self.names[1]} was the first to fail", err)
        self.assert_hosts_are_idle()

    def test_ctrl_c_ends_every_process_on_every_host(self):
        process = self.begun()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130, err)
        self.assert_hosts_are_idle()

    def test_a_signal_that_announces_something_reaches_each_worker_once(self):
        self.assert_announced_once(2, self.start("-H", "hosts", "-n", 2, sys.executable, "-c", COUNTS))

    def test_the_jobs_key_is_in_no_command_line_on_any_host(self):
        process = self.begun()
        keys = {line.partition("=")[2] for pid in self.marked() for line in of_process(pid, "environ").split("\0")
                if line.startswith("TUTTI_JOB_KEY=")}
        self.assertEqual(len(keys), 1)
        lines = list(filter(None, (of_process(pid, "cmdline") for pid in self.lab.processes())))
        self.assertGreater(len(lines), 10)
        self.assertNotIn(keys.pop(), "\n".join(lines))
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=60)


class Ipv6(Jobs):
    """Hosts whose only addresses beside loopback's are IPv6."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        addresses = [f"fd00::{number}" for number in range(1, cls.COUNT + 1)]
        table = "".join(f"{address} {name}\n" for address, name in zip(addresses, cls.names))
        for address, name in zip(addresses, cls.names):
            for interface in ("eth0", SECOND):
                hosts.run(f"ip -n {name} -4 addr flush dev {interface}")
            hosts.run(f"ip -n {name} addr add {address}/64 dev eth0 nodad")
            pathlib.Path("/etc/netns", name, "hosts").write_text(f"127.0.0.1 localhost\n{table}")

    def test_they_train_with_servers_and_mpirun_is_refused(self):
        code, out, err = self.train("-n", 2)
        self.assertEqual(code, 0, err)
        self.assertEqual(len(set(self.weights(out))), 1, out)
        code, _, err = self.train("-n", 2, "--mode", "mpi")
        self.assertEqual(code, 2, err)
        self.assertIn(f"mpirun needs an IPv4 address of this machine by which {self.names[1]} may reach it", err)

    def test_they_may_be_named_by_address(self):
        self.write_hosts(["fd00::1", "root@[fd00::2]:1"])
        code, out, err = self.over_hosts("-n", 2, "--sync-dst-dir", self.folder / "job", "echo I am $(hostname)")
        self.assertEqual(code, 0, err)
        for rank, name in enumerate(self.names):
            self.assertIn(f"[worker {rank}] I am {name}\n", out)
        self.assert_hosts_are_idle()


class OneName(Jobs):
    """Hosts that all call themselves by one name, as copies of one image do."""

    NAMED = "node"

    def test_workers_count_the_hosts_and_not_their_names(self):
        for mode in ("ps", "mpi"):
            with self.subTest(mode):
                code, out, err = self.over_hosts("-n", 4, "--mode", mode, TRAIN, "--network", "mlp", "--kv-store",
                                                 "dist_sync", "--epochs", 1, "--json", self.folder / "numbers.json")
                self.assertEqual(code, 0, err)
                self.assertEqual(len(set(self.weights(out))), 1, out)
                run = json.loads((self.folder / "numbers.json").read_text())
                self.assertEqual((run["workers"], run["nodes"]), (4, 2), out)
        self.assert_hosts_are_idle()


class Refused(Jobs):
    def test_an_unknown_interface_lists_those_there_are(self):
        for mode in ("ps", "mpi"):
            code, _, err = self.train("-n", 1, "--mode", mode, DMLC_INTERFACE="eth9")
            self.assertEqual(code, 2, err)
            self.assertRegex(err, f"DMLC_INTERFACE=eth9: .*there are .*eth0, {SECOND}")

    def test_an_interface_that_one_host_lacks_is_named_there(self):
        hosts.run(f"ip -n {self.names[1]} link set {SECOND} down")
        self.addCleanup(hosts.run, f"ip -n {self.names[1]} link set {SECOND} up")
        code, _, err = self.train("-n", 2, DMLC_INTERFACE=SECOND)
        self.assertNotEqual(code, 0)
        self.assertRegex(err, rf"{self.names[1]} cannot reach the launcher at 10.98.0.1:\d+: .*DMLC_INTERFACE")
        self.assertRegex(err, rf"on {self.names[1]} could not be started")
        self.assert_hosts_are_idle()

    def test_a_host_that_cannot_be_reached_ends_the_job_with_what_ssh_said(self):
        self.write_hosts([self.names[0], "nowhere"])
        code, _, err = self.train("-n", 2)
        self.assertEqual(code, 255, err)
        self.assertIn("Could not resolve hostname nowhere", err)
        self.assertRegex(err, "on nowhere could not be started: ssh ended with 255")
        self.assert_hosts_are_idle()
        code, _, err = self.train("-n", 2, "--sync-dst-dir", self.folder / "job")
        self.assertEqual(code, 2, err)
        self.assertRegex(err, "ssh to nowhere failed with 255; `ssh nowhere` must log in without a password or a "
                              "question\n.*nowhere")

    def test_an_empty_host_file_is_refused(self):
        self.write_hosts([])
        code, _, err = self.train("-n", 1)
        self.assertEqual(code, 2, err)
        self.assertIn("hosts: the file names no host", err)

    def test_a_port_in_use_is_named_with_what_to_do(self):
        taken = subprocess.Popen(hosts.enter(self.names[0], f"{sys.executable} -c \"import socket, time\n"
                                             "s = socket.create_server(('', 29411)); print(flush=True)\n"
                                             "time.sleep(600)\""), stdout=subprocess.PIPE)
        self.addCleanup(taken.communicate)
        self.addCleanup(taken.kill)
        taken.stdout.readline()
        code, _, err = self.train("-n", 1, DMLC_PS_ROOT_PORT="29411")
        self.assertEqual(code, 2, err)
        self.assertRegex(err, "DMLC_PS_ROOT_PORT=29411: .*Address already in use; .* the port free")
        self.assertIn("scheduler on", err[err.index("was the first to fail") - 40:])


class AtLength(Jobs):
    def test_without_a_wish_the_route_to_the_scheduler_is_taken(self):
        before = self.traffic("eth0")
        code, out, err = self.train("-n", 2)
        self.assertEqual(code, 0, err)
        for old, new in zip(before, self.traffic("eth0")):
            self.assertGreater(new - old, 1_000_000, out)

    def test_the_process_that_failed_first_is_named_last_with_its_host(self):
        code, out, err = self.over_hosts("-n", 2, '[ "$DMLC_RANK" = 1 ] && kill -SEGV $$; sleep 1; echo saved')
        self.assertEqual(code, 139, err)
        self.assertIn(f"worker 1 on {self.names[1]} was the first to fail", err)
        self.assertIn("[worker 0] saved", out)
        self.assert_hosts_are_idle()

    def test_a_launcher_that_is_killed_leaves_nothing_on_any_host(self):
        process = self.begun()
        process.kill()
        process.communicate(timeout=60)
        self.assert_hosts_are_idle()

    def cut_off(self):
        hosts.run(f"ip -n {self.names[1]} link set eth0 down")
        self.addCleanup(hosts.run, f"ip -n {self.names[1]} link set eth0 up")

    def assert_no_process_of_the_job_is_left(self):
        """Processes of ssh that lost each other do not count: they wait for TCP, and hold nothing."""
        def left():
            pids = set(self.lab.processes()) - self.idle
            return [pid for pid in pids if not of_process(pid, "comm").startswith("ssh") and of_process(pid, "cmdline")]
        self.wait_until(lambda: not left(), "no process of the job is left", 60)

    def test_a_host_that_is_cut_off_ends_the_job_and_is_named(self):
        process = self.start("-H", "hosts", "-n", 2, "--grace", 3, TRAIN, "--network", "mlp", "--kv-store",
                             "dist_sync", "--epochs", 100000, TUTTI_HEARTBEAT_SECONDS="5")
        self.wait_for_lines(process, 1, "Epoch 0: Train_loss")
        self.cut_off()
        _, err = process.communicate(timeout=90)
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(err, rf"(worker 1|server 1) on {self.names[1]}")
        self.assert_no_process_of_the_job_is_left()

    def test_a_host_that_is_cut_off_keeps_no_command_that_would_go_on_and_speaks(self):
        process = self.start("-H", "hosts", "-n", 2, "--grace", 3,
                             "trap '' TERM; while :; do echo I go on; sleep 0.1; done")
        self.wait_for_lines(process, 5, "[worker 1] I go on")
        self.cut_off()
        _, err = process.communicate(timeout=90)
        self.assertNotEqual(process.returncode, 0)
        self.assertRegex(err, rf"(worker 1|server 1) on {self.names[1]} vanished")
        self.assert_no_process_of_the_job_is_left()

    def test_many_processes_of_one_host_are_not_too_many_for_its_sshd(self):
        self.write_hosts([self.names[1]])
        code, out, err = self.over_hosts("-n", 30, "-s", 10, "echo hello")
        self.assertEqual(code, 0, err)
        self.assertEqual(out.count("hello"), 30)


class EightHosts(SshCase):
    COUNT = 8  # and no tutti-server in PATH

    def test_mode_mpi_trains_on_copied_files_and_needs_no_servers(self):
        write_cifar10(self.folder / "cifar", 16)
        target = self.folder / "mxnet_job"
        process = self.start("-n", 8, "-H", "hosts", "--launcher", "ssh", "--sync-dst-dir", f"{target}/", "--mode",
                             "mpi", TRAIN, "--dataset", "cifar10", "--data-dir", "cifar", "--model", "vgg11",
                             "--num-epochs", 1, "--kvstore", "dist_sync", "--batch-size", 2, "--json", "numbers.json",
                             OMP_NUM_THREADS="1")
        out, err = process.communicate(timeout=200)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn("store dist_sync_mpi: workers 8", out)
        self.assertEqual(len(set(re.findall(r"rank \d weights sha256 (\w+)", out))), 1, out)
        for host in self.names:
            self.assertRegex(out, f"rsync {self.folder}/ -> {host}:{target}/\n")
        run = json.loads((target / "numbers.json").read_text())
        self.assertEqual((run["workers"], run["nodes"], run["steps"]), (8, 8, 5))
        self.assert_hosts_are_idle()


def load_tests(loader, _tests, _pattern):
    cases = (AtLength, Refused, EightHosts) if SLOW else (Quick, Ipv6, OneName)
    return unittest.TestSuite(map(loader.loadTestsFromTestCase, cases))


if __name__ == "__main__":
    reason = why_not()
    if reason:
        print(f"skipped: {reason}")
        sys.exit(hosts.SKIPPED)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
