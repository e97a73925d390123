"""Which processes run on one machine, whatever its names are."""
import collections

from launcher.networks import name_of, resolved


def are_one(host, other):
    """Whether two names of the host file lead to one machine, as far as is known here."""
    return {address for _, address in resolved(host)} & {address for _, address in resolved(other)}


def merged(placement):
    """[(host, processes there)] without a second name of a host."""
    found = []
    for host, count in placement:
        at = next((i for i, (other, _) in enumerate(found) if are_one(host, other)), None)
        if at is None:
            found.append((host, count))
        else:
            found[at] = (found[at][0], found[at][1] + count)
    return found


def fits(placement, counts):
    """`counts`: of the processes on each machine. In mode ps the placement says nothing of servers."""
    if sum(count for _, count in placement) == sum(counts):
        return sorted(count for _, count in placement) == sorted(counts)
    return len(placement) == len(counts)


def name_of_several(workers, whole):
    """The name that several hosts of these workers have for Open MPI, or None. `whole`: it does not cut names at the
    first dot."""
    nodes_named = collections.defaultdict(set)
    for worker in workers:
        name = worker.host.lower()
        nodes_named[name if whole else name.partition(".")[0]].add(worker.node)
    return next((name for name, found in nodes_named.items() if len(found) > 1), None)


def problem_of(placement, workers):
    """How processes lie together that were meant for several hosts, or None. `placement`: [(host, workers there)], none
    where the hosts were not chosen here."""
    there = collections.defaultdict(list)
    for worker in sorted(workers, key=lambda worker: worker.rank):
        there[worker.node].append(worker)
    counts = [len(each) for each in there.values()]
    if not placement or fits(placement, counts) or not all(resolved(host) for host, _ in placement):
        return None  # two names that ssh alone knows may be those of one host
    if fits(merged(placement), counts):
        return None
    most = max(there.values(), key=len)
    return (f"the job was meant for {len(placement)} hosts, {', '.join(host for host, _ in placement)}, and runs on "
            f"{len(there)}: {', '.join(worker.title for worker in most)} are on {most[0].host}. mpirun took one host "
            "for another; give each an address or a name of its own in the host file")
