"""scripts/lab: emulated hosts that stay until they are taken down."""
import argparse
import json
import os
import shlex
import signal
import sys

import mpi_job
import registry
from command_line import Parser
from hosts import SKIPPED, Lab, Refused, enter, parse_rate, why_not

ABOUT = """Emulates several hosts on this machine. A host is a network namespace with a host name of its own. One
switch connects all hosts, and the link of each host has a limited rate in both directions. lab needs root.

  scripts/lab up 8 --rate 1gbit             makes eight hosts, lab-h0 to lab-h7
  scripts/lab exec h0 ip address            runs a command on one of them
  scripts/lab run build/examples/train ...  runs an MPI job with one rank on each host
  scripts/lab traffic                       prints how much the links have carried
  scripts/lab down                          removes everything
"""


def up(args):
    with registry.made(args.plan, kept=True):
        pass
    show(args.plan)


def show(lab):
    rate = f"{lab.rate / 1e6:g} Mbit/s" if lab.rate else "unshaped"
    print(f"{lab.name}: {len(lab.ranks)} hosts, {lab.names[0]} to {lab.names[-1]}, links {rate}, ranks per host "
          f"{','.join(map(str, sorted(set(lab.ranks))))}; {len(lab.processes())} processes")
    print(f"  for other launchers: host file {registry.hostfile_of(lab)}, in place of ssh {mpi_job.AGENT}")


def execute(args):
    lab = registry.find(args.name)
    host = next((name for name in lab.names if args.host in (name, name.removeprefix(f"{lab.name}-"))), None)
    if host is None:
        raise Refused(f"no host '{args.host}' in lab '{lab.name}'; there are {lab.names[0]} to {lab.names[-1]}")
    words = enter(host, shlex.join(args.program))
    sys.stdout.flush()
    os.execv(words[0], words)


def run(args):
    return mpi_job.run(mpi_job.with_ranks(registry.find(args.name), args.ranks), args)


def traffic(args):
    rows = registry.find(args.name).traffic()
    if args.json:
        print(json.dumps({"links": rows}, indent=1))
        return
    print(f"{'host':16}{'sent bytes':>16}{'packets':>12}{'received bytes':>18}{'packets':>12}")
    for row in rows:
        print(f"{row['host']:16}{row['sent_bytes']:16}{row['sent_packets']:12}{row['received_bytes']:18}"
              f"{row['received_packets']:12}")


def down(args):
    registry.take_down(args.name)


def show_all(_):
    labs = registry.kept_labs()
    for lab in labs.values():
        show(lab)
    if not labs:
        print("no lab is up")


def add(commands, function, name, text):
    parser = commands.add_parser(name, help=text, description=text)
    parser.set_defaults(function=function, env=[])
    if function is not show_all:
        parser.add_argument("--name", default="lab", help="the name of the lab (%(default)s)")
    return parser


def parse(arguments):
    parser = Parser(prog="scripts/lab", description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    making = add(commands, up, "up", "makes a lab")
    making.add_argument("hosts", type=int, metavar="N", help="the number of hosts")
    making.add_argument("--rate", default="1gbit",
                        help="the rate of each link in both directions: 200mbit, 1gbit, none (%(default)s)")
    making.add_argument("--ranks", type=int, default=1, metavar="K",
                        help="the number of ranks on each host (%(default)s)")
    executing = add(commands, execute, "exec", "runs a command on a host")
    executing.add_argument("host", help="h0, or lab-h0")
    executing.add_argument("program", nargs=argparse.REMAINDER, metavar="CMD ...")
    running = add(commands, run, "run", "runs an MPI job over all hosts")
    running.add_argument("--ranks", type=int, metavar="K",
                         help="the number of ranks on each host (default: the number given to `up`)")
    mpi_job.add_options(running)
    running.add_argument("program", nargs=argparse.REMAINDER, metavar="PROGRAM ...")
    counting = add(commands, traffic, "traffic", "prints the bytes and packets that each link has carried")
    counting.add_argument("--json", action="store_true")
    add(commands, down, "down", "removes a lab and ends every process on its hosts")
    add(commands, show_all, "list", "prints the labs that are up")
    args = parser.parse_args(arguments)
    try:
        check(args)
    except Refused as error:
        parser.error(str(error))
    return args


def check(args):
    """Checks the arguments, for which it needs neither the hosts nor root."""
    if args.function is up:
        args.plan = Lab(args.name, (args.ranks,) * args.hosts, parse_rate(args.rate))
    elif "program" in args:
        mpi_job.check(args)


def main():
    args = parse(sys.argv[1:])
    reason = why_not()
    if reason:
        print(f"scripts/lab: {reason}", file=sys.stderr)
        return SKIPPED
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        return args.function(args)
    except Refused as error:
        print(f"scripts/lab: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
