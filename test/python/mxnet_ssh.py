"""The commands that users of MXNet type for several hosts with ssh: a part of test_mxnet.py."""
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

from installed import ROOT
from mxnet_examples import EXAMPLES, Said

sys.path.insert(0, str(ROOT / "test/lab"))
import hosts
import sshd
from cifar10 import write_cifar10
from registry import made

BENCHMARK = ("--benchmark 1 --image-shape 3,32,32 --num-classes 10 --batch-size 2 --steps 4 --disp-batches 2 "
             "--kv-store dist_sync")


class SshHosts(Said):
    @contextlib.contextmanager
    def over_ssh(self, count):
        """A folder with a host file and the examples, and what runs a line there on the first of these hosts."""
        reason = hosts.why_not() or sshd.why_not()
        if reason:
            self.skipTest(reason)
        with tempfile.TemporaryDirectory() as folder, made(hosts.Lab(f"mxssh{os.getpid()}", (1,) * count)) as lab:
            folder = pathlib.Path(folder)
            job = folder / "job"
            shutil.copytree(EXAMPLES, job, ignore=shutil.ignore_patterns("__pycache__"))
            (job / "hosts").write_text("".join(f"{name}\n" for name in lab.names))
            with sshd.served(lab, folder) as path:
                path = f"{path}:{self.python.parent}:/usr/local/bin:/usr/bin:/bin"
                env = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "TUTTI_"))}

                def run(line, **more):
                    words = hosts.enter(lab.names[0], f"env -C {job} {line}")
                    done = subprocess.run(words, text=True, check=False, timeout=400, env={**env, "PATH": path, **more},
                                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
                    self.assertEqual(done.returncode, 0, f"{line}\n{done.stdout}")
                    return done.stdout
                yield job, lab.names, run


class OverSsh(SshHosts):
    def test_a_script_of_gluon_is_copied_to_hosts_and_trains_with_servers(self):
        with self.over_ssh(2) as (job, names, run):
            target = job.parent / "cifar10_dist"
            write_cifar10(job / "cifar-10-batches-bin", 26)  # one batch for each worker
            text = run(f"python3 {ROOT}/scripts/launch.py -n 2 -s 2 -H hosts --sync-dst-dir {target} --launcher ssh "
                       f"\"python {target}/cifar10_dist.py\"")
            for name in names:
                self.assertRegex(text, rf"\d{{4}}-\d\d-\d\d \d\d:\d\d:\d\d rsync {job}/ -> {name}:{target}\n")
            for line in ("Total number of workers: 2", "This worker's rank: 0", "This worker's rank: 1",
                         f"The data set is cifar10, of {target}"):
                self.assertIn(line, text)
            for epoch in range(10):
                self.assertEqual(len(re.findall(rf"Epoch {epoch}: Test_acc [01]\.\d{{6}}", text)), 2, text)
            self.accuracy(text, 2)


class OverSshAtLength(SshHosts):
    def test_the_benchmark_prints_each_workers_speed_with_any_number_of_servers(self):
        with self.over_ssh(8) as (_, _, run):
            for servers in (1, 2, 4, 8):
                with self.subTest(servers=servers):
                    text = run(f"{ROOT}/scripts/launch.py -n 8 -s {servers} --launcher ssh -H hosts "
                               f"python train_imagenet.py {BENCHMARK} --network vgg16", OMP_NUM_THREADS="1")
                    for rank in range(8):
                        self.assertRegex(text, rf"Worker {rank}: Epoch 0 Batch \d+: \d+\.\d\d samples/s")

    def last_accuracy(self, text):
        return float(re.findall(r"Test_acc (\d\.\d{6})", text)[-1])

    def test_scripts_of_a_shared_folder_and_of_a_copied_one_learn_as_well_as_one_process_with_their_joint_batch(self):
        with self.over_ssh(2) as (job, _, run):
            shutil.copytree(ROOT / "examples/data", job / "data")
            line = "python train_mnist.py --network lenet"
            alone = self.last_accuracy(run(f"{line} --batch-size 32"))
            for kind, how, less in (("dist_sync", "--launcher ssh", 0.02),
                                    ("dist_async", "--launcher ssh", 0.05),
                                    ("dist_sync", f"--sync-dst-dir {job.parent}/copied", 0.02)):
                with self.subTest(kind, how=how):
                    text = run(f"{ROOT}/scripts/launch.py -n 2 {how} -H hosts {line} --kv-store {kind}")
                    self.assertGreaterEqual(self.last_accuracy(text), max(alone - less, 0.93), text)

    def test_mode_mpi_starts_no_servers_and_gives_the_script_dist_sync_mpi(self):
        with self.over_ssh(8) as (job, names, run):
            write_cifar10(job / "cifar-10-batches-bin", 16)
            text = run(f"{ROOT}/scripts/launch.py -n 8 -H hosts --launcher ssh --sync-dst-dir {job.parent}/mpi/ "
                       "--mode mpi python cifar10_dist.py --dataset cifar10 --model vgg11 --num-epochs 1 "
                       "--batch-size 2 --kvstore dist_sync", DMLC_INTERFACE="eth0", OMP_NUM_THREADS="1")
            self.accuracy(text, 8)
            self.assertEqual(len(re.findall(f"rsync {job}/ -> ", text)), len(names), text)
