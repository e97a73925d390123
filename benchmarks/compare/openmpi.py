"""Open MPI's allreduce algorithms, and the best of them for each size."""
import dataclasses
import os

from compare.contest import BenchError, Pace

# Numbers of coll_tuned_allreduce_algorithm. The linear ones are measured in a full run only.
TUNED = {3: "recursive doubling", 4: "ring", 6: "Rabenseifner", 5: "segmented ring", 2: "reduce and broadcast",
         1: "linear"}
IN_QUICK = (3, 4, 6)
SEGMENTED = 5
# Segment sizes of the segmented ring; without segments it is the plain ring.
SEGMENTS = {32 << 10: "32K", 128 << 10: "128K", 1 << 20: "1M"}
# Only the quickest setting is searched, and not by how much it is quicker. So the median of three turns is enough for
# large sizes.
PACE = Pace(seconds=0.1, least=3, warmup=1)
# Up to this size latency counts, and any algorithm may be the quickest. Above it, algorithms in which a rank sends or
# reads everything each time are not.
SMALL = 1 << 20
SHARED_MEMORY = {"OMPI_MCA_coll_sm_priority": "90"}
HIERARCHICAL = {"OMPI_MCA_coll_han_priority": "90"}
BOUND = {"OMPI_MCA_hwloc_base_binding_policy": "core"}
# A larger eager limit: a ring's blocks of some hundred kilobytes go out without rendezvous, for round trips over links
# cost time.
EAGER = {"OMPI_MCA_btl_tcp_eager_limit": str(512 << 10), "OMPI_MCA_btl_tcp_rndv_eager_limit": str(512 << 10)}


@dataclasses.dataclass(frozen=True)
class Setting:
    """A setting of Open MPI. `algorithm`: a number of TUNED, or None if the setting is more than an algorithm;
    `segment`: its bytes."""
    name: str
    env: tuple
    algorithm: int = None
    segment: int = 0

    def suits(self, ranks, size):
        """Whether the setting may be the quickest. A ring whose blocks are no longer than a segment is not
        segmented."""
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
    """The settings to try on one node. If there is a core for each rank, one of them binds ranks to cores."""
    numbers = [number for number in TUNED if number in IN_QUICK or not quick]
    found = [setting for number in numbers for setting in every_segment(number)]
    if not quick:
        found += [Setting("coll_sm", tuple(SHARED_MEMORY.items())), Setting("coll_han", tuple(HIERARCHICAL.items()))]
    if ranks <= len(os.sched_getaffinity(0)):
        found.append(Setting("bound to cores", tuple(BOUND.items())))
    return found


def on_hosts(quick):
    """The settings to try between hosts: those that ignore where ranks are, and suit runs whose links are the limit."""
    ring = tuned(4)
    eager = Setting(f"{ring.name}, eager limit of 512K", (*ring.env, *EAGER.items()))
    numbers = IN_QUICK if quick else (*IN_QUICK, SEGMENTED)
    return [*(setting for number in numbers for setting in every_segment(number)), eager]


def rules(ranks, choice):
    """A coll_tuned rules file for one communicator size, which gives the algorithm from each size on. In it 2
    stands for allreduce; behind an algorithm stand its fan-out and segment size."""
    lines = ["1", "2", "1", str(ranks), str(len(choice))]
    lines += [f"{0 if i == 0 else size} {setting.algorithm} 0 {setting.segment}"
              for i, (size, setting) in enumerate(sorted(choice.items()))]
    return "\n".join(lines) + "\n"


def screen(contest, ranks, sizes, candidates, lost, rest=0):
    """{size: its quickest Setting}. Measures each candidate once and alone, for the sizes that it suits, with the
    same `rest` as in the race."""
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
    """Contests that together run each size with its quickest setting."""
    by_size = {size: setting for size, setting in choice.items() if setting.algorithm is not None}
    contests = []
    if by_size:
        file = folder / f"coll_tuned-{ranks}.rules"
        file.write_text(rules(ranks, by_size))
        said = ", ".join(sorted({setting.name.removeprefix("coll_tuned ") for setting in by_size.values()}))
        contests.append(dataclasses.replace(
            contest, name="Open MPI, picked", setting=f"coll_tuned by size: {said}", covers=frozenset(by_size),
            env={"OMPI_MCA_coll_tuned_use_dynamic_rules": "1",
                 "OMPI_MCA_coll_tuned_dynamic_rules_filename": str(file)}))
    for other in sorted({setting for setting in choice.values() if setting.algorithm is None}, key=lambda s: s.name):
        covers = frozenset(size for size, setting in choice.items() if setting == other)
        contests.append(dataclasses.replace(contest, name=f"Open MPI, {other.name}", setting=other.name,
                                            covers=covers, env=dict(other.env)))
    return contests
