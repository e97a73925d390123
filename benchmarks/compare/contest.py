"""A contest: one program that is started on so many ranks and leaves rows."""
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
GRACE = 5  # seconds, to end by oneself


class BenchError(Exception):
    """A program could not be measured."""


@dataclasses.dataclass(frozen=True)
class Pace:
    """How long a size is measured: at least so many turns, each behind so many ms of rest, and on until the time is
    over."""
    seconds: float
    least: int
    warmup: int
    rest: float = 0

    def words(self):
        return ["--seconds", str(self.seconds), "--least", str(self.least), "--warmup", str(self.warmup),
                "--rest", f"{self.rest:g}"]


@dataclasses.dataclass(frozen=True)
class Launcher:
    """Starts a program on ranks of this machine with an mpirun; `env` is what that one needs."""
    words: tuple = ("mpirun",)
    env: dict = dataclasses.field(default_factory=dict)

    def line(self, ranks, program):
        return [*self.words, "-n", str(ranks), *map(str, program)]


def open_mpi():
    """As it comes, but for what more ranks than cores need; it yields by itself where that is so."""
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}
    return Launcher(env={"OMPI_MCA_rmaps_base_oversubscribe": "1",
                         "OMPI_MCA_hwloc_base_binding_policy": "none", **root})


@dataclasses.dataclass(frozen=True)
class Contest:
    """`names` tells who each row is, by its impl; `covers` the sizes that it is run for, `most_ranks` up to how many
    ranks; None for all.
    One that is not `needed` may fail: then it is left out, with the reason."""
    name: str
    setting: str
    program: tuple
    launcher: Launcher
    names: dict
    env: dict = dataclasses.field(default_factory=dict)
    covers: frozenset = None
    needed: bool = False
    most_ranks: int = None
    limit: float = LIMIT  # seconds that a run may take

    def sizes_of(self, sizes):
        return [size for size in sizes if self.covers is None or size in self.covers]

    def race(self, ranks, sizes, pace):
        """Rows of these sizes, fewer where it does not cover them."""
        mine = self.sizes_of(sizes)
        return self.run(ranks, ["--bytes", ",".join(map(str, mine)), *pace.words()]) if mine else []

    def run(self, ranks, options):
        """Rows, each with the contest, its setting, and what the program said about its library."""
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
    """This process's, without other settings of tutti or a peer than those that a contest names."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(("OMPI_MCA_", "I_MPI_", "HOROVOD_", "TUTTI_"))}
    return {**kept, **more}


def execute(line, env, rows, limit=LIMIT):
    """What the program said. One that ends with 1 and leaves rows has found wrong sums, which they tell."""
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
    """Asks first, for mpirun ends its ranks, wherever they are; then kills whoever is left."""
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
    """The program's own, before those that mpirun puts between lines of dashes, where there are any."""
    own, _, framed = re.sub(r"^-{20,}$", "\0", text, flags=re.MULTILINE).partition("\0")
    lines = [line.strip() for line in (own.strip() or framed.replace("\0", "")).splitlines() if line.strip()]
    return " / ".join(lines[-4:]) or "it said nothing"


def rows_of(file):
    """A program that leaves one object has one row."""
    try:
        read = json.loads(file.read_text())
    except (OSError, ValueError):
        return []
    return [{"impl": "tutti", **read}] if isinstance(read, dict) else read


def facts_of(said):
    """{"mpi_yield_when_idle": "true", ...} of the lines "# name: value"."""
    return dict(re.findall(r"^# ([^:\n]+): (.*)$", said, re.MULTILINE))
