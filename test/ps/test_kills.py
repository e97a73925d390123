#!/usr/bin/env python3
"""Whichever process of a job is ended, at whatever time and in whatever way: no hang, and every survivor says who.

    test_kills.py TUTTI_SERVER STEPS quick|all|CASE [unittest options]

`quick` tries some cases, the same each time; `all` every phase and role, and the ways in turn. A case that fails prints
what tries it again. test/unit/ps/scheduler/ends_test.cc ends each process after each message, on a scheduler that is
simulated.
"""
import concurrent.futures
import dataclasses
import itertools
import os
import random
import re
import signal
import sys
import time
import unittest

from processes import Job

SERVER, STEPS, TIER = sys.argv[1:4]
#: What workers do when it happens, and what a survivor says to have been under way.
PHASES = {"start": "", "init": r"init of key 'key\d+'", "push": "push of key '(small|large)'",
          "pull": "pull of key '(small|large)'", "pushpull": "pushpull of key 'large'", "barrier": "a barrier",
          "end": ""}
ROLES = ("worker", "server", "scheduler")
WAYS = {"kill": signal.SIGKILL, "term": signal.SIGTERM, "stop": signal.SIGSTOP}
NOTHING = "no call was under way"
CREATE_SECONDS, HEARTBEAT_SECONDS = 3, 1
#: The sanitizers slow everything down.
SLOWNESS = 3 if "ASAN_OPTIONS" in os.environ or "TSAN_OPTIONS" in os.environ else 1
OVER_WITHIN = 5 * SLOWNESS
AT_ONCE = 3


@dataclasses.dataclass(frozen=True)
class Case:
    phase: str
    role: str
    way: str

    def __str__(self):
        return ":".join(dataclasses.astuple(self))

    def over_within(self):
        """The longest time that survivors may wait: for heartbeats, and for processes that have not come to a job."""
        return OVER_WITHIN + (CREATE_SECONDS + 2 if self.phase == "start" else 0) + \
            (HEARTBEAT_SECONDS if self.way == "stop" else 0)

    def names_it(self, pid):
        """A pattern in what a worker says."""
        if self.phase == "start":
            if self.role == "scheduler":
                return r"the scheduler (at \S+ )?is lost|the scheduler at \S+"
            # The servers have registered by then, and the worker has not.
            came = rf".*server 1 came and went: .*\(process {pid} on \S+\)" if self.role == "server" else ""
            return rf"the scheduler gave up waiting(?: for [^:]*)?: \d of 2 workers and \d of 2 servers{came}|" + \
                rf"{self.role} \d is lost: .*\(process {pid} on \S+\)"
        if self.role == "scheduler":
            return r"the scheduler (at \S+ )?is lost"
        return rf"{self.role} 1 is lost: .*\(process {pid} on \S+\)"


def run(case):
    """(the job, its victim, when each survivor has ended, or None)."""
    job = Job(SERVER, STEPS, workers=3 if case.phase == "barrier" else 2, servers=2,
              TUTTI_CREATE_SECONDS=str(CREATE_SECONDS if case.phase == "start" else 20),
              TUTTI_HEARTBEAT_SECONDS=str(HEARTBEAT_SECONDS * SLOWNESS), PS_VERBOSE="1")
    servers = [job.start_server(rank) for rank in range(2)]
    if not all(one.wait_for("is connected to the scheduler") for one in servers):
        return job, servers[1], None
    workers = job.start_workers("dist_sync", case.phase, 0 if case.phase in ("start", "end") else 1_000_000, 5000)
    victim = {"worker": workers[1], "server": servers[1], "scheduler": job.scheduler}[case.role]
    # Worker 0 closes its store at once, the others a second later.
    ready = workers[0].wait_for("closes its store" if case.phase == "end" else f" is in {case.phase}")
    if not ready:
        return job, victim, None
    if case.phase not in ("start", "end"):
        time.sleep(0.1)
    victim.send(WAYS[case.way])
    deadline = time.monotonic() + case.over_within()
    survivors = [one for one in job.started if one is not victim]
    ends = {one: one.end(max(0.1, deadline - time.monotonic())) for one in survivors}
    return job, victim, ends


def problem_of(case, victim, ends):
    """The problem of the case, if there is one."""
    if ends is None:
        return "the job did not come to its phase"
    late = [one.title for one, code in ends.items() if code is None]
    if late:
        return f"not over within {case.over_within()} s: {', '.join(late)}"
    if case.way == "term" and case.role != "worker":
        code = victim.end(OVER_WITHIN)
        if code not in ((143, -15) if case.role == "server" else (1, -15)):
            return f"the {case.role} ended with {code} after SIGTERM"
    for one, code in ends.items():
        if one.title.startswith("worker"):
            problem = problem_of_worker(case, victim, one, code)
            if problem:
                return f"{one.title}: {problem}"
        elif code not in (0, 1):
            return f"{one.title} ended with {code}"
    return None


def may_miss(case, worker):
    """Worker 0 has closed its store by then; and who is stopped is missed when the others may have closed theirs."""
    return case.phase == "end" and (worker.title == "worker 0" or case.way == "stop")


def problem_of_worker(case, victim, worker, code):
    if may_miss(case, worker) and code == 0:
        return None  # It had all it waited for.
    if code != 42:
        return f"ended with {code}"
    caught = re.search("caught .*", worker.text)[0]
    if not re.search(case.names_it(victim.process.pid), caught):
        return f"it does not say '{case.names_it(victim.process.pid)}'"
    under_way = PHASES[case.phase]
    if under_way and not re.search(f"{under_way}|{NOTHING}", caught):
        return f"it does not say '{under_way}'"
    # Nobody goes on for long without the part of one that is stopped.
    waits = (case.role, case.way) == ("worker", "stop") and case.phase in ("init", "push", "pushpull", "barrier")
    return f"it does not say '{under_way}'" if waits and NOTHING in caught else None


def all_cases():
    ways = itertools.cycle(("kill", "term", "stop", "term", "stop", "kill", "stop", "kill", "term"))
    return [Case(phase, role, next(ways)) for phase, role in itertools.product(PHASES, ROLES)]


def quick_cases(seed=1):
    """Every phase, role and way at least once."""
    chance = random.Random(seed)
    phases, roles, ways = (chance.sample(list(names), len(names)) for names in (PHASES, ROLES, WAYS))
    return [Case(phases[i % len(phases)], roles[i % len(roles)], ways[(i + i // len(ROLES)) % len(ways)])
            for i in range(10)]


def chosen():
    if ":" in TIER:
        return [Case(*TIER.split(":"))]
    return quick_cases() if TIER == "quick" else all_cases()


class Kills(unittest.TestCase):
    def attempt(self, case):
        job, victim, ends = run(case)
        try:
            problem = problem_of(case, victim, ends)
            self.assertIsNone(problem, f"{problem}; again: {' '.join(['python3', *sys.argv[:3], str(case)])}\n{job}")
        finally:
            job.close()

    def test_the_job_is_soon_over_and_every_survivor_says_who_was_ended(self):
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            results = [(case, pool.submit(self.attempt, case)) for case in chosen()]
            for case, result in results:
                with self.subTest(case=str(case)):
                    result.result()


class Untold(unittest.TestCase):
    def test_a_worker_that_has_heard_of_no_loss_ends_with_status_1(self):
        job = Job(SERVER, STEPS)
        self.addCleanup(job.close)
        job.start_server(0)
        workers = [job.start("worker", [STEPS, "dist_sync", phase, 1, 1000], rank)
                   for rank, phase in enumerate(("unseen", "barrier"))]
        self.assertTrue(all(one.wait_for(" is in ") for one in workers), str(job))
        workers[1].kill()
        self.assertEqual(workers[0].end(), 1, str(job))
        self.assertIn("finished, and all values were right", workers[0].text)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
