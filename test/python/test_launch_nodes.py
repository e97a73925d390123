#!/usr/bin/env python3
"""The hosts on which a job's processes run, and jobs that cannot run. The tests need no hosts."""
import contextlib
import io
import os
import pathlib
import sys
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from launcher import beginning, job, mpirun, nodes, options
from launcher.conclusion import conclude
from launcher.contact import IMPOSSIBLE
from launcher.starter_lines import StarterLines, impossible_in
from launcher.worker import Worker

LOCAL = ["--launcher", "local"]


def workers_on(*names):
    found = []
    for rank, name in enumerate(names):
        found.append(Worker(rank, name))
        found[-1].node = f"boot of {name}"
    return found


class Hosts(unittest.TestCase):
    def words(self, *placement, mode="mpi"):
        request = options.parse(["-n", "2", "--mode", mode, "--launcher", "mpi", "-H", "hosts", "true"])
        with mock.patch("os.uname", return_value=mock.Mock(nodename="w.0.job")):
            return " ".join(mpirun.mapping(request, placement))

    def test_names_that_mpirun_would_cut_to_one_are_kept_whole(self):
        keep = "--mca orte_keep_fqdn_hostnames 1"
        self.assertIn(f"{keep} --host w.1.job:1,w.2.job:1", self.words(("w.1.job", 1), ("w.2.job", 1)))
        self.assertIn(keep, self.words(("a.x", 1), ("A.y", 1)))
        self.assertIn(keep, self.words(("W.1.job", 2)), "it is cut to the name of the launcher's own host")
        self.assertIn(keep, self.words(("10.0.0.1", 1), ("10.0.0.2", 1)), "nobody knows the names behind addresses")
        for placement in ([("a.x", 1), ("b.x", 1)], [("w.0.job", 2)], []):
            self.assertNotIn(keep, self.words(*placement), placement)

    def test_hosts_with_users_go_by_a_file_for_mpirun_understands_them_there_alone(self):
        placement = [("root@h1", 2), ("h2", 1)]
        self.assertIn("--hostfile /dev/stdin --mca plm_rsh_no_tree_spawn 1", self.words(*placement))
        self.assertEqual(mpirun.hosts_file(placement), "root@h1 slots=2\nh2 slots=1\n")

    def test_processes_lie_as_they_were_dealt(self):
        a, b = workers_on("a", "a"), workers_on("a", "b", "b")
        with mock.patch.object(nodes, "resolved", lambda host: [(2, (host, 9))]):
            for placement, workers in (([("x", 2)], a), ([("x", 1), ("y", 2)], b), ([("y", 2), ("x", 1)], b), ([], b),
                                       ([("x", 1), ("y", 1)], b)):  # with a server
                self.assertIsNone(nodes.problem_of(placement, workers), placement)
            for placement, workers in (([("x", 1), ("y", 1)], a), ([("x", 2), ("y", 2), ("z", 2)], b),
                                       ([("x", 3)], b), ([("x", 3), ("y", 0)], b)):
                self.assertRegex(nodes.problem_of(placement, workers), r"for \d hosts?, x.*, and runs on \d: worker")

    def test_two_names_of_one_host_are_one_host(self):
        def resolved(host):
            return [(2, ("127.0.0.1", 9))] if host in ("localhost", "me@here") else [(2, (host, 9))]
        with mock.patch.object(nodes, "resolved", resolved):
            self.assertIsNone(nodes.problem_of([("localhost", 1), ("me@here", 1)], workers_on("a", "a")))
            self.assertIsNotNone(nodes.problem_of([("localhost", 1), ("there", 1)], workers_on("a", "a")))
        with mock.patch.object(nodes, "resolved", return_value=[]):
            self.assertIsNone(nodes.problem_of([("alias", 1), ("another", 1)], workers_on("a", "a")))


    def test_a_name_that_several_hosts_have_is_found_as_open_mpi_cuts_it(self):
        def named(whole, *hosts):
            workers = [Worker(rank, host) for rank, (host, _) in enumerate(hosts)]
            for worker, (_, node) in zip(workers, hosts):
                worker.node = node
            return nodes.name_of_several(workers, whole)
        self.assertEqual(named(True, ("n", 1), ("N", 2)), "n")
        self.assertIsNone(named(True, ("n", 1), ("n", 1), ("m", 2)))
        self.assertEqual(named(False, ("w.1.job", 1), ("w.2.job", 2)), "w")
        self.assertIsNone(named(True, ("w.1.job", 1), ("w.2.job", 2)))


class Impossible(unittest.TestCase):
    def made(self, *words, variables=None):
        made = job.Job(options.parse(["-n", "2", *(words or ("--mode", "mpi")), *LOCAL, "--grace", "600", "true"]), [])
        self.addCleanup(made.door.close)
        made.printer, made.process = mock.Mock(), mock.Mock(returncode=None)
        made.starter = mock.Mock(leave_seconds=0, placement=[("x", 1), ("y", 1)])
        made.starter.name = "mpirun"
        if variables is not None:
            made.variables = variables
        return made

    def come(self, made, *nodes_of):
        for rank, node in enumerate(nodes_of):
            made.workers[rank] = Worker(rank, f"h{rank}")
            link = mock.Mock(worker=made.workers[rank])
            made.links.add(link)
            self.heard(made, rank, node=node)

    def heard(self, made, rank, **message):
        with contextlib.redirect_stderr(io.StringIO()):
            made.on_message(made.workers[rank], message)

    def said_of_starter(self, made, text):
        made.process.stdout = mock.Mock(fileno=lambda: 0)
        with mock.patch("os.read", return_value=text.encode()):
            made.on_starter()

    def conclusion(self, made):
        with contextlib.redirect_stderr(io.StringIO()) as said:
            return conclude(made), said.getvalue().splitlines()[-1]

    def assert_ended(self, made):
        self.assertEqual(made.level, 1)
        for link in made.links:
            link.order.assert_called_once()

    def test_a_job_whose_hosts_mpirun_took_for_one_is_ended_as_soon_as_all_have_come(self):
        made = self.made()
        self.come(made, "a")
        self.assertEqual(made.level, 0)
        with mock.patch.object(nodes, "resolved", lambda host: [(2, (host, 9))]):
            self.come(made, "a", "a")
        self.assert_ended(made)
        code, last = self.conclusion(made)
        self.assertEqual(code, 1)
        self.assertRegex(last, "meant for 2 hosts, x, y, and runs on 1: worker 0, worker 1 are on h0")

    def begun(self, made, *names, **env):
        """Returns the line that begins each of two workers on two hosts of these names, and the launcher's output."""
        made.variables = None
        made.starter.words = ["mpirun"]
        with mock.patch.object(nodes, "resolved", lambda host: [(2, (host, 9))]), \
                mock.patch.dict(os.environ, env), contextlib.redirect_stderr(io.StringIO()) as said:
            for rank, name in enumerate(names):
                self.assertEqual([link.begin.call_count for link in made.links], [0] * rank)
                made.workers[rank] = Worker(rank, name)
                made.links.add(mock.Mock(worker=made.workers[rank]))
                made.on_message(made.workers[rank], {"node": f"boot {rank}"})
        return [link.begin.call_args_list for link in made.links], said.getvalue()

    def test_workers_on_hosts_of_one_name_begin_without_open_mpis_shared_memory(self):
        without = [[mock.call({"OMPI_MCA_btl": "^vader,smcuda"})]] * 2
        begun, said = self.begun(self.made(), "n", "n")
        self.assertEqual(begun, without)
        self.assertEqual(said.count("\n"), 1)
        self.assertIn("several hosts call themselves n, and Open MPI takes such hosts for one.", said)
        self.assertEqual(self.begun(self.made(), "n", "m"), ([[mock.call({})]] * 2, ""))
        self.assertEqual(self.begun(self.made(), "n", "n", OMPI_MCA_btl="tcp,self"), ([[mock.call({})]] * 2, ""))

    def test_what_a_helper_says_that_reaches_nobody_ends_the_job_and_is_said_last(self):
        made = self.made()
        self.come(made, "a")
        self.said_of_starter(made, f"odd\n{IMPOSSIBLE}h1 cannot reach the launcher\n{IMPOSSIBLE}h2 neither\n")
        self.assert_ended(made)
        self.assertEqual([call.args[1] for call in made.printer.note.call_args_list],
                         ["odd", f"{IMPOSSIBLE}h2 neither"])
        self.assertEqual(self.conclusion(made), (1, "test_launch_nodes.py: h1 cannot reach the launcher"))

    def test_it_ends_no_job_that_ends_already_and_changes_no_exit_code(self):
        made = self.made()
        self.come(made, "a", "b")
        self.heard(made, 1, exit=3, told=False)
        self.said_of_starter(made, f"{IMPOSSIBLE}h1 cannot reach the launcher\n")
        self.assertEqual(self.conclusion(made)[0], 3)

    def test_a_command_that_cannot_be_started_leaves_the_others_no_grace(self):
        made = self.made("-s", "1", variables={"DMLC_PS_ROOT_URI": "h"})
        self.come(made, "a", "b", "b", "a")
        self.heard(made, 1, unable=True)
        self.assertEqual(made.level, 0)
        self.heard(made, 1, exit=127, told=False)
        self.assert_ended(made)
        self.assertEqual(self.conclusion(made)[0], 127)

    def test_a_starter_that_hangs_is_waited_for_as_long_as_a_queue_is_not_between(self):
        for may_queue in (False, True):
            made, start = self.made(), mock.Mock(told="", words=["true"], env={}, may_queue=may_queue, placement=())
            start.name = "mpirun"
            made.events.register = mock.Mock()
            with mock.patch.object(job.subprocess, "Popen"), \
                    mock.patch.object(job.time, "monotonic", return_value=50.0), \
                    mock.patch.object(job.signal, "set_wakeup_fd"), mock.patch.object(job.signal, "signal"), \
                    mock.patch.object(job, "adopt_orphans"):
                made.start(start)
            self.assertEqual(made.gather_by, None if may_queue else 350.0)
        with mock.patch.object(made, "step"), contextlib.redirect_stderr(io.StringIO()) as said:
            made.on_missing()
        self.assertIn("mpirun started no process within 300 s; does it reach the hosts?", said.getvalue())

    def test_mpirun_is_not_started_over_ipv6_alone(self):
        request = options.parse(["-n", "2", "--mode", "mpi", "-H", "hosts", "true"])
        for known, refused in ((["2001:db8::1"], True), (["127.0.0.1", "2001:db8::1"], True), (["10.0.0.1"], False)):
            with mock.patch.object(mpirun, "addresses", return_value={"eth0": known}), \
                    mock.patch.object(mpirun, "is_here", lambda host: host == "me"):
                mpirun.check_networks(request, [("me", 2)])
                expected = self.assertRaisesRegex(options.UsageError, "by which h1 may")
                with expected if refused else contextlib.nullcontext():
                    mpirun.check_networks(request, [("me", 1), ("h1", 1)])

    def test_what_starts_the_processes_is_shown_line_by_line(self):
        lines = StarterLines()
        self.assertEqual((lines.take(b"a\nb"), lines.take(b"c\n"), lines.take(b"d"), lines.take(b"")),
                         (["a"], ["bc"], [], ["d"]))
        self.assertEqual(len(lines.take(b"x" * 70000)), 1)
        self.assertIsNone(impossible_in("cannot reach the launcher"))
        self.assertEqual(impossible_in(f"Welcome{IMPOSSIBLE}no network\r"), "no network")

    def test_a_helper_without_a_number_says_what_should_have_set_it(self):
        told = {"index": ["NO_SUCH_RANK", 0], "groups": [{"count": 2}]}
        for value in (None, "", "x", "-1"):
            with mock.patch.dict(os.environ, {} if value is None else {"NO_SUCH_RANK": value}):
                with self.assertRaisesRegex(beginning.CannotBegin, "NO_SUCH_RANK has no number for this process"):
                    beginning.index_of(told)
        with self.assertRaisesRegex(beginning.CannotBegin, "a number too many: the job has 2 processes"):
            beginning.part_of(told["groups"], 2)

    def test_processes_of_one_host_name_one_node(self):
        self.assertEqual(beginning.node_name(), beginning.node_name())
        self.assertIn(str(os.stat("/proc/self/ns/net").st_ino), beginning.node_name())


if __name__ == "__main__":
    unittest.main()
