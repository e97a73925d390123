"""The command line, and the order of things: measure, judge, print, keep."""
import argparse
import dataclasses
import pathlib
import shutil
import signal
import sys

from compare import emulated, lab, machine, mxnet, negotiation, node, plot, ps, python, pytorch, record, scaling
from compare import staleness, table, targets, training
from compare.contest import BenchError

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from command_line import Parser  # pylint: disable=wrong-import-position

SUITES = {"node": node, "negotiation": negotiation, "lab": lab, "training": training,
          "python": python, "pytorch": pytorch, "mxnet": mxnet, "ps": ps, "scaling": scaling, "staleness": staleness}
ON_HOSTS = ("lab", "training", "ps", "scaling", "pytorch")
PARTS = {suite: tuple(module.PARTS) for suite, module in SUITES.items() if hasattr(module, "PARTS")}
# Minutes for a whole suite, or a part of one, with all peers installed, on two processors.
MINUTES = {"node": 15, "negotiation": 7, "training": 12, "python": 8, "mxnet": 20, "scaling": 6, "staleness": 5,
           "links": 15, "ranks": 16, "wire": 2, "one-host": 10, "beside": 12, "apart": 12, "collectives": 22,
           "exchange": 24, "exchange-apart": 3}
ENDED_BY = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclasses.dataclass(frozen=True)
class Request:
    """The request on the command line. A suite replaces None by its own value."""
    suite: str
    quick: bool
    rounds: int
    ranks: tuple
    sizes: tuple
    out: pathlib.Path
    build: pathlib.Path
    peers_python: str
    mxnet_python: str
    only: str = None
    links: emulated.Links = emulated.Links()
    part: str = ""  # the part of the suite that is measured


def size(text):
    """The bytes that a text such as "64K" means."""
    factor = UNITS.get(text[-1:].upper(), 1)
    try:
        value = int(text[:-1] if factor > 1 else text) * factor
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: a size is a whole number, with K, M or G") from None
    if value < 4 or value % 4:
        raise argparse.ArgumentTypeError(f"{text}: a size is a multiple of 4 bytes, those of an f32")
    return value


def links(text):
    """The links that a text such as "1gbit" means."""
    try:
        rate = emulated.hosts.parse_rate(text)
    except emulated.hosts.Refused as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    if rate is None:
        raise argparse.ArgumentTypeError("a rate is needed: without one, links have no bound with which to compare")
    return emulated.Links(rate)


def positive(text):
    if not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text}: it takes a whole number above 0")
    return int(text)


def listed(one):
    return lambda text: tuple(one(word) for word in text.split(","))


def refuse_unused(parser, request):
    """Refuses values that a part of the suite would ignore."""
    for part, module in parts_of(request):
        where = f"suite {request.suite}" + (f", part {part.part}," if part.part else "")
        for field, most in getattr(module, "MOST_VALUES", {}).items():
            option = {"sizes": "--bytes", "ranks": "--ranks"}[field]
            if len(getattr(request, field) or ()) > most:
                takes = "has its own" if most == 0 else "takes one value"
                parser.error(f"{option}: {where} {takes}"
                             + ("; --only chooses another part" if part.part and not request.only else ""))


def options():
    parser = Parser(
        prog="compare.py",
        description=__doc__.replace("The command line, and the order of things:", "Runs tutti and its peers in turn:"),
        epilog="Peers: Open MPI comes with the build. Install the others into the environment of --peers-python. Intel "
               "MPI: pip install impi-rt impi-devel. Gloo and PyTorch's DDP: pip install torch. Horovod: pip install "
               "horovod beside torch; pip builds it for the MPI whose mpicxx comes first, which must be Open MPI's. "
               "MXNet 1.9.1: pip install numpy==1.23.5 mxnet==1.9.1 with Python 3.10 or 3.11, into the environment of "
               "--mxnet-python. Suite python: pip install . mpi4py, into the environment of --peers-python. Suite "
               "mxnet: pip install ., beside MXNet. Suite pytorch: pip install ., beside torch. Suites lab, training, "
               "ps, scaling and pytorch's part exchange-apart make emulated hosts, for which they need root. The exit "
               "status is 0 if everything was measured, whether or not targets were reached; 1 if a sum is wrong; 2 if "
               "tutti could not be measured.")
    parser.add_argument("--suite", choices=sorted(SUITES), required=True)
    parser.add_argument("--only", choices=[part for parts in PARTS.values() for part in parts],
                        help="measure only this part of the suite: " + "; ".join(f"{', '.join(parts)} (of {suite})"
                                                                    for suite, parts in PARTS.items()))
    parser.add_argument("--quick", action="store_true",
                        help="take about a minute for each part: 3 rounds, fewer sizes, short turns; with PyTorch, "
                             "Horovod or MXNet it takes longer, because every rank loads them anew in each round")
    parser.add_argument("--rounds", type=positive,
                        help="the number of interleaved rounds, over which medians are taken (5; 3 with --quick)")
    parser.add_argument("--ranks", type=listed(positive),
                        help="the numbers of ranks, or of hosts in suites with emulated hosts, such as 2,4,8 "
                             "(default: the suite's own)")
    parser.add_argument("--bytes", type=listed(size), help="the sizes, such as 4,64K,16M (default: the suite's own)")
    parser.add_argument("--rate", type=links,
                        help="the rate of the emulated hosts' links, such as 500mbit (default: 1gbit)")
    parser.add_argument("--out", type=pathlib.Path,
                        help="the folder for JSON and plots (default: benchmarks/results; with --quick BUILD/compare)")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build-release",
                        help="the folder of the build that is measured (default: build-release)")
    parser.add_argument("--peers-python", default=sys.executable, metavar="PATH",
                        help="a Python whose environment has the peers (default: the one that runs this program)")
    parser.add_argument("--mxnet-python", metavar="PATH",
                        help="a Python whose environment has MXNet (default: that of --peers-python)")
    return parser


def parse(words):
    parser = options()
    given = parser.parse_args(words)
    if given.only and given.only not in PARTS.get(given.suite, ()):
        parser.error(f"--only {given.only}: suite {given.suite} has "
                     + (f"the parts {', '.join(PARTS[given.suite])}" if given.suite in PARTS else "no parts"))
    if given.rate and given.suite not in ON_HOSTS:
        parser.error(f"--rate is of emulated hosts' links, which suite {given.suite} has none of")
    build = given.build.resolve()
    request = Request(given.suite, given.quick, given.rounds or (3 if given.quick else 5), given.ranks, given.bytes,
                      given.out or (build / "compare" if given.quick else ROOT / "benchmarks/results"),
                      build, found(given.peers_python), found(given.mxnet_python or given.peers_python), given.only,
                      given.rate or emulated.Links())
    refuse_unused(parser, request)
    return request


def found(program):
    return shutil.which(program) or program


def parts_of(request):
    """(request, module) for each part that is to be measured."""
    suite = SUITES[request.suite]
    parts = getattr(suite, "PARTS", {"": suite})
    return [(dataclasses.replace(request, part=name), part) for name, part in parts.items()
            if request.only in (None, name)]


def check_build(build):
    """Checks that there is a build. It does not build: a build that somebody waits for should show its own progress and
    errors."""
    if not (build / "benchmarks").is_dir():
        raise BenchError(f"{build} has no benchmarks. Build them: meson setup {build} --buildtype=release "
                         f"-Dtests=false && ninja -C {build}")


def duration(request):
    """Returns a line that says how long a whole run takes, or an empty one for a reduced run."""
    if request.quick or request.ranks or request.sizes:
        return ""
    minutes = sum(MINUTES[part.part or part.suite] for part, _ in parts_of(request)) * request.rounds / 5
    return f"# this takes about {minutes:.0f} minutes; --quick takes less, and judges nothing\n"


def show(request, before, outcome):
    """Prints the outcome and writes it to files. Returns how many elements were wrong."""
    outcome.verdicts = targets.trusted(outcome.verdicts, outcome.rows)
    document = record.document(request, before, outcome)
    print(table.of_outcome(outcome))
    files = record.write(request, document)
    files += plot.write(files[0].with_suffix(""), outcome)
    print("\nKept: " + ", ".join(str(file) for file in files) + "\n", flush=True)
    return sum(row["wrong"] for row in outcome.rows)


def measure(request, module, described):
    """Measures one part. Also measures what else uses the processors: before it, and for shared cores after it too.
    Returns how many elements were wrong."""
    busy = machine.busy_processors()
    shared = machine.shared_cores()
    print(machine.busy_text(busy), machine.shared_text(shared), sep="\n", flush=True)
    began = machine.times()
    outcome = module.measure(request)
    stolen = round(began.since(machine.times()).stolen, 3)
    seen = {"busy_processors_before": busy, "stolen": stolen, "shared_cores": [shared, machine.shared_cores()]}
    return show(request, {**described, **seen}, outcome)


class Ended(BaseException):
    """A signal ended the run: programs that run are ended and emulated hosts removed."""


def raise_ended(number, _):
    """Ignores further signals, because another one would leave hosts behind."""
    for ignored in ENDED_BY:
        signal.signal(ignored, signal.SIG_IGN)
    raise Ended(number)


def main(words):
    request = parse(words)
    for number in ENDED_BY:
        if signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores SIGHUP
            signal.signal(number, raise_ended)
    wrong = 0
    try:
        check_build(request.build)
        described = machine.describe(request.build)
        print(machine.text(described), machine.build_text(described["build_type"]) + duration(request), sep="\n",
              end="", flush=True)
        for part, module in parts_of(request):
            wrong += measure(part, module, described)
    except BenchError as error:
        print(f"compare.py: {error}", file=sys.stderr)
        return 2
    except Ended as ended:
        print(f"compare.py: ended by {signal.Signals(ended.args[0]).name} before all was measured", file=sys.stderr)
        return 128 + ended.args[0]
    if wrong:
        print(f"{wrong:.0f} elements are wrong", file=sys.stderr)
    return 1 if wrong else 0
