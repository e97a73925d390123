"""A Slurm of this machine alone: one node, with a munge of its own."""
import contextlib
import os
import pathlib
import shutil
import socket
import subprocess
import time

PROGRAMS = ("slurmctld", "slurmd", "munged", "srun", "salloc", "sinfo")
PATIENCE_SECONDS = 30
SLOTS = 16
CONFIGURATION = """\
ClusterName=tutti
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
SlurmdUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
NodeName={host} NodeAddr=127.0.0.1 CPUs={slots} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


def why_not():
    """The reason why there is none; empty if there can be one."""
    if os.geteuid() != 0:
        return "Slurm's daemons need root"
    missing = [name for name in PROGRAMS if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]
    return f"{', '.join(missing)} not there; scripts/setup --tests installs Slurm" if missing else ""


def free_ports(count):
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def started(stack, words, folder):
    log = stack.enter_context((folder / f"{pathlib.Path(words[0]).name}.out").open("w"))
    process = stack.enter_context(subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                                   env={**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}))
    stack.callback(process.terminate)
    return process


def await_node(folder):
    """Waits for the node. If it does not come, shows Slurm's own text."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        done = subprocess.run(["sinfo", "--noheader", "--format=%t"], text=True, check=False, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, env={**os.environ, "SLURM_CONF": str(folder / "slurm.conf")})
        if done.stdout.strip() == "idle":
            return
        if time.monotonic() > deadline:
            logs = "\n".join(path.read_text()[-2000:] for path in [*folder.glob("*.log"), *folder.glob("*.out")])
            raise AssertionError(f"no node is idle within {PATIENCE_SECONDS} s: {done.stdout}\n{logs}")
        time.sleep(0.2)


@contextlib.contextmanager
def running(folder):
    """While the block runs SLURM_CONF, which it gives, names a Slurm that takes jobs."""
    folder = pathlib.Path(folder)
    folder.chmod(0o755)
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o400)
    (folder / "slurm.conf").write_text(CONFIGURATION.format(host=socket.gethostname(), folder=folder, slots=SLOTS,
                                                            ports=free_ports(2)))
    with contextlib.ExitStack() as stack:
        started(stack, ["/usr/sbin/munged", "--foreground", "--force", f"--key-file={key}",
                        f"--socket={folder}/munge.socket", f"--pid-file={folder}/munged.pid",
                        f"--log-file={folder}/munged.log", f"--seed-file={folder}/munged.seed"], folder)
        while not (folder / "munge.socket").exists():
            time.sleep(0.05)
        for daemon in ("slurmctld", "slurmd"):
            started(stack, [f"/usr/sbin/{daemon}", "-D"], folder)
        await_node(folder)
        yield folder / "slurm.conf"
