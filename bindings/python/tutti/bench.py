"""tutti-bench: pushpull of numpy arrays, beside mpi4py's Allreduce where that is installed.

Turn by turn in one run, so that both meet the same machine. What counts in a turn is the slowest rank's time.
"""
import importlib.util
import json
import sys
import time

import numpy as np

import tutti
from tutti_scripts.command_line import Parser, is_first_to_say, program, quiet_when_cut_off

#: Each with its name in tables and rows, which are those of allreduce_bench.
DTYPES = {"float32": "f32", "float64": "f64", "float16": "f16", "int32": "i32", "int64": "i64", "int8": "i8",
          "uint8": "u8"}
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
WARMUP, MOST_TURNS, LEAST_TURNS = 3, 1000, 5


def size(text):
    """64K as a number. argparse shows this function's name if it cannot convert a text."""
    unit = UNITS.get(text[-1:].upper(), 1)
    number = int(text[:-1] if unit > 1 else text)
    if not 1 <= number * unit <= 1 << 40:
        raise ValueError
    return number * unit


def seconds(text):
    value = float(text)
    if not 0 < value < 1e6:
        raise ValueError
    return value


def make_parser():
    parser = Parser(description="Times tutti's pushpull of numpy arrays beside mpi4py's Allreduce, "
                    "turn by turn in one run. Start it with mpirun: mpirun -n 4 tutti-bench --max-bytes 16M")
    add = parser.add_argument
    add("--impl", choices=("tutti", "mpi4py", "both"), metavar="NAME",
        help="tutti, mpi4py or both (default: both, if mpi4py is installed)")
    add("--dtype", choices=DTYPES, default="float32", metavar="NAME", help=f"{', '.join(DTYPES)} (default: float32)")
    add("--min-bytes", type=size, default=4, metavar="SIZE", help="the smallest size; K, M, G are powers of 1024 "
        "(default: 4)")
    add("--max-bytes", type=size, default=64 << 20, metavar="SIZE", help="the largest size (default: 64M)")
    add("--factor", type=int, default=4, metavar="N",
        help="the factor from one size to the next, at least 2 (default: 4)")
    add("--seconds", type=seconds, default=1.0, metavar="S",
        help="seconds for each size, tutti and mpi4py together (default: 1)")
    add("--json", metavar="FILE", help="write the rows to this file: an array with one object for each row")
    return parser


def checked(parser, given):
    if given.factor < 2:
        parser.error(f"--factor {given.factor}: it takes a whole number of at least 2")
    if given.min_bytes > given.max_bytes:
        parser.error("--min-bytes is above --max-bytes")
    if given.max_bytes < np.dtype(given.dtype).itemsize:
        parser.error(f"--max-bytes is less than an element of {given.dtype}")
    has_mpi4py = importlib.util.find_spec("mpi4py") is not None
    if given.impl in ("mpi4py", "both") and not has_mpi4py:
        parser.error(f"--impl {given.impl}: mpi4py is not installed; type: pip install mpi4py")
    if given.dtype == "float16" and given.impl in ("mpi4py", "both"):
        parser.error("MPI cannot reduce float16; use --impl tutti")
    if given.impl is None:
        given.impl = "both" if has_mpi4py and given.dtype != "float16" else "tutti"
    return given


def sizes(given):
    width = np.dtype(given.dtype).itemsize
    at = max(given.min_bytes, width)
    while at <= given.max_bytes:
        yield at // width * width
        at *= given.factor


def contestants(kv, impl):
    """{name: function of input and output}."""
    found = {}
    if impl in ("tutti", "both"):
        found["tutti"] = lambda ins, outs: kv.pushpull("bench", ins, outs).wait()
    if impl in ("mpi4py", "both"):
        from mpi4py import MPI  # pylint: disable=import-outside-toplevel
        found["mpi4py"] = MPI.COMM_WORLD.Allreduce
    return found


def meeting(kv):
    """A function by which all ranks begin together. It is MPI's barrier if mpi4py is there: a rank that polls leaves it
    at once. From the store's barrier a rank wakes up to 100 us after another.
    """
    if importlib.util.find_spec("mpi4py") is None:
        return kv.barrier
    from mpi4py import MPI  # pylint: disable=import-outside-toplevel
    return MPI.COMM_WORLD.Barrier


class Trial:
    """One size: the arrays that each contestant sums, and how long it takes."""

    def __init__(self, kv, dtype, count, meet):
        self.kv, self.meet = kv, meet
        # Sums that int8 and float16 hold exactly.
        self.ins = np.resize(np.arange(3), count).astype(dtype) + (kv.rank == 0)
        self.outs = np.zeros_like(self.ins)
        self.sums = (np.resize(np.arange(3), count) * kv.num_workers + 1).astype(dtype)

    def turn(self, call):
        """The seconds that a sum takes on this rank. All ranks begin together, up to the differences with which a
        barrier ends.
        """
        self.outs[:1] = 0
        self.meet()
        begin = time.perf_counter()
        call(self.ins, self.outs)
        took = time.perf_counter() - begin
        self.meet()
        return took

    def is_wrong(self, call):
        self.outs[:] = 0
        call(self.ins, self.outs)
        return not np.array_equal(self.outs, self.sums)

    def slowest(self, times):
        times = np.array(times)
        self.kv.pushpull("bench times", times, op="max").wait()
        return times

    def run(self, calls, limit):
        """{name: (seconds of each turn, whether a sum is wrong)}."""
        wrong = {name: bool(self.slowest([float(self.is_wrong(call))])[0]) for name, call in calls.items()}
        once = np.median([sum(self.turn(call) for call in calls.values()) for _ in range(WARMUP)])
        turns = int(np.clip(limit / max(self.slowest([once])[0], 1e-9), LEAST_TURNS, MOST_TURNS))
        times = {name: [] for name in calls}
        for _ in range(turns):
            for name, call in calls.items():
                times[name].append(self.turn(call))
        return {name: (self.slowest(of_name), wrong[name]) for name, of_name in times.items()}


def row_of(kv, name, ins, times, is_wrong):
    times = times * 1e6
    median, late = np.percentile(times, [50, 99])
    ranks, algorithm = kv.num_workers, ins.nbytes / median / 1e3
    return {"impl": name, "op": "allreduce", "dtype": DTYPES[str(ins.dtype)], "ranks": ranks, "bytes": ins.nbytes,
            "iters": len(times), "time_us": {"min": times.min(), "p50": median, "p99": late, "max": times.max(),
                                             "avg": times.mean()},
            "algbw_GBps": algorithm, "busbw_GBps": algorithm * 2 * (ranks - 1) / ranks, "wrong": is_wrong}


def print_row(row):
    if row is None:
        print(f"{'size':>12} {'type':>5}  {'impl':8} {'iters':>6} {'time':>10} {'min':>10} {'p99':>10} {'algbw':>8} "
              f"{'busbw':>8}\n{'(B)':>12} {'':5}  {'':8} {'':6} {'(us)':>10} {'(us)':>10} {'(us)':>10} {'(GB/s)':>8} "
              f"{'(GB/s)':>8}")
        return
    took = row["time_us"]
    print(f"{row['bytes']:12} {row['dtype']:>5}  {row['impl']:8} {row['iters']:6} {took['p50']:10.1f} "
          f"{took['min']:10.1f} {took['p99']:10.1f} {row['algbw_GBps']:8.3f} {row['busbw_GBps']:8.3f}"
          f"{'  WRONG' if row['wrong'] else ''}", flush=True)


def measure(kv, given):
    """Measures, and returns the rows. Rank 0 prints them as they come."""
    calls, rows, meet = contestants(kv, given.impl), [], meeting(kv)
    if kv.rank == 0:
        print(f"pushpull of {given.dtype}, {kv.num_workers} ranks; an iteration lasts as long as its slowest rank, "
              "time is the median")
        if meet == kv.barrier:
            print("without mpi4py ranks begin up to 100 us apart, which is in every time; for small sizes type: "
                  "pip install mpi4py")
        print_row(None)
    for each in sizes(given):
        trial = Trial(kv, given.dtype, each // np.dtype(given.dtype).itemsize, meet)
        for name, (times, is_wrong) in trial.run(calls, given.seconds).items():
            rows.append(row_of(kv, name, trial.ins, times, is_wrong))
            if kv.rank == 0:
                print_row(rows[-1])
    return rows


@quiet_when_cut_off
def main():
    parser = make_parser()
    given = checked(parser, parser.parse_args())
    try:
        with tutti.create("dist_sync_mpi") as kv:
            rows = measure(kv, given)
            if given.json and kv.rank == 0:
                with open(given.json, "w", encoding="utf-8") as file:
                    json.dump(rows, file, indent=1)
    except (tutti.Error, OSError) as error:
        is_misuse = isinstance(error, (tutti.InvalidArgumentError, tutti.UnsupportedError))
        if not is_misuse or is_first_to_say(str(error)):
            print(f"{program()}: {error}", file=sys.stderr)
        return 2 if is_misuse else 1
    return 1 if any(row["wrong"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
