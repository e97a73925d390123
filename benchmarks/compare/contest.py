"""A contest is one program that is started on a number of ranks and leaves rows."""
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import signal
import subprocess
import tempfile

LIMIT = 900
GRACE = 5  # seconds for a program to end by itself


class BenchError(Exception):
    """A program could not be measured."""


@dataclasses.dataclass(frozen=True)
class Pace:
    """A size is measured for `seconds`, but for at least `least` turns. Before each turn nothing is sent for `rest` ms.
    """
    seconds: float
    least: int
    warmup: int
    rest: float = 0

    def words(self):
        return ["--seconds", str(self.seconds), "--least", str(self.least), "--warmup", str(self.warmup),
                "--rest", f"{self.rest:g}"]


@dataclasses.dataclass(frozen=True)
class Launcher:
    """Starts a program on ranks of this machine with an mpirun; `env`: variables which that mpirun needs."""
    words: tuple = ("mpirun",)
    env: dict = dataclasses.field(default_factory=dict)

    def line(self, ranks, program):
        return [*self.words, "-n", str(ranks), *map(str, program)]


def open_mpi():
    """Open MPI with its defaults, except that it allows more ranks than cores. In that case it yields by itself."""
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}
    return Launcher(env={"OMPI_MCA_rmaps_base_oversubscribe": "1",
                         "OMPI_MCA_hwloc_base_binding_policy": "none", **root})


@dataclasses.dataclass(frozen=True)
class Contest:
    """A program to measure. `names`: {impl of a row: who it is}. `covers`: the sizes for which it is run;
    `most_ranks`: the most ranks; None: all. A contest that is not `needed` may fail: it is then left out, and the
    reason is given."""
    name: str
    setting: str
    program: tuple
    launcher: Launcher
    names: dict
    env: dict = dataclasses.field(default_factory=dict)
    covers: frozenset = None
    needed: bool = False
    most_ranks: int = None
    limit: float = LIMIT  # limit of a run, in seconds

    def sizes_of(self, sizes):
        return [size for size in sizes if self.covers is None or size in self.covers]

    def race(self, ranks, sizes, pace):
        """Returns rows of these sizes, except those that the contest does not cover."""
        mine = self.sizes_of(sizes)
        return self.run(ranks, ["--bytes", ",".join(map(str, mine)), *pace.words()]) if mine else []

    def run(self, ranks, options):
        """Runs the program. Returns its rows, each with the contest, its setting, and what the program said about
        its library."""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "rows.json")
            line = self.launcher.line(ranks, [*self.program, *options, "--json", file])
            said = execute(line, {**self.launcher.env, **self.env}, lambda: rows_of(file), self.limit)
            rows = rows_of(file)
        if not rows:
            raise BenchError(f"{' '.join(map(str, line))}: ended well, and left no rows")
        facts = facts_of(said)
        for row in rows:
            row.update(who=self.names[row["impl"]] + (", shared" if row.get("shared") else ""),
                       contest=self.name, setting=self.setting, facts=facts)
        return rows


def environment(more):
    """This process's environment, with those settings of tutti and its peers alone that the contest names."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("OMPI_MCA_", "I_MPI_", "HOROVOD_", "TUTTI_"))}
    return {**kept, **more}


def execute(line, env, rows, limit=LIMIT):
    """Runs a program and returns its output. A program that ends with status 1 and leaves rows has found wrong
    sums, which the rows tell."""
    try:
        process = subprocess.Popen(line, env=environment(env), text=True, errors="replace", stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    except OSError as error:
        raise BenchError(f"cannot start {line[0]}: {error.strerror}") from None
    try:
        out, err = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        end(process)
        raise BenchError(f"{' '.join(line)}: still running after {limit} s") from None
    except BaseException:
        end(process)
        raise
    if process.returncode != 0 and not any(row["wrong"] for row in rows()):
        raise BenchError(f"{' '.join(line)}: ended with {process.returncode}: {last_words(err or out)}")
    return out


def end(process, grace=GRACE):
    """Ends a program: first by SIGTERM, for mpirun then ends its ranks, wherever they are; then by SIGKILL."""
    try:
        os.killpg(process.pid, signal.SIGTERM)
        process.communicate(timeout=grace)
    except (ProcessLookupError, subprocess.TimeoutExpired):
        pass
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def last_words(text):
    """The last lines of an error output: the program's own lines, or, if it printed none, the lines that mpirun puts
    between dashes."""
    own, _, framed = re.sub(r"^-{20,}$", "\0", text, flags=re.MULTILINE).partition("\0")
    lines = [line.strip() for line in (own.strip() or framed.replace("\0", "")).splitlines() if line.strip()]
    return " / ".join(lines[-4:]) or "it said nothing"


def rows_of(file):
    """The rows in a file. A program that leaves one object has one row."""
    try:
        read = json.loads(file.read_text())
    except (OSError, ValueError):
        return []
    return [{"impl": "tutti", **read}] if isinstance(read, dict) else read


def facts_of(said):
    """{"mpi_yield_when_idle": "true", ...}: the facts in lines "# name: value"."""
    return dict(re.findall(r"^# ([^:\n]+): (.*)$", said, re.MULTILINE))
