"""Open MPI's allreduce algorithms, and the best of them for each size."""
import dataclasses
import os

from compare.contest import BenchError, Pace

# Numbers of coll_tuned_allreduce_algorithm. The linear ones are for the full run alone.
TUNED = {3: "recursive doubling", 4: "ring", 6: "Rabenseifner", 5: "segmented ring", 2: "reduce and broadcast",
         1: "linear"}
IN_QUICK = (3, 4, 6)
SEGMENTED = 5
# Of the segmented ring; with none it is the plain ring.
SEGMENTS = {32 << 10: "32K", 128 << 10: "128K", 1 << 20: "1M"}
# What is looked for is the quickest, not by how much: the median of three turns, where they are long.
PACE = Pace(seconds=0.1, least=3, warmup=1)
# Up to here latency counts, and each algorithm may be the quickest; above, not one that sends or reads everything every time.
SMALL = 1 << 20
SHARED_MEMORY = {"OMPI_MCA_coll_sm_priority": "90"}
HIERARCHICAL = {"OMPI_MCA_coll_han_priority": "90"}
BOUND = {"OMPI_MCA_hwloc_base_binding_policy": "core"}
# Messages that go out without asking first: a ring's blocks of some hundred kilobytes, over links whose round trips count.
EAGER = {"OMPI_MCA_btl_tcp_eager_limit": str(512 << 10), "OMPI_MCA_btl_tcp_rndv_eager_limit": str(512 << 10)}


@dataclasses.dataclass(frozen=True)
class Setting:
    """`algorithm` is a number of TUNED, or None for one that is more than an algorithm; `segment`: its bytes."""
    name: str
    env: tuple
    algorithm: int = None
    segment: int = 0

    def suits(self, ranks, size):
        """Whether it may be the quickest at all. A ring whose blocks are no longer than a segment is not segmented."""
        if self.algorithm == 1 or (self.algorithm == 3 and ranks > 2):
            return size <= SMALL
        return self.segment * ranks <= size


def tuned(number, segment=0):
    name = f"coll_tuned {TUNED[number]}" + (f", segments of {SEGMENTS[segment]}" if segment else "")
    env = {"OMPI_MCA_coll_tuned_use_dynamic_rules": "1", "OMPI_MCA_coll_tuned_allreduce_algorithm": str(number)}
    if segment:
        env["OMPI_MCA_coll_tuned_allreduce_algorithm_segmentsize"] = str(segment)
    return Setting(name, tuple(env.items()), number, segment)


def every_segment(number):
    return [tuned(number, segment) for segment in (SEGMENTS if number == SEGMENTED else (0,))]


def settings(quick, ranks):
    """Of one node. Where each rank may have a core of its own, one is that it has."""
    numbers = [number for number in TUNED if number in IN_QUICK or not quick]
    found = [setting for number in numbers for setting in every_segment(number)]
    if not quick:
        found += [Setting("coll_sm", tuple(SHARED_MEMORY.items())), Setting("coll_han", tuple(HIERARCHICAL.items()))]
    if ranks <= len(os.sched_getaffinity(0)):
        found.append(Setting("bound to cores", tuple(BOUND.items())))
    return found


def on_hosts(quick):
    """Those that look at no host and suit what links hold up."""
    ring = tuned(4)
    eager = Setting(f"{ring.name}, eager limit of 512K", (*ring.env, *EAGER.items()))
    numbers = IN_QUICK if quick else (*IN_QUICK, SEGMENTED)
    return [*(setting for number in numbers for setting in every_segment(number)), eager]


def rules(ranks, choice):
    """A coll_tuned rules file for one communicator size: from each size on, its algorithm.
    2 is the allreduce's number there; after an algorithm follow its fan-out and segment size."""
    lines = ["1", "2", "1", str(ranks), str(len(choice))]
    lines += [f"{0 if i == 0 else size} {setting.algorithm} 0 {setting.segment}"
              for i, (size, setting) in enumerate(sorted(choice.items()))]
    return "\n".join(lines) + "\n"


def screen(contest, ranks, sizes, candidates, lost, rest=0):
    """{size: its quickest Setting}, each of the candidates measured once and alone, for the sizes that it suits, with
    the same `rest` as in the race."""
    best, pace = {}, dataclasses.replace(PACE, rest=rest)
    for setting in candidates:
        try:
            covers = frozenset(size for size in sizes if setting.suits(ranks, size))
            trial = dataclasses.replace(contest, env=dict(setting.env), covers=covers)
            for row in trial.race(ranks, sizes, pace):
                if row["wrong"] == 0 and (row["bytes"] not in best or row["time_us"]["p50"] < best[row["bytes"]][0]):
                    best[row["bytes"]] = (row["time_us"]["p50"], setting)
        except BenchError as error:
            lost[f"Open MPI with {setting.name}, {ranks} ranks"] = str(error)
    return {size: setting for size, (_, setting) in best.items()}


def picked(contest, ranks, choice, folder):
    """Contests that together run each size with what was best for it."""
    by_size = {size: setting for size, setting in choice.items() if setting.algorithm is not None}
    contests = []
    if by_size:
        file = folder / f"coll_tuned-{ranks}.rules"
        file.write_text(rules(ranks, by_size))
        said = ", ".join(sorted({setting.name.removeprefix("coll_tuned ") for setting in by_size.values()}))
        contests.append(dataclasses.replace(
            contest, name="Open MPI, picked", setting=f"coll_tuned by size: {said}", covers=frozenset(by_size),
            env={"OMPI_MCA_coll_tuned_use_dynamic_rules": "1", "OMPI_MCA_coll_tuned_dynamic_rules_filename": str(file)}))
    for other in sorted({setting for setting in choice.values() if setting.algorithm is None}, key=lambda s: s.name):
        covers = frozenset(size for size, setting in choice.items() if setting == other)
        contests.append(dataclasses.replace(contest, name=f"Open MPI, {other.name}", setting=other.name,
                                            covers=covers, env=dict(other.env)))
    return contests
