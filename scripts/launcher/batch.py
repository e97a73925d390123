"""Batch systems: what submits a job whose tasks are the processes, by their index, or in mode mpi one of mpirun."""
import glob
import json
import os
import pathlib
import shlex
import subprocess
import sys

from launcher import helper, mpirun
from launcher.options import UsageError
from launcher.programs import must_find
from launcher.starter import Starter, carried, carriers_environment, groups, place
from launcher.trust import find

SUBMIT = pathlib.Path(__file__).with_name("submit.py")
# They tell of the end when they look next.
LEAVE_SECONDS = 120.0
# The names that Grid Engine's sites give to the parallel environments that are for MPI.
USUAL_ENVIRONMENTS = ("mpi", "openmpi", "ompi", "orte")
# The options that need programs of a batch system, and the packages that bring these.
SLURM = "--launcher slurm", "apt-get install slurm-client"
SGE = "--launcher sge", "it comes with Grid Engine"
YARN = "--launcher yarn", "it comes with Hadoop"


def told(request, index, env, forwarded, server, placement=()):
    """The text that a task of the job reads. In mode mpi the job has one task, which becomes mpirun."""
    here = {"env": {name: env[name] for name in forwarded}, **place(request)}
    if request.mode == "ps":
        return helper.lines(helper.source(), {**here, "groups": groups(request, server), "index": index})
    # By these mpirun does as root what it does for others.
    here["env"].update((name, env[name]) for name in env if name.startswith("OMPI_"))
    return helper.lines(helper.source("trust", "become"),
                        {**here, "words": mpirun.words("mpirun", request, placement, forwarded)})


def task_words():
    return shlex.join(["exec", *helper.python(False), helper.BOOT])


def slurm(request, env, forwarded, server):
    """srun gives its standard input to every task. An allocation that there is already is used."""
    if request.mode == "ps":
        # srun also looks for a program in the current folder.
        python = [find("python3") or sys.executable, *helper.python(False)[1:]]
        words = [must_find("srun", *SLURM), "--ntasks", str(request.processes()), "--kill-on-bad-exit=0", "--wait=0",
                 "--job-name", "tutti", *python, helper.BOOT]
        return Starter("srun", words, carriers_environment(),
                       told(request, ["SLURM_PROCID", 0], env, forwarded, server), LEAVE_SECONDS, may_queue=True)
    env, forwarded = carried(env, forwarded)
    line = mpirun.words(mpirun.find_mpirun(request), request, [], forwarded)
    if "SLURM_JOB_ID" not in env:
        line = [must_find("salloc", *SLURM), "--ntasks", str(request.workers),
                "--job-name", "tutti", *line]
    return Starter(pathlib.Path(line[0]).name, line, env, leave_seconds=LEAVE_SECONDS, may_queue=True)


def submitted(name, words, file, script=""):
    plan = {"words": words, "file": file, "script": script}
    return Starter(name, [sys.executable, "-I", "-S", str(SUBMIT)], carriers_environment(), json.dumps(plan),
                   LEAVE_SECONDS, may_queue=True)


def parallel_environment():
    known = subprocess.run([must_find("qconf", *SGE), "-spl"], check=False, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout.split()
    for name in (*USUAL_ENVIRONMENTS, *(known if len(known) == 1 else ())):
        if name in known:
            return name
    raise UsageError(f"--launcher sge --mode mpi needs a parallel environment named {' or '.join(USUAL_ENVIRONMENTS)}; "
                     f"there are: {', '.join(known) or 'none'}")


def sge(request, env, forwarded, server):
    """What is told lies in the file, for Grid Engine shows everyone a job's variables and script. -notify: when the
    launcher is killed, the helper has time to end what its command has started; Grid Engine would kill it at once. It
    announces that with SIGUSR2, and a stop with SIGUSR1, to every process of a task."""
    tasks = (["-pe", parallel_environment(), str(request.workers)] if request.mode == "mpi"
             else ["-t", f"1-{request.processes()}"])
    # mpirun's own words go nowhere else, nor does the reason for which it is not started.
    output = "@FILE@.said" if request.mode == "mpi" else "/dev/null"
    words = [must_find("qsub", *SGE), "-sync", "y", "-notify", "-S", "/bin/sh", "-N", "tutti",
             "-o", output, "-j", "y", *tasks]
    return submitted("qsub", words, told(request, ["SGE_TASK_ID", 1], env, forwarded, server),
                     f"trap '' USR1 USR2\n{task_words()} <@FILE@\n")


def distributed_shell(env):
    """The program of Hadoop's that runs a script in containers."""
    for home in filter(None, map(env.get, ("HADOOP_YARN_HOME", "HADOOP_HOME"))):
        found = glob.glob(f"{glob.escape(home)}/share/hadoop/yarn/hadoop-yarn-applications-distributedshell-*.jar")
        if found:
            return sorted(found)[-1]
    raise UsageError("--launcher yarn needs Hadoop's distributed shell, share/hadoop/yarn/hadoop-yarn-applications-"
                     "distributedshell-*.jar; set HADOOP_HOME to the folder that has it")


def yarn(request, env, forwarded, server):
    """The script has all that is told: Hadoop keeps it from other users, and its hosts share no folder."""
    jar = distributed_shell(env)
    containers = 1 if request.mode == "mpi" else request.processes()
    here = [("localhost", request.workers)]  # a container knows of no other
    words = [must_find("yarn", *YARN), "jar", jar, "-jar", jar, "-appname", "tutti",
             "-num_containers", str(containers), "-shell_script", "@FILE@"]
    text = told(request, ["YARN_SHELL_ID", 1], env, forwarded, server, here)
    return submitted("yarn", words, f"{task_words()} <<'TOLD'\n{text}TOLD\n")


SYSTEMS = {"slurm": slurm, "sge": sge, "yarn": yarn}
