"""Lists the ways in which a rank can go wrong, the stages of a job, and the result that each case must have."""
import dataclasses
import itertools
import random
import re
import sys

from jobs import Job, mpirun

# A pattern for the keys that a survivor's line lists as in flight when the rank goes wrong.
NOTHING = r"no key is in flight on rank \d+"
IN_MPI = "no key was in flight"
CREATING = CLOSING = f"{IN_MPI}|{NOTHING}"
GRADIENT, WEIGHT, SHARES, REPLAYED = (rf"; in flight on rank \d+: .*'{key}'"
                                      for key in ("gradient", "weight", "shares", "replayed"))
# The log's line, which the rank may have written when mpirun ends it, names keys alone.
RECEIVING = rf"{NOTHING}; between two ranks: recv from rank \d+ with tag 0"
# Submitted tensors may move while the rank dies.
STAGES = {"start": IN_MPI, "duplicate": CREATING, "compare": CREATING, "connect": CREATING, "reserve": CREATING,
          "second": CREATING, "idle": NOTHING, "late": GRADIENT, "submitted": f"{GRADIENT}|{WEIGHT}|{NOTHING}",
          "replayed": REPLAYED, "reading": GRADIENT, "writing": GRADIENT, "broadcast": WEIGHT, "exchanged": SHARES,
          "barrier": rf"in flight on rank \d+: a barrier|{NOTHING}", "join": NOTHING, "recv": NOTHING,
          "sending": NOTHING, "close": CLOSING, "closing": "", "closed": ""}
# The exit code of the rank itself, as a shell and the launcher say it; a stopped one is killed in the end.
WAYS = {"kill": 137, "segv": 139, "abort": 134, "term": 143, "oom": 137, "terminate": 134, "exit0": 0, "exit3": 3,
        "vanish": 0, "throw": 1, "stop": 137}
CREATE_STAGES = ("duplicate", "compare", "connect", "reserve", "second")
LATE_STAGES = ("closing", "closed")
# Ways and stages in which no other machine learns of a rank that is alone on its own.
UNSEEN = (("stop", "duplicate"), ("stop", "compare"), ("stop", "second"), ("exit0", "second"))
# Ends in which the store is closed in order, so that the rank is not lost: it leaves.
ORDERLY = ("exit0", "throw")
OVER_WITHIN = 5.0
CREATE_SECONDS, HEARTBEAT_SECONDS, KEY_SECONDS, THEN_OVER_WITHIN = 2.0, 2.0, 4.0, 3.0
# Under mpirun, some tries may end the survivors before one of them prints anything. This is the largest part of such
# tries: 10 of 198 in a whole run, and an allowance for chance.
MOST_EXCUSED = 0.1
# The time that a job may take to come to its stage, and the time for which it is watched beyond the time that it is
# allowed.
START_WITHIN, WATCHED_FOR = 60, 2


@dataclasses.dataclass(frozen=True)
class Case:
    """`runner` is mpirun, launcher, or a layout of hosts."""
    runner: str
    ranks: int
    victim: int
    how: str
    stage: str

    def __str__(self):
        return ":".join(map(str, dataclasses.astuple(self)))

    @staticmethod
    def parse(text):
        runner, ranks, victim, how, stage = text.split(":")
        return Case(runner, int(ranks), int(victim), how, stage)

    def survivors(self):
        return set(range(self.ranks)) - {self.victim}

    def leaves(self):
        """Whether the rank ends in order, so that no other rank loses it. While a store closes, only an exit with 0 is
        orderly."""
        return self.how in ORDERLY and (self.stage, self.how) != ("closing", "throw")

    def names_it(self):
        """A pattern in what a survivor says."""
        if self.is_unseen():
            return f"(timeout|internal): .*rank {self.victim} is not seen from here"
        if self.ends_unseen():
            return (rf"rank {self.victim} is lost|"
                    rf"MPI_Finalize for .*rank {self.victim} is not seen from here.*key_timeout")
        if self.stage == "start":
            named = rf"rank {self.victim} has not called create|rank {self.victim} is lost: .* in MPI_Init"
            if "x" not in self.runner:
                return named
            # Nobody can know which ranks are on another machine, or which ranks of this machine have not come.
            return f"{named}|{called_create(max(1, self.on_host() - 1), self.on_host())}"
        if not self.leaves():
            return rf"rank {self.victim} is lost"
        if self.stage in CREATE_STAGES:
            return rf"rank {self.victim} (is lost: |has left the store)"
        return rf"(key '\w+'|barrier|join|recv of [^:]*): rank {self.victim} has left"

    def on_host(self):
        """The number of ranks of a machine, if there are several machines."""
        return int(self.runner.partition("x")[2])

    def misses_nobody(self, rank, line):
        """Whether a rank of another machine can only say this while it waits for MPI to start: all its own ranks have
        come."""
        return (self.stage == "start" and "x" in self.runner
                and rank // self.on_host() != self.victim // self.on_host()
                and called_create(self.on_host(), self.on_host()) in line)

    def ends_well(self):
        """Whether the job ends well, because that rank has done all its work."""
        return self.how == "exit0" and self.stage in ("close", "closing", "closed")

    def is_unseen(self):
        """It stops, or ends in order, alone on its machine before the ranks of a store are connected: the others wait
        until create_timeout."""
        return self.runner == "2x1" and (self.how, self.stage) in UNSEEN

    def ends_unseen(self):
        """It stops alone on its machine when the others may have closed their stores: they wait in MPI_Finalize until
        key_timeout."""
        return self.runner == "2x1" and self.how == "stop" and self.left_in_peace()

    def in_flight(self):
        """The keys that a survivor's line names. Ranks that idle go on before they know of a rank that is stopped."""
        if self.leaves() or self.is_unseen() or self.ends_unseen():
            return ""
        if self.runner == "launcher" and self.stage in ("recv", "sending"):
            return RECEIVING
        return GRADIENT if (self.stage, self.how) == ("idle", "stop") else STAGES[self.stage]

    def left_in_peace(self):
        """The others may have closed their stores before they could know. Rank 0 alone waits until all have."""
        return self.stage in LATE_STAGES or (self.stage == "close" and (self.leaves() or self.victim == 0))

    def over_within(self, slowness):
        if self.stage == "start" or self.is_unseen():
            return CREATE_SECONDS + THEN_OVER_WITHIN * slowness
        if self.ends_unseen():
            # mpirun wakes the stopped rank, which may be in its own close, and ends it.
            return KEY_SECONDS + OVER_WITHIN * slowness
        if self.how == "stop":
            return HEARTBEAT_SECONDS + THEN_OVER_WITHIN * slowness
        return OVER_WITHIN * slowness


def called_create(count, ranks):
    return f"{count} of {ranks} ranks have called create on this machine"


class Harness:
    """Runs cases. `slowness`: how many times as long everything takes, as under sanitizers."""

    def __init__(self, victim, launcher, on_hosts, slowness):
        self.victim, self.launcher, self.on_hosts, self.slowness = victim, launcher, on_hosts, slowness

    def words(self, case, env):
        program = [self.victim, str(case.victim), case.how, case.stage]
        if case.runner == "mpirun":
            return mpirun(case.ranks, *program)
        if case.runner == "launcher":
            return [sys.executable, self.launcher, "--mode", "mpi", "--launcher", "local", "-n", str(case.ranks),
                    *program]
        return [self.on_hosts, *(f"--env={name}={value}" for name, value in env.items()), case.runner, *program]

    def run(self, case):
        env = {}
        if case.stage == "start" or case.is_unseen():
            env["TUTTI_CREATE_SECONDS"] = str(CREATE_SECONDS)
        if case.ends_unseen():
            env["TUTTI_TIMEOUT_SECONDS"] = str(KEY_SECONDS)
        if case.how == "stop":
            env["TUTTI_HEARTBEAT_SECONDS"] = str(HEARTBEAT_SECONDS)
        if case.how == "stop" or case.is_unseen():
            # mpirun's daemon on another host takes three times this, a second each, to end a rank that is stopped or in
            # MPI_Finalize.
            env["OMPI_MCA_odls_base_sigkill_timeout"] = "0" if "x" in case.runner else "1"
        watched = case.over_within(self.slowness) + WATCHED_FOR
        return Job(self.words(case, env), limit=START_WITHIN * self.slowness, limit_when_wrong=watched, **env)

    def judge(self, case, job):
        """Returns (the problem, whether only mpirun has caused it)."""
        problem = ending_problem(case, job, self.slowness)
        if problem or case.ends_well():
            return problem, False
        problem = naming_problem(case, job)
        if problem:
            return problem, case.runner != "launcher" and ended_by_mpirun(case, job)
        return launcher_problem(case, job, self.slowness) if case.runner == "launcher" else None, False


def ending_problem(case, job, slowness):
    if not job.lines(rf"rank {case.victim} \(process \d+\) goes wrong"):
        return "the rank did not go wrong"
    if job.lived_on > case.over_within(slowness):
        return f"over {job.lived_on:.1f} s later, not within {case.over_within(slowness):g} s"
    if job.lines("got a wrong|dead store"):
        return "a wrong sum, or a dead store that lives"
    if case.ends_well():
        return None if job.code == 0 else f"ended with {job.code} after an orderly end"
    # If a rank ends with 0 when the others have received everything, no rank loses it. Only mpirun wants each rank to
    # finalise MPI.
    unharmed = case.runner == "launcher" and case.how == "vanish" and case.left_in_peace()
    if unharmed and finished(case, job, case.survivors()):
        return None
    return "ended with 0" if job.code == 0 else None


def said_by_survivors(case, job):
    """Yields (rank, the error that it logged or caught)."""
    speaks = re.compile(r"tutti\[rank (\d+)\] (?:error|critical): |\brank (\d+) caught ")
    for line in job.output.splitlines():
        found = speaks.search(line)
        rank = int(found[1] or found[2]) if found else None
        if rank in case.survivors():
            yield rank, line[found.end():]


def finished(case, job, ranks):
    return all(job.lines(rf"\brank {rank} finished, and its sums were right") for rank in ranks)


def naming_problem(case, job):
    """The problem if no survivor has said which rank it misses and what was in flight, or if one blames another rank.
    """
    said = [line for _, line in said_by_survivors(case, job)]
    for line in said:
        lost = re.search(r"rank (\d+) is lost", line)
        if lost and int(lost[1]) != case.victim and not has_gone(int(lost[1]), case, job):
            return f"a survivor blames rank {lost[1]}"
    if case.left_in_peace() and not case.ends_unseen() and finished(case, job, case.survivors()):
        return None
    named = [line for line in said if re.search(case.names_it(), line)]
    if not named:
        return f"no survivor said '{case.names_it()}'"
    flight = case.in_flight()
    return None if any(re.search(flight, line) for line in named) else f"no survivor said '{flight}'"


def was_ended(rank, job):
    """Whether mpirun ended the rank. It ends all ranks when one has gone wrong, and to others that rank is lost, too.
    """
    return bool(job.lines(rf"\brank {rank} was ended by SIGTERM"))


def has_gone(rank, case, job):
    """Whether the rank has gone, so that others lose it. Before mpirun ends all ranks, it wakes the stopped one. That
    rank then loses those that have ended because of it, and tells its machine."""
    knew = job.lines(rf"\brank {rank} caught peer_lost: rank {case.victim} is lost")
    told = job.lines(rf"tutti\[rank {case.victim}\] (error|critical): rank {rank} is lost")
    return bool(case.how == "stop" and knew and told) or was_ended(rank, job)


def ended_by_mpirun(case, job):
    """Every survivor that could have known, before it said anything. Where one dies at the start, some may not have
    begun."""
    ended = {rank for rank in case.survivors() if was_ended(rank, job)}
    silent = {rank for rank in case.survivors() if case.stage == "start" and not job.lines(rf"\brank {rank}\b")}
    said = list(said_by_survivors(case, job))
    if not all(case.misses_nobody(rank, line) for rank, line in said):
        return False
    elsewhere = {rank for rank, _ in said}
    return bool(ended) and ended | silent | elsewhere == case.survivors()


def launcher_problem(case, job, slowness):
    """Every survivor ends by itself, and the launcher says who was the first."""
    for rank in case.survivors():
        if not job.lines(rf"\brank {rank} (caught|finished)") and case.stage != "start":
            return f"rank {rank} did not end by itself"
    if case.how != "stop" and job.lines("launch.py: ending worker"):
        return "the launcher had to end a worker"
    # In the thread beside a close nothing catches the exception.
    status = WAYS["terminate" if (case.stage, case.how) == ("closing", "throw") else case.how]
    if status and case.how != "stop" and case.stage != "start":
        if not job.lines(rf"launch.py: worker {case.victim} on .* was the first to fail"):
            return "the launcher names another worker as the first to fail"
        # A sanitizer ends what a signal would with a code of its own.
        if slowness == 1 and job.code != status:
            return f"the launcher ended with {job.code}, not {status}"
    return None


def at_random(chance, runner, how, stage, most_ranks=8):
    ranks = chance.randint(2, most_ranks)
    return Case(runner, ranks, chance.choice([0, ranks // 2, ranks - 1]), how, stage)


def quick_cases(seed, count=27):
    """Every stage and every way at least once, by turns under mpirun and the launcher."""
    chance = random.Random(seed)
    stages, ways = list(STAGES), list(WAYS)
    chance.shuffle(stages)
    chance.shuffle(ways)
    return [at_random(chance, ("mpirun", "launcher")[i % 2], ways[i % len(ways)], stages[i % len(stages)],
                      8 if i % 9 == 0 else 4) for i in range(count)]


def all_cases(seed):
    """Every stage in every way, under both."""
    chance = random.Random(seed)
    cases = [at_random(chance, runner, how, stage)
             for runner, how, stage in itertools.product(("mpirun", "launcher"), WAYS, STAGES)]
    chance.shuffle(cases)
    return cases


def unseen_cases():
    alone = [Case("2x1", 2, victim, how, stage) for how, stage in itertools.product(WAYS, STAGES) for victim in (0, 1)]
    return [case for case in alone if case.is_unseen() or case.ends_unseen()]


def host_cases(seed, count):
    chance = random.Random(seed)
    stages, ways = [stage for stage in STAGES if stage != "connect"], list(WAYS)
    cases = []
    for i in range(count):
        layout, ranks = (("2x1", 2), ("2x2", 4))[i % 2]
        cases.append(Case(layout, ranks, chance.randrange(ranks), chance.choice(ways), chance.choice(stages)))
    return cases
