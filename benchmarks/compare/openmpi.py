"""Open MPI's allreduce algorithms, and the best of them for each size."""
import dataclasses

from compare.contest import BenchError, Contest, Pace

# Numbers of coll_tuned_allreduce_algorithm. The linear ones are for the full run alone.
TUNED = {3: "recursive doubling", 4: "ring", 6: "Rabenseifner", 5: "segmented ring", 2: "reduce and broadcast",
         1: "linear"}
IN_QUICK = (3, 4, 6)
# What is looked for is the quickest, not by how much: large sizes have one turn.
PACE = Pace(seconds=0.1, least=1, warmup=0)
SHARED_MEMORY = {"OMPI_MCA_coll_sm_priority": "90"}
HIERARCHICAL = {"OMPI_MCA_coll_han_priority": "90"}


@dataclasses.dataclass(frozen=True)
class Setting:
    """`algorithm` is a number of TUNED, or None for one that is more than an algorithm."""
    name: str
    env: tuple
    algorithm: int = None


def settings(quick):
    tuned = [Setting(f"coll_tuned {TUNED[number]}", (("OMPI_MCA_coll_tuned_use_dynamic_rules", "1"),
                     ("OMPI_MCA_coll_tuned_allreduce_algorithm", str(number))), number)
             for number in TUNED if number in IN_QUICK or not quick]
    others = [Setting("coll_sm", tuple(SHARED_MEMORY.items())), Setting("coll_han", tuple(HIERARCHICAL.items()))]
    return tuned + ([] if quick else others)


def rules(ranks, choice):
    """A coll_tuned rules file for one communicator size: from each size on, its algorithm.
    2 is the allreduce's number there; after an algorithm follow its fan-out and segment size."""
    lines = ["1", "2", "1", str(ranks), str(len(choice))]
    lines += [f"{0 if i == 0 else size} {algorithm} 0 0" for i, (size, algorithm) in enumerate(sorted(choice.items()))]
    return "\n".join(lines) + "\n"


def flat(quick):
    """Those that look at no host and suit large sizes."""
    return [setting for setting in settings(quick) if setting.algorithm in (3, 4, 5, 6)]


def screen(contest, ranks, sizes, candidates, lost):
    """{size: its quickest Setting}, each of the candidates measured once and alone."""
    best = {}
    # The first size once before: it makes the connections.
    sizes = (sizes[0], *sizes)
    for setting in candidates:
        try:
            trial = dataclasses.replace(contest, env=dict(setting.env))
            for row in trial.race(ranks, sizes, PACE):
                if row["bytes"] not in best or row["time_us"]["p50"] < best[row["bytes"]][0]:
                    best[row["bytes"]] = (row["time_us"]["p50"], setting)
        except BenchError as error:
            lost[f"Open MPI with {setting.name}, {ranks} ranks"] = str(error)
    return {size: setting for size, (_, setting) in best.items()}


def picked(contest, ranks, choice, folder):
    """Contests that together run each size with what was best for it."""
    tuned = {size: setting.algorithm for size, setting in choice.items() if setting.algorithm is not None}
    contests = []
    if tuned:
        file = folder / f"coll_tuned-{ranks}.rules"
        file.write_text(rules(ranks, tuned))
        said = ", ".join(sorted({TUNED[number] for number in tuned.values()}))
        contests.append(dataclasses.replace(
            contest, name="Open MPI, picked", setting=f"coll_tuned by size: {said}", covers=frozenset(tuned),
            env={"OMPI_MCA_coll_tuned_use_dynamic_rules": "1", "OMPI_MCA_coll_tuned_dynamic_rules_filename": str(file)}))
    for other in sorted({setting for setting in choice.values() if setting.algorithm is None}, key=lambda s: s.name):
        covers = frozenset(size for size, setting in choice.items() if setting == other)
        contests.append(dataclasses.replace(contest, name=f"Open MPI, {other.name}", setting=other.name,
                                            covers=covers, env=dict(other.env)))
    return contests
