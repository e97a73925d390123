"""Checks whether mpirun left this process the cores that it wants, and whether the ranks of a machine want more than it
has.
"""
import os

QUIET = ("off", "critical", "error")
said = False  # whether this process has been warned


def threads_of(core):
    """The processors that are hardware threads of the same core as this one."""
    try:
        with open(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list", encoding="ascii") as file:
            spans = [span.partition("-") for span in file.read().strip().split(",")]
        return {number for first, _, last in spans for number in range(int(first), int(last or first) + 1)}
    except (OSError, ValueError):
        return {core}


def threads_wanted():
    """OMP_NUM_THREADS, whose first number is for the outermost level. Without it, one thread for each processor."""
    first = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    return int(first) if first.isdigit() else os.cpu_count() or 1


def is_bound():
    return os.environ.get("OMPI_MCA_orte_bound_at_launch") == "1"


def crowding(allowed):
    """The hint if the ranks of this machine start more threads together than it has processors, and nobody has chosen
    that; nothing otherwise. numpy starts a thread for each processor that the process may use.
    """
    workers = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE", "1"))
    if workers < 2:
        return None
    from tutti_scripts.launcher import threads  # pylint: disable=import-outside-toplevel  # import tutti stays quick
    if any(os.environ.get(name) for name in threads.CHOICES):
        return None
    own = len(allowed)
    share = threads.share(own, os.cpu_count() or own if is_bound() else own, workers, threads.own_quota())
    if share >= own:
        return None
    return (f"each of the {workers} ranks of this machine starts {own} threads of BLAS and OpenMP; start mpirun with "
            f"-x OMP_NUM_THREADS={share}, which is a rank's share of the processors, or with "
            f"-x OMP_NUM_THREADS={own} if so many are meant")


def warning(allowed):
    """The warning if these are the processors that this process may use; nothing if all is well."""
    if not is_bound() or not allowed <= threads_of(min(allowed)) or threads_wanted() <= len(allowed):
        return crowding(allowed)
    return (f"mpirun has bound each rank to one core, which the {threads_wanted()} threads of numpy and others there "
            "share; start mpirun with --bind-to none, or set OMP_NUM_THREADS=1 if one thread is meant")


def warn(log_level):
    """Logs one line for each machine, from the first rank on it, however many stores it creates."""
    global said  # pylint: disable=global-statement
    if said or os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK") != "0":
        return
    text = warning(os.sched_getaffinity(0))
    if text and (log_level or os.environ.get("TUTTI_LOG")) not in QUIET:
        said = True
        import logging  # pylint: disable=import-outside-toplevel  # import tutti stays quick
        logging.getLogger("tutti").warning("tutti: %s", text)
