"""An MPI job over the hosts of a lab."""
import dataclasses
import json
import os
import pathlib
import shlex
import subprocess
import time

from hosts import PATIENCE_SECONDS, Refused, enter

AGENT = pathlib.Path(__file__).with_name("agent.sh")
# --map: ranks that follow each other on one host, or one on each host in turn.
MAPPINGS = {"block": "slot", "cyclic": "node"}
# Ranks of one host send each other TCP as well, for MPI's shared memory would stay behind a job that is killed.
SETTINGS = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_btl": "tcp,self"}


def add_options(parser):
    """Adds the options of every command that runs a job."""
    parser.add_argument("--map", choices=MAPPINGS, default="block",
                        help="ranks that follow each other on one host, or one on each host in turn (%(default)s)")
    parser.add_argument("--env", action="append", default=[], metavar="NAME=VALUE",
                        help="sets a variable for all ranks; may be repeated")
    parser.add_argument("--traffic", metavar="FILE", type=pathlib.Path,
                        help="writes what each link has carried during the run, as JSON")


def words(lab, args):
    """mpirun and its arguments, for the first host."""
    total = sum(lab.ranks)
    slots = ",".join(f"{name}:{count}" for name, count in zip(lab.names, lab.ranks))
    line = ["mpirun", "-n", str(total), "--host", slots, "--map-by", MAPPINGS[args.map],
            "--bind-to", "none", "--mca", "plm_rsh_agent", str(AGENT),
            "--mca", "oob_tcp_if_include", "eth0", "--mca", "btl_tcp_if_include", "eth0"]
    for assignment in args.env:
        line += ["-x", assignment]
    return line + args.program


def settings(lab):
    """The variables for mpirun. If there are more ranks than cores, ranks that wait yield to others."""
    crowded = sum(lab.ranks) > len(os.sched_getaffinity(0))
    return {"OMPI_MCA_mpi_yield_when_idle": str(int(crowded)), **SETTINGS}


def environment(lab):
    """Yielding as the caller has set it, if he has."""
    return {**settings(lab), **os.environ, **SETTINGS}


def check(args):
    if not args.program:
        raise Refused("name the program after the options")
    if args.program[0].startswith("-"):
        raise Refused(f"unknown option {args.program[0]}; see --help")
    for assignment in args.env:
        if "=" not in assignment:
            raise Refused(f"--env takes NAME=VALUE, not '{assignment}'")


def command(lab, args):
    """The words that start it from this machine. The job ends when the process does that runs them."""
    return ["setpriv", "--pdeathsig", "TERM", *enter(lab.names[0], shlex.join(words(lab, args)))]


def run(lab, args):
    """Returns mpirun's exit status."""
    before, start = lab.traffic(), time.monotonic()
    # mpirun runs in a session of its own. Two signals, one from a terminal and one from here, would make it give up on
    # its ranks.
    with subprocess.Popen(command(lab, args), env=environment(lab), start_new_session=True) as job:
        try:
            status = job.wait()
        finally:
            end(job)
    if args.traffic:
        difference = {"seconds": time.monotonic() - start, "links": since(before, lab.traffic())}
        args.traffic.write_text(json.dumps(difference, indent=1) + "\n")
    return status


def end(job):
    """Politely, so that mpirun ends its ranks and removes their files."""
    job.terminate()
    try:
        job.wait(PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    finally:
        job.kill()


def since(before, after):
    return [{key: value if key == "host" else value - old[key] for key, value in row.items()}
            for old, row in zip(before, after)]


def with_ranks(lab, ranks):
    """The lab with as many ranks on each host, unless that is None."""
    return lab if ranks is None else dataclasses.replace(lab, ranks=(ranks,) * len(lab.ranks))
