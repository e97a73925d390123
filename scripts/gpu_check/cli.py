"""The command line of gpu-check."""
import argparse
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks"))

# pylint: disable=wrong-import-position
from command_line import Parser, file_problem, printable
from gpu_check import carry
from gpu_check.check import FAILED, run_section
from gpu_check.kit import Kit, load_driver, why_no_gpu
from gpu_check.record import Record, dated
from gpu_check.sections import SECTIONS

ABOUT = """Checks and measures tutti on a machine with a GPU, which may have neither a compiler nor MPI nor a network.

    scripts/gpu-check --prepare build-gpu/carry     where tutti is built: makes a folder to carry along
    scripts/gpu-check --from build-gpu/carry        where the GPU is: within 7 minutes a table and a record

The folder takes less than 48 MiB. The machine with the GPU needs this tree beside the folder, Python 3.9, NVIDIA's
driver and x86-64. gpu-check uses NCCL and compute-sanitizer if they are installed. Each section has a time limit of its
own. gpu-check keeps the results of each section, even if later ones fail. The status is 0 if no section failed, 1 if
one did, and 77 if there is no GPU."""
NO_GPU = 77
CARRY = carry.ROOT / "build-gpu/carry"


def parse():
    parser = Parser(description=ABOUT, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--prepare", metavar="FOLDER", type=pathlib.Path,
                      help="gather what a machine with a GPU needs, in this folder, and end")
    what.add_argument("--from", metavar="FOLDER", dest="folder", type=pathlib.Path, default=CARRY,
                      help="the folder that --prepare has filled; default: build-gpu/carry")
    parser.add_argument("--build", metavar="FOLDER", type=pathlib.Path, default=carry.ROOT / "build-gpu",
                        help="for --prepare: the folder of the build, which is made if it does not exist; default: "
                             "build-gpu")
    parser.add_argument("--json", metavar="FILE", type=pathlib.Path,
                        help="the file for the record; default: one with today's date in benchmarks/results")
    parser.add_argument("--only", metavar="WORD", action="append", default=[],
                        help="run only sections with this in their names; may be given again")
    parser.add_argument("--limit", metavar="SECONDS", type=int, default=400,
                        help="time limit for all sections together; default: 400")
    parser.add_argument("--quick", action="store_true", help="measure small sizes only, to try gpu-check itself")
    parser.add_argument("--list", action="store_true", help="name the sections")
    args = parser.parse_args()
    args.sections = chosen(parser, args.only)
    return parser, args


def chosen(parser, words):
    for word in words:
        if not any(word in section.name for section in SECTIONS):
            parser.error(f"--only {word}: no section has this in its name; --list shows them")
    return [section for section in SECTIONS if not words or any(word in section.name for word in words)]


def check(args, kit):
    record = Record(args.json or dated(), kit, args.quick)
    end = time.monotonic() + args.limit
    for section in args.sections:
        print(f"{section.name} ...", flush=True)
        said, attempt = run_section(section, kit, args.quick, end - time.monotonic())
        record.add(said, attempt)
        print(f"{section.name}: {printable(said['outcome'] + ': ' + said['about'])}", flush=True)
        if "last_words" in said:
            print("".join(f"    {line}\n" for line in said["last_words"].splitlines()), flush=True)
    record.finish()
    print(f"\n{record.table()}\n\n{record.path}")
    return 1 if any(said["outcome"] == FAILED for said in record.sections) else 0


def main():
    parser, args = parse()
    if args.list:
        print("".join(f"{section.name}\n" for section in SECTIONS), end="")
        return 0
    if args.prepare:
        carry.prepare(args.prepare.resolve(), args.build.resolve())
        return 0
    driver, folder = load_driver()
    missing = why_no_gpu(driver)
    if missing:
        print(f"gpu-check: no GPU here: {missing}", file=sys.stderr)
        return NO_GPU
    try:
        return check(args, Kit(args.folder.resolve(), folder))
    except FileNotFoundError as problem:
        parser.error(f"{file_problem(problem)}; scripts/gpu-check --prepare makes that folder")
