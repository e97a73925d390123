"""Reports the end of a job, and makes an exit code of it."""
import signal

from launcher.output import say
from launcher.worker import lost_in_turn

# Of a server: the job was over, it was ended by SIGTERM, it could not begin. Else its last state may be missing.
WELL, TERMINATED, MISUSED = 0, 128 + signal.SIGTERM, 2


def conclude(job):
    """Names what went wrong, last of all. Returns the exit code."""
    if job.door.turned_away:
        say(f"{job.door.turned_away:,} connections were turned away, because they did not prove in time that they "
            f"know this job's token; the first came from {job.door.first_origin}")
    unwritten = name_unwritten(job)
    if job.impossible:
        say(job.impossible)
        return 1
    if job.failed:
        return conclude_failure(lost_in_turn(job.workers, job.failed))
    if job.signal:
        say(f"ended by {signal.Signals(job.signal).name}")
        return 128 + job.signal
    lost = next((worker.lost for rank, worker in job.workers.items() if rank < job.request.workers
                 and worker.lost in job.workers and not worker.lost_left), None)
    if lost is not None:
        say(f"the others lost {job.workers[lost].name()}, though it {job.workers[lost].fate()}")
        return 1
    return conclude_starter(job) or int(unwritten)


def has_written(server):
    """Whether a server left its last state behind. A server that has lost another process does so, too, and then fails.
    """
    return server.status in (WELL, TERMINATED, MISUSED) or server.status == 1 and server.lost is not None


def name_unwritten(job):
    """Says which servers have not left their last state behind; whether there are any. Durable ones have it on the
    disk all the time."""
    folder = job.request.state_folder
    if folder is None or job.request.survives or job.variables is None:
        return False
    servers = [worker for worker in job.workers.values() if worker.title.startswith("server")]
    unwritten = [server for server in servers if not has_written(server)]
    for server in unwritten:
        say(f"{server.name()} ended before it had written its state: {folder} may have an earlier state")
    return bool(unwritten)


def conclude_failure(chain):
    """The last of them that ended badly was the first to fail. One that it had lost and that ended well is
    named beside it."""
    first = next(worker for worker in reversed(chain) if worker.status != 0)
    text = f"{first.name()} was the first to fail: it {first.fate()}."
    if first is not chain[-1]:
        text += f" It had lost {chain[-1].name()}, which {chain[-1].fate()}."
    say(text + (" Its last lines:" if first.last else " It had printed nothing."), first.last)
    return first.code()


def conclude_starter(job):
    well = [worker for rank, worker in job.workers.items()
            if worker.status == 0 and rank < job.request.workers]
    missing = job.request.workers - len(well)
    if missing or job.process.returncode:
        code = job.process.returncode
        say(f"{job.starter.name} ended with {code}, and {missing} of {job.request.workers} workers "
            "did not end well or never started; what it said is above")
        return code if code > 0 else 128 - code if code < 0 else 1
    return 0
