"""How many threads the libraries of a worker get where nobody has said it: left alone, each worker of a host would
start one for each of its processors. A part of what runs on other hosts."""
import os
import re

VARIABLE = "OMP_NUM_THREADS"
# A job that sets one of these has chosen. OpenMP's, MKL's, OpenBLAS's and BLIS's.
CHOICES = (VARIABLE, "MKL_NUM_THREADS", "MKL_DOMAIN_NUM_THREADS", "OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS",
           "BLIS_NUM_THREADS", "BLIS_JC_NT", "BLIS_PC_NT", "BLIS_IC_NT", "BLIS_JR_NT", "BLIS_IR_NT")
GROUPS = "/sys/fs/cgroup"


def numbers_in(path):
    """The numbers of a file, None for each other word; none of a file that cannot be read."""
    try:
        with open(path, encoding="ascii") as file:
            return [int(word) if word.lstrip("-").isdecimal() else None for word in file.read().split()]
    except (OSError, UnicodeDecodeError):
        return []


def quota_of(group, version):
    """How many processors a control group may keep busy, or None."""
    if version == 2:
        told = numbers_in(f"{GROUPS}{group}/cpu.max")
    else:
        told = [*numbers_in(f"{GROUPS}/cpu{group}/cpu.cfs_quota_us"),
                *numbers_in(f"{GROUPS}/cpu{group}/cpu.cfs_period_us")]
    if len(told) != 2 or not told[0] or not told[1] or told[0] < 0:
        return None
    return told[0] / told[1]


def quota(lines):
    """The smallest quota of this process's control groups and of those above them, or None. `lines`: of
    /proc/self/cgroup."""
    found = []
    for line in lines:
        number, controllers, group = line.rstrip("\n").split(":", 2)
        version = 2 if number == "0" else 1
        if version == 1 and "cpu" not in controllers.split(","):
            continue
        while True:
            found.append(quota_of(group.rstrip("/"), version))
            if group in ("", "/"):
                break
            group = os.path.dirname(group)
    return min(filter(None, found), default=None)


def own_quota():
    try:
        with open("/proc/self/cgroup", encoding="ascii", errors="replace") as file:
            return quota(file)
    except OSError:
        return None


def share(own, all_here, workers, limit):
    """`own`: processors that this worker may use; `all_here`: that all workers here may use together; `limit`: the
    quota of all, or None. A worker that is bound to some of them has its share already."""
    room = all_here if limit is None else min(all_here, limit)
    return max(1, min(own, int(room // workers)))


def tasks_of(text, node):
    """How many tasks Slurm has on a node by SLURM_TASKS_PER_NODE, such as 4(x2),3."""
    counts = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d+)(?:\(x(\d+)\))?", part)
        if not match:
            return 0
        counts += [int(match[1])] * int(match[2] or 1)
    return counts[node] if node < len(counts) else 0


def whole_number(name, otherwise=0):
    text = os.environ.get(name, "")
    return int(text) if text.isdecimal() else otherwise


def company(told, part):
    """(how many workers there are on this host, how many processors all have together or None), by whatever started
    them; 0 workers: not known. `part`: of workers among all processes."""
    if "workers_here" in told:
        return told["workers_here"], None
    if "OMPI_COMM_WORLD_LOCAL_SIZE" in os.environ:
        return -int(-whole_number("OMPI_COMM_WORLD_LOCAL_SIZE") * part // 1), None
    if "SLURM_PROCID" in os.environ:
        tasks = tasks_of(os.environ.get("SLURM_TASKS_PER_NODE", ""), whole_number("SLURM_NODEID"))
        return tasks, whole_number("SLURM_CPUS_ON_NODE") or None
    if "SGE_TASK_ID" in os.environ:  # a slot is a processor
        return 1, whole_number("NSLOTS", 1)
    return 0, None


def set_share(told, parent):
    """Sets the variable of the command. Returns its value; 0: it is left alone. `parent`: what started this process,
    which is bound to no part of what the workers have together."""
    workers_of_job = told["groups"][0]["count"]
    if workers_of_job < 2 or any(os.environ.get(name) for name in CHOICES):
        return 0
    workers, together = company(told, workers_of_job / sum(group["count"] for group in told["groups"]))
    if workers == 0:
        return 0
    own = len(os.sched_getaffinity(0))
    try:
        all_here = together or max(own, len(os.sched_getaffinity(parent)))
    except OSError:  # it is gone
        all_here = own
    count = share(own, all_here, workers, own_quota())
    os.environ[VARIABLE] = str(count)
    return count
