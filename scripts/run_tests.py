#!/usr/bin/env python3
"""Builds tutti and runs its tests and checks; scripts/test calls this with its tier, or with parts of the full one."""
import concurrent.futures
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time

import test_parts
from command_line import Parser
from test_parts import CLANG_DEBUG, GCC, ROOT, without

CHECKS = "scripts/checks"
SKIPPED = 77
CORES = len(os.sched_getaffinity(0))
# Most tests wait more than they compute. Beside each other they get more time.
AT_ONCE, SLOWER_THEN = str(2 * CORES), "2"
# Lines of a failed test that are repeated at the end.
SAID_AGAIN = 60
# Before a command that is to take what processor time others leave, where the system can do that. With autogroups the
# niceness of a session counts, too.
LEFT_OVER = ("sh", "-c", '{ echo 19 >/proc/self/autogroup; } 2>/dev/null; '
             'chrt --idle 0 true 2>/dev/null || exec "$@"; exec chrt --idle 0 "$@"', "sh")
OUTCOMES = {"OK": "ok", "EXPECTEDFAIL": "ok", "SKIP": "skipped"}


def reason(said):
    """Why a test was skipped, by its last word on that."""
    return next((line for line in reversed(said.splitlines()) if "skipped: " in line), "it does not say why")


class Tally:
    """Counts the tests that passed, failed and were skipped. At the end it prints the output of the failed, and why
    others were skipped.
    """

    def __init__(self):
        self.passed, self.skipped, self.failed = 0, [], []

    def record(self, name, outcome, said=""):
        if outcome == "ok":
            self.passed += 1
        elif outcome == "skipped":
            self.skipped.append((name, said))
        else:
            self.failed.append((name, said))

    def conclude(self):
        # A log is often kept from its end only, so what failed has to be found there.
        for name, said in self.failed:
            lines = said.strip().splitlines()
            print("\n".join(["", f"-- {name}", *lines[-SAID_AGAIN:]]))
        if self.failed:
            print("\nFailed:\n  " + "\n  ".join(name for name, _ in self.failed))
        if self.skipped:
            print("\n" + "\n".join(f"{name}: {reason(said)}" for name, said in self.skipped))
            print(f"{len(self.skipped)} skipped: they cannot run here")
        print(f"{self.passed} passed, {len(self.failed)} failed", flush=True)
        return 1 if self.failed or not self.passed else 0


def run(words, env, limit, stream=False, started=lambda process: None):
    """Runs words in the root. Returns (exit status, what it said unless streamed)."""
    with subprocess.Popen(words, cwd=ROOT, env={**os.environ, **env}, text=True, errors="replace",
                          stdin=subprocess.DEVNULL, start_new_session=not stream,
                          stdout=None if stream else subprocess.PIPE,
                          stderr=None if stream else subprocess.STDOUT) as process:
        started(process)
        try:
            said, _ = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            if stream:
                process.kill()
            else:
                os.killpg(process.pid, signal.SIGKILL)
            said, _ = process.communicate()
            return 1, (said or "") + f"\nstill running after {limit} s: ended"
    return process.returncode, said or ""


@dataclasses.dataclass(frozen=True)
class Step:
    """A check, which counts as one test: commands that run one after the other until one fails."""
    name: str
    commands: tuple
    env: dict = dataclasses.field(default_factory=dict)
    limit: int = 1200
    # Before each command where it runs beside the tests.
    beside: tuple = LEFT_OVER

    def run(self, stream=False):
        """Returns (exit status, what was said unless streamed, seconds)."""
        return self.run_with(lambda words: run(words, self.env, self.limit, stream))

    def run_aside(self, started):
        """Without a limit: how long it takes is up to those beside it, which have theirs."""
        return self.run_with(lambda words: run([*self.beside, *words], self.env, None, False, started))

    def run_with(self, run_one):
        start = time.monotonic()
        for words in self.commands:
            status, said = run_one(words)
            if status != 0:
                break
        return status, said, time.monotonic() - start

    def report(self, tally, status, said, seconds):
        """Says how it went, with the text of what failed. Returns whether it went well."""
        outcome = {0: "ok", SKIPPED: "skipped"}.get(status, "FAILED")
        tally.record(self.name, outcome, said)
        lines = said.strip().splitlines()
        if outcome == "FAILED":
            print("\n".join(lines))
        last = f": {lines[-1]}" if outcome != "FAILED" and lines else ""
        print(f"   {outcome} ({seconds:.1f} s){last}", flush=True)
        return outcome == "ok"


def now(tally, step, stream=False):
    """Runs a step. Returns whether it went well."""
    print(f"-- {step.name}", flush=True)
    return step.report(tally, *step.run(stream))


def build(wanted, *targets):
    """Configures a build folder and builds the targets, or everything."""
    configured = (ROOT / wanted.folder / "build.ninja").exists()
    setup = ("meson", "setup", *(["--reconfigure"] if configured else []), wanted.folder, "-Dwerror=true",
             *wanted.options)
    return Step(wanted.what, (setup, ("ninja", "-C", wanted.folder, "-j", str(CORES), *targets)),
                wanted.compiler, limit=3600)


class Aside:
    """Steps that run one after the other beside others."""

    def __init__(self, *steps):
        self.lock, self.process, self.over = threading.Lock(), None, False
        self.pool = concurrent.futures.ThreadPoolExecutor(1)
        self.runs = {step.name: (step, self.pool.submit(step.run_aside, self.started)) for step in steps}

    def started(self, process):
        with self.lock:
            self.process = process
            if self.over:
                self.end()

    def end(self):
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Nothing outlives an interrupted run."""
        self.pool.shutdown(wait=False, cancel_futures=True)
        with self.lock:
            self.over = True
            self.end()

    def finished(self, tally, name):
        """Waits for a step. Returns whether it went well."""
        print(f"-- {name}, beside others", flush=True)
        step, outcome = self.runs[name]
        return step.report(tally, *outcome.result())


def result_logs(where):
    """The results that meson has written of its last run. Their name has the wrapper's name, too, if there is one."""
    return list((ROOT / where.folder / "meson-logs").glob("testlog*.json"))


def read_results(logs):
    """[(name, result, what it said)] from meson's logs, one JSON object a line."""
    entries = (json.loads(line) for log in logs for line in log.read_text(errors="replace").splitlines())
    return [(entry["name"], entry["result"],
             entry.get("stdout", "") + entry.get("stderr", "")) for entry in entries]


def meson_tests(tally, where, *selection):
    """Runs the tests of a build folder; meson shows them one by one, and a failed one's output."""
    print(f"-- tests in {where.folder}", flush=True)
    for log in result_logs(where):
        log.unlink()
    command = ["meson", "test", "-C", where.folder, "--no-rebuild", "--print-errorlogs", *selection]
    status, _ = run(command, where.test_env, limit=None, stream=True)
    results = read_results(result_logs(where))
    before = len(tally.failed)
    for name, result, said in results:
        tally.record(f"{name} in {where.folder} ({result})", OUTCOMES.get(result, "FAILED"), said)
    if not results or (status != 0 and len(tally.failed) == before):
        tally.record(f"meson test in {where.folder} ended without a result", "FAILED")


def house_rules():
    return [Step("files are where they belong", ([f"{CHECKS}/layout.py"],)),
            Step("modules use only what lib/DESIGN.md lists", ([f"{CHECKS}/modules.py"],)),
            Step("no two types of the library have one name", ([f"{CHECKS}/type_names.py"],)),
            Step("Python's tables have what C++ offers", ([f"{CHECKS}/contract.py"],)),
            Step("tests are named after what MXNet's scripts are promised", ([f"{CHECKS}/mxnet_contract.py"],)),
            Step("sources are formatted", ([f"{CHECKS}/format.sh"],)),
            Step("public headers compile alone", ([f"{CHECKS}/public_headers.py"],))]


def checks_by_clang(*checks):
    """Steps that check sources, as (name, command), in a folder that clang is configured in and that has the headers
    which are generated. The first step prepares the folder."""
    folder = build(CLANG_DEBUG, "generated-headers")
    before = folder.commands
    for name, command in checks:
        yield Step(name, (*before, command), folder.env, limit=3600)
        before = ()


def syntax():
    return "clang finds nothing in the library, thread safety included", [f"{CHECKS}/clang_syntax.py"]


def tidy(*words):
    return "clang-tidy finds nothing", [f"{CHECKS}/tidy.py", *words]


def packages():
    """With an equal share of the processors, because g++ leaves no time of theirs."""
    return Step("the tests' packages are installed", (["scripts/setup", "--tests"],), beside=())


def quick(tally):
    rest = packages()
    checks = [*house_rules(), *checks_by_clang(syntax(), tidy())]
    with Aside(rest) as installing:
        built = now(tally, build(GCC), stream=True)
        if not installing.finished(tally, rest.name):
            return
    with Aside(*checks) as aside:
        if built:
            meson_tests(tally, GCC, *without("slow", "rare"), "--num-processes", AT_ONCE, "-t", SLOWER_THEN)
        for check in checks:
            aside.finished(tally, check.name)


def planted():
    return Step("planted bugs are found", (["test/planted/planted.py"],), limit=2400)


def checks_of(part):
    """The steps of a part that are no tests of a build."""
    if part.name == "sources":
        return [*house_rules(), *checks_by_clang(tidy("--all"))]
    return [planted()] if part.name == "planted" else []


def run_part(tally, part, built):
    """`built` waits for a build, and says whether it went well."""
    print(f"== {part.name}: {part.what}", flush=True)
    for step in checks_of(part):
        now(tally, step)
    for chosen in part.selections:
        if built(chosen.build):
            # The words of a sanitizer's build say how much slower it is.
            beside = () if "-t" in chosen.words else ("--num-processes", AT_ONCE, "-t", SLOWER_THEN)
            meson_tests(tally, chosen.build, *chosen.words, *beside)


def run_parts(tally, parts):
    """Runs those that have not passed on these inputs."""
    inputs, to_run = test_parts.inputs(), []
    for part in parts:
        before = part.passed_before(inputs)
        if before is None:
            to_run.append(part)
        else:
            print(f"== {part.name}: {before} tests passed on these inputs before", flush=True)
            tally.passed += before
    builds = {where.folder: build(where, *targets) for part in to_run for where, targets in part.builds}
    first, *others = builds.values() if builds else [None]
    known = {}
    with Aside(*others) as aside:
        def built(where):
            step = builds[where.folder]
            if step.name not in known:
                known[step.name] = now(tally, step, stream=True) if step is first else aside.finished(tally, step.name)
            return known[step.name]

        for part in to_run:
            passed, failed = tally.passed, len(tally.failed)
            run_part(tally, part, built)
            if len(tally.failed) == failed:
                part.keep(inputs, tally.passed - passed)


def main():
    parser = Parser(description=__doc__)
    parser.add_argument("tier", metavar="TIER", choices=("quick", "full"), help="the tests to run: quick or full")
    names = [part.name for part in test_parts.PARTS]
    parser.add_argument("--part", metavar="NAME", choices=names,
                        help=f"run only this part of the full tier: {', '.join(names)}")
    args = parser.parse_args()
    for ending in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(ending) == signal.SIG_DFL:
            signal.signal(ending, signal.default_int_handler)
    tally = Tally()
    if args.tier == "quick":
        quick(tally)
    else:
        run_parts(tally, [part for part in test_parts.PARTS if args.part in (None, part.name)])
    return tally.conclude()


if __name__ == "__main__":
    sys.exit(main())
