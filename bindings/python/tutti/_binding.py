"""Checks whether mpirun left this process the cores that it wants."""
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


def warning(allowed):
    """The warning if these are the processors that this process may use; nothing if all is well."""
    bound_by_mpirun = os.environ.get("OMPI_MCA_orte_bound_at_launch") == "1"
    if not bound_by_mpirun or not allowed <= threads_of(min(allowed)) or threads_wanted() <= len(allowed):
        return None
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
