#!/usr/bin/env python3
"""The threads that the launcher gives to the libraries of its workers."""
import os
import pathlib
import sys
import tempfile
import unittest
from unittest import mock

from launching import LOCAL, MPI, ROOT, LaunchCase

sys.path.insert(0, str(ROOT / "scripts"))

from launcher import threads
from launcher.shares import Shares

HERE = len(os.sched_getaffinity(0))
SHOW = "echo threads=$OMP_NUM_THREADS,$MKL_NUM_THREADS"


class Share(unittest.TestCase):
    def test_processors_are_divided_among_the_workers_of_a_host_and_each_has_one_at_least(self):
        for own, together, workers, limit, share in (
                (8, 8, 4, None, 2), (8, 8, 3, None, 2), (8, 8, 16, None, 1), (8, 8, 1, None, 8),
                (64, 64, 4, 8.0, 2), (64, 64, 4, 0.5, 1), (8, 8, 2, 100.0, 4)):
            self.assertEqual(threads.share(own, together, workers, limit), share)

    def test_a_worker_that_is_bound_already_keeps_what_it_is_bound_to(self):
        self.assertEqual(threads.share(2, 8, 4, None), 2)
        self.assertEqual(threads.share(1, 8, 4, None), 1)
        self.assertEqual(threads.share(4, 8, 4, None), 2, "two of them share four")

    def given(self, told=None, count=4, **env):
        told = {"groups": [{"count": count}, {"count": 3}], **(told or {})}
        with mock.patch.dict(os.environ, env, clear=True), mock.patch.object(threads, "own_quota", return_value=None), \
                mock.patch.object(threads.os, "sched_getaffinity", return_value=set(range(12))):
            found = threads.set_share(told, os.getppid())
            self.assertEqual(os.environ.get("OMP_NUM_THREADS", "0"), env.get("OMP_NUM_THREADS", str(found)))
        return found

    def test_whatever_starts_the_workers_tells_how_many_they_are(self):
        self.assertEqual(self.given({"workers_here": 2}), 6)
        self.assertEqual(self.given(OMPI_COMM_WORLD_LOCAL_SIZE="7"), 3, "of 7 there are 4 workers")
        self.assertEqual(self.given(OMPI_COMM_WORLD_LOCAL_SIZE="1"), 12)
        slurm = {"SLURM_PROCID": "5", "SLURM_TASKS_PER_NODE": "4(x1),3", "SLURM_CPUS_ON_NODE": "6"}
        self.assertEqual([self.given(**slurm, SLURM_NODEID=node) for node in "012"], [1, 2, 0])
        self.assertEqual(self.given(SGE_TASK_ID="2"), 1)
        self.assertEqual(self.given(SGE_TASK_ID="2", NSLOTS="4"), 4)
        self.assertEqual(self.given(), 0)

    def test_a_job_that_has_chosen_and_one_worker_are_left_alone(self):
        for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS"):
            self.assertEqual(self.given({"workers_here": 2}, **{name: "5"}), 0, name)
        self.assertEqual(self.given({"workers_here": 1}, count=1), 0)

    def test_slurms_list_of_tasks_is_read(self):
        for text, node, tasks in (("4", 0, 4), ("4(x3)", 2, 4), ("2,1(x2),7", 3, 7), ("2", 1, 0), ("", 0, 0),
                                  ("x", 0, 0)):
            self.assertEqual(threads.tasks_of(text, node), tasks, text)

    def test_the_smallest_quota_of_all_control_groups_counts(self):
        with tempfile.TemporaryDirectory() as folder, mock.patch.object(threads, "GROUPS", folder):
            def write(path, text):
                file = pathlib.Path(folder, path)
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            self.assertIsNone(threads.quota(["0::/a/b\n"]))
            write("a/b/cpu.max", "max 100000\n")
            self.assertIsNone(threads.quota(["0::/a/b\n"]))
            write("a/cpu.max", "250000 100000\n")
            write("cpu.max", "800000 100000\n")
            self.assertEqual(threads.quota(["0::/a/b\n"]), 2.5)
            write("cpu/docker/cpu.cfs_quota_us", "-1\n")
            write("cpu/docker/cpu.cfs_period_us", "100000\n")
            self.assertIsNone(threads.quota(["4:cpu,cpuacct:/docker\n", "2:memory:/x\n"]))
            write("cpu/docker/cpu.cfs_quota_us", "150000\n")
            self.assertEqual(threads.quota(["4:cpu,cpuacct:/docker\n", "0::/a\n"]), 1.5)


class Said(unittest.TestCase):
    def said(self, *shares):
        told = Shares(len(shares))
        return [text for rank, threads_of in enumerate(shares) if (text := told.add(rank, threads_of))]

    def test_it_is_said_once_when_all_have_come(self):
        text, = self.said(2, 2)
        self.assertRegex(text, "OMP_NUM_THREADS is 2 for each worker, its share .*; --env OMP_NUM_THREADS=N chooses")
        text, = self.said(2, 0, 4)
        self.assertIn("OMP_NUM_THREADS is 2 to 4 for each worker", text)
        self.assertEqual(self.said(0, 0), [])


class Jobs(LaunchCase):
    def environment(self, **more):
        known = super().environment(**more)
        return {name: known[name] for name in known if name not in threads.CHOICES or name in more}

    def test_workers_get_their_share_and_the_launcher_says_so(self):
        share = max(1, HERE // 4)
        code, out, err = self.launch("-n", 4, *MPI, SHOW)
        self.assertEqual((code, out.count(f"threads={share},\n")), (0, 4), err)
        self.assertEqual(err.count(f"OMP_NUM_THREADS is {share} for each worker"), 1, err)

    def test_one_worker_and_jobs_that_have_chosen_are_left_alone(self):
        code, out, err = self.launch("-n", 1, *MPI, SHOW)
        self.assertEqual((code, out, err), (0, "threads=,\n", ""))
        code, out, err = self.launch("-n", 2, *MPI, "--env", "MKL_NUM_THREADS=3", SHOW)
        self.assertEqual((code, out.count("threads=,3\n"), err), (0, 2, ""))
        code, out, err = self.launch("-n", 2, *MPI, SHOW, OMP_NUM_THREADS="7")
        self.assertEqual((code, out.count("threads=7,\n"), err), (0, 2, ""))

    def test_so_do_workers_beside_servers_among_themselves(self):
        with tempfile.TemporaryDirectory() as folder:
            server = pathlib.Path(folder, "tutti-server")
            server.write_text("#!/bin/sh\nexec sleep 600\n")
            server.chmod(0o755)
            code, out, err = self.launch("-n", 2, "-s", 3, *LOCAL, SHOW, PATH=f"{folder}:{os.environ['PATH']}")
        self.assertEqual((code, out.count(f"threads={max(1, HERE // 2)},\n")), (0, 2), err)


if __name__ == "__main__":
    unittest.main()
