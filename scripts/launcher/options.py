"""The launcher's command line."""
import argparse
import dataclasses
import math
import os
import re
import shlex
import sys
from typing import List, Optional, Tuple

from command_line import Parser, meant, program

DESCRIPTION = """Starts a distributed training job: the same command once for each worker.

on several hosts:  %(prog)s -n 8 -H hosts --sync-dst-dir ~/job "python train.py --kv-store dist_sync"
on this machine:   %(prog)s -n 2 --launcher local build/examples/train --kv-store dist_sync
without servers:   %(prog)s -n 4 --mode mpi --launcher local build/examples/train --kv-store dist_sync_mpi

The command is separate words, or one quoted string, which then goes through a shell. With a parameter server
(--mode ps) servers and a scheduler are started beside the workers. In --mode mpi the workers run under
mpirun, and the store names dist, dist_sync, dist_device_sync and dist_sync_device mean dist_sync_mpi.
Workers have an empty standard input, and what they leave running ends with them.
The exit code is that of the process that failed first; its last lines are printed last."""

BATCH = ("sge", "yarn", "slurm")
LAUNCHERS = ("ssh", "local", "mpi", *BATCH)
# The variables by which the launcher tells its workers something.
OWN_VARIABLES = ("TUTTI_MODE", "TUTTI_LAUNCH_CONTACT", "TUTTI_END_NOTICES", "TUTTI_JOB_KEY", "TUTTI_JOB_KEY_FILE",
                 "TUTTI_LISTEN_FD", "DMLC_ROLE", "DMLC_RANK", "DMLC_NUM_WORKER", "DMLC_NUM_SERVER", "DMLC_PS_ROOT_URI")
DAY_SECONDS = 86400


class UsageError(Exception):
    """The user's command cannot be done. The text says what to type instead. Lines that belong to it, such as another
    program's, follow it.
    """

    def __init__(self, text, lines=()):
        super().__init__(text)
        self.lines = lines


@dataclasses.dataclass(frozen=True)
class Request:
    """The command line, checked."""
    workers: int
    servers: Optional[int]  # in mode mpi: as given
    mode: str
    hostfile: Optional[str]
    launcher: str
    sync_dst_dir: Optional[str]
    env: List[str]
    no_env: List[str]
    prefix: bool
    grace: float
    command: List[str]
    server_options: Tuple[str, ...] = ()  # of tutti-server as a server
    state_folder: Optional[str] = None  # the servers' states there outlive them
    survives: bool = False  # a server that was killed goes on when it is started again

    def processes(self):
        """How many there are. By number: the workers, and in mode ps the servers and the scheduler."""
        return self.workers + (self.servers + 1 if self.mode == "ps" else 0)

    def title(self, number):
        if number < self.workers:
            return f"worker {number}"
        return f"server {number - self.workers}" if number < self.processes() - 1 else "scheduler"

    def numbers(self):
        """{title: number} in mode ps."""
        return {self.title(number): number for number in range(self.processes())} if self.mode == "ps" else {}


def make_parser():
    parser = Parser(description=DESCRIPTION, usage="%(prog)s -n N [option ...] command ...",
                    formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("-n", "--num-workers", type=int, metavar="N",
        help="how many workers (must be given; example: -n 4)")
    add("-s", "--num-servers", type=int, metavar="N",
        help="how many servers, in --mode ps (default: as many as workers; example: -s 2)")
    add("--server-state", metavar="FOLDER",
        help="the folder in which each server keeps its values, optimizer states and rounds, on its own host; the "
             "next job goes on from them (default: servers keep nothing; example: --server-state ~/state)")
    add("--durable", metavar="HOW",
        help="when the servers' state is on the disk. each: before a worker learns that its push was applied; "
             "seconds=N: at most N seconds later; with both the launcher starts a killed server again, and the job "
             "goes on. off: now and then, for another job (default: off; example: --durable each)")
    add("--restore", metavar="FOLDER",
        help="the folder with the states of an earlier job, with any number of servers; servers without a state of "
             "their own begin with it (default: none; example: --restore ~/old-state)")
    add("-H", "--hostfile", metavar="FILE",
        help="a file with one host on each line: HOST, HOST:COUNT or HOST slots=COUNT, with USER@ if ssh needs it; "
             "ssh also reads ~/.ssh/config (default: none; example: -H hosts)")
    add("--launcher", metavar="HOW",
        help="how processes are started. ssh: one ssh for each process; local: on this machine; mpi: mpirun, in an "
             "allocation or over -H; sge, yarn, slurm: a job of that batch system (default: ssh; example: --launcher "
             "local)")
    add("--mode", metavar="MODE",
        help="ps: a parameter server, for the store types dist_sync, dist_async and their variants; mpi: collective "
             "operations under mpirun, for dist_sync_mpi (default: ps; example: --mode mpi)")
    add("--sync-dst-dir", metavar="FOLDER",
        help="copy the current folder to this folder on every host, with rsync, and start the command there; the "
             "launcher makes the folder, or takes one to which no other user may write (default: no copy; example: "
             "--sync-dst-dir ~/job)")
    add("--env", action="append", default=[], metavar="NAME[=VALUE]",
        help="a variable that every worker gets, with its value here or with the value that you give; may be repeated "
             "(default: PATH VIRTUAL_ENV PYTHONPATH LD_LIBRARY_PATH and all that begin with DMLC_ PS_ TUTTI_ OMP_ "
             "MXNET_; example: --env HF_HOME)")
    add("--no-env", action="append", default=[], metavar="NAME",
        help="a variable that the launcher does not pass to other hosts; the shell there may set it; may be repeated "
             "(default: none; example: --no-env PATH)")
    add("--no-prefix", dest="prefix", action="store_false",
        help="print lines as they are, without [worker 1] in front (default: with it, if the job has several "
             "processes; example: --no-prefix)")
    add("--grace", type=float, default=30.0, metavar="SECONDS",
        help="how long the other processes have after the first failure to end by themselves, for example to save a "
             "checkpoint; all workers have the same time after Ctrl-C or SIGTERM (default: 30; example: --grace 120)")
    return parser


def split(parser, words):
    """Parts the launcher's own options from the command, which starts at the first other word."""
    takes_value = {name: action.nargs != 0
                   for action in parser._actions for name in action.option_strings}
    at = 0
    while at < len(words) and words[at].startswith("-"):
        name, joined, _ = words[at].partition("=")
        if name == "--":
            return words[:at], words[at + 1:]
        if name[:2] in takes_value and not name.startswith("--") and len(name) > 2:
            name, joined = name[:2], name[2:]  # -n4
        if name not in takes_value:
            raise UsageError(f"unknown option {name}" + (meant(name, takes_value) or "; see --help"))
        at += 2 if takes_value[name] and not joined else 1
    return words[:at], words[at:]


def check_choice(option, given, known):
    if given not in known:
        raise UsageError(f"{option} {given}: unknown; known are {', '.join(known)}" + meant(given, known))


def check(given):
    if given.mode is not None:
        check_choice("--mode", given.mode, ("ps", "mpi"))
    if given.launcher is not None:
        check_choice("--launcher", given.launcher, LAUNCHERS)
    if given.num_workers is None or given.num_workers < 1:
        raise UsageError("the number of workers is missing: give -n N, with N at least 1")
    if given.num_servers is not None and given.num_servers < 1:
        raise UsageError(f"-s {given.num_servers}: the number of servers must be 1 or more")
    if not (math.isfinite(given.grace) and given.grace >= 0):
        raise UsageError(f"--grace {given.grace:g}: it takes a time in seconds, 0 or more")
    check_state(given)
    check_variables(given.env)
    for name in given.no_env:
        if name in OWN_VARIABLES or name in {each.partition("=")[0] for each in given.env}:
            raise UsageError(f"--no-env {name}: every process gets this variable from the launcher or by --env; leave "
                             "the option out")
    check_hosts(given)


def check_state(given):
    seconds = re.fullmatch(r"seconds=([1-9]\d{0,4})", given.durable or "")
    if given.durable not in (None, "each", "off") and not (seconds and int(seconds[1]) <= DAY_SECONDS):
        raise UsageError(f"--durable {given.durable}: it takes each, seconds=N up to {DAY_SECONDS}, or off")
    if given.server_state is None and (given.durable is not None or given.restore is not None):
        raise UsageError("--durable and --restore need --server-state FOLDER, the folder in which servers keep their "
                         "state")
    if given.server_state is not None and given.mode == "mpi":
        raise UsageError("--server-state: a job in --mode mpi has no servers; leave the option out, or take --mode ps")


def server_options(given):
    options = (("--state", given.server_state), ("--durable", given.durable), ("--restore", given.restore))
    return tuple(word for option in options if option[1] is not None for word in option)


def check_variables(assignments):
    for assignment in assignments:
        name = assignment.partition("=")[0]
        if not name:
            raise UsageError(f"--env {assignment}: names no variable; give --env NAME or --env NAME=VALUE")
        if name in OWN_VARIABLES:
            raise UsageError(f"--env {name}: the launcher sets this variable itself, for every process")


def check_hosts(given):
    """Checks that somebody knows the hosts: the user, or the program that the launcher asks for them."""
    if given.launcher == "local" and (given.hostfile or given.sync_dst_dir):
        raise UsageError("-H and --sync-dst-dir are for --launcher ssh; --launcher local starts everything here")
    if given.launcher in BATCH and (given.hostfile or given.sync_dst_dir):
        raise UsageError(f"-H and --sync-dst-dir are for --launcher ssh and mpi; with --launcher {given.launcher} the "
                         "batch system chooses the hosts, and the current folder must exist on all of them")
    if given.launcher == "mpi" and given.sync_dst_dir and not given.hostfile:
        raise UsageError("--sync-dst-dir needs the hosts to which it copies: give -H FILE")


def no_hosts(given, own, command):
    """The error of a command line without any, with the line to type for this machine."""
    text = "--launcher ssh, the default, needs the hosts: give -H FILE, with one name or address on each line"
    if given.launcher or given.sync_dst_dir:
        return text
    return f"{text}. For this machine alone type: {shlex.join([sys.argv[0], *own, '--launcher', 'local', *command])}"


def is_shell_line(word):
    """Whether a command that is one word was meant to be several."""
    try:
        return len(shlex.split(word)) > 1
    except ValueError:  # a quotation that does not end: the shell says it best
        return True


def parse(words):
    """The request that the words make. Raises UsageError; prints the help and exits for --help."""
    parser = make_parser()
    own, command = split(parser, words)
    given = parser.parse_args(own)
    check(given)
    launcher = given.launcher or "ssh"
    if not command or not command[0].strip():
        raise UsageError(f"the command to start is missing: {program()} -n N [option ...] command ...")
    if launcher == "ssh" and given.hostfile is None:
        raise UsageError(no_hosts(given, own, command))
    if len(command) == 1 and is_shell_line(command[0]):
        command = ["/bin/sh", "-c", command[0]]
    mode = given.mode or "ps"
    servers = given.num_servers
    if mode == "ps" and servers is None:
        servers = given.num_workers
    # As a shell has done it where it could.
    folder = given.sync_dst_dir and os.path.expanduser(given.sync_dst_dir)
    return Request(given.num_workers, servers, mode, given.hostfile, launcher, folder, given.env, given.no_env,
                   given.prefix and (given.num_workers > 1 or mode == "ps"), given.grace, command,
                   server_options(given), given.server_state, given.durable not in (None, "off"))
