#!/usr/bin/env python3
"""Builds tutti and runs its tests and checks; scripts/test calls this with its tier."""
import concurrent.futures
import dataclasses
import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

from command_line import Parser

ROOT = pathlib.Path(__file__).resolve().parents[1]
CHECKS = "scripts/checks"
CLANG = {"CXX": "ccache clang++-14"}
# The sanitizers see the tests under many times their usual run time.
SLOWER = "5"
SKIPPED = 77
CORES = len(os.sched_getaffinity(0))
# Lines of a failed test that are repeated at the end.
SAID_AGAIN = 60
# Before a command that is to take what processor time others leave, where the system can do that. With autogroups the
# niceness of a session counts, too.
LEFT_OVER = ("sh", "-c", '{ echo 19 >/proc/self/autogroup; } 2>/dev/null; '
             'chrt --idle 0 true 2>/dev/null || exec "$@"; exec chrt --idle 0 "$@"', "sh")
OUTCOMES = {"OK": "ok", "EXPECTEDFAIL": "ok", "SKIP": "skipped"}


@dataclasses.dataclass(frozen=True)
class Build:
    """A build folder, how it is configured, and the environment of the tests that run in it."""
    folder: str
    what: str
    options: tuple
    compiler: dict
    test_env: dict = dataclasses.field(default_factory=dict)


# The tests run in folders of their own: build/ is the user's, and what is measured is a release build. What a debugger
# needs takes a third of the compilers' time, and only the sanitizers' reports use it.
UNDEBUGGED = ("-Dbuildtype=debugoptimized", "-Ddebug=false")
# -O2 takes a fifth, and most tests take longer to compile than to run. The builds without some part have its warnings.
# With the CUDA toolkit, where there is one: tests play a GPU. The other builds have the stub.
GCC = Build("build-test", "g++ builds it without warnings",
            (*UNDEBUGGED, "-Doptimization=1", "-Dtests=true", "-Dbenchmarks=true", "-Dexamples=true",
             "-Dcuda=auto"), {})
CLANG_DEBUG = Build("build-clang", "clang builds it without warnings, thread safety included",
                    ("-Dbuildtype=debug", "-Ddebug=false"), CLANG)
WITHOUT_MPI = Build("build-without-mpi", "it builds without MPI, for stores of one process",
                    (*UNDEBUGGED, "-Dmpi=disabled"), {})
WITHOUT_SERVERS = Build("build-without-ps", "it builds without the parameter server",
                        (*UNDEBUGGED, "-Dps=disabled"), {})
RELEASE = Build("build-release", "g++ builds without warnings what users get who say nothing", (), {})
# Under the sanitizers too, asking for more memory than there is ends in an error of ours. The vptr check probes memory
# through a pipe; where a test has used up all descriptors it finds every vptr invalid.
ASAN = Build("build-asan", "it builds for the address and undefined-behaviour sanitizers",
             ("-Dbuildtype=debugoptimized", "-Db_sanitize=address,undefined", "-Db_lundef=false", "-Doptimization=1",
              "-Dcuda=auto",
              "-Dcpp_args=-fno-sanitize-recover=undefined -fno-sanitize=vptr"), CLANG,
             {"ASAN_OPTIONS": "allocator_may_return_null=1",
              "LSAN_OPTIONS": f"suppressions={ROOT}/test/lsan.supp:print_suppressions=0",
              "UBSAN_OPTIONS": "print_stacktrace=1"})
# What Open MPI never frees is told by who asked for it, on stacks that take long to follow.
ASAN_WITH_MPI = dataclasses.replace(ASAN, test_env={
    **ASAN.test_env, "ASAN_OPTIONS": f"fast_unwind_on_malloc=0:{ASAN.test_env['ASAN_OPTIONS']}"})
TSAN = Build("build-tsan", "it builds for the thread sanitizer",
             ("-Dbuildtype=debugoptimized", "-Db_sanitize=thread", "-Db_lundef=false", "-Doptimization=1",
              "-Dcuda=auto"), CLANG,
             {"TSAN_OPTIONS": f"suppressions={ROOT}/test/tsan.supp:history_size=4:"
                              "print_suppressions=0:allocator_may_return_null=1"})

# A sanitizer takes long with many ranks on few cores. Of 9 are the leaders that do not hear of each other in one round.
CROWDED = [word for ranks in range(6, 9) for word in ("--no-suite", f"ranks-{ranks}")]
# Where few jobs with servers are tried: they take long, and use MPI in no build.
FEW_SERVERS = [word for one in ("unit", "threads", "mpi", "batch", "excerpt", "python") for word in ("--suite", one)]


def reason(said):
    """Why a test was skipped, by its last word on that."""
    return next((line for line in reversed(said.splitlines()) if "skipped: " in line), "it does not say why")


class Tally:
    """What passed, failed and was skipped; at the end what the failed said, and why others were skipped."""

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

    def run(self, stream=False):
        """Returns (exit status, what was said unless streamed, seconds)."""
        return self.run_with(lambda words: run(words, self.env, self.limit, stream))

    def run_aside(self, started):
        """Without a limit: how long it takes is up to those beside it, which have theirs."""
        return self.run_with(lambda words: run([*LEFT_OVER, *words], self.env, None, False, started))

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
    """Steps that run one after the other beside the tests, with the processor time that these leave."""

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
        print(f"-- {name}, beside the tests", flush=True)
        step, outcome = self.runs[name]
        return step.report(tally, *outcome.result())


def result_logs(where):
    """What meson has written of its last run; it is named after the wrapper, too, where there is one."""
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


def other_tests(tally, aside):
    """The tests of the full tier's other builds."""
    if aside.finished(tally, RELEASE.what):
        # Nobody tries MXNet with -O3: its tests take long, and little of that is spent in the library.
        meson_tests(tally, RELEASE, *FEW_SERVERS, "--no-suite", "slow", "--no-suite", "fault", "--no-suite", "mxnet",
                    "--no-suite", "compare", "--no-suite", "scripts")
    if aside.finished(tally, WITHOUT_MPI.what):
        meson_tests(tally, WITHOUT_MPI, *FEW_SERVERS, "--no-suite", "slow", "--no-suite", "scripts")
    if aside.finished(tally, WITHOUT_SERVERS.what):
        meson_tests(tally, WITHOUT_SERVERS, "--no-suite", "slow", "--suite", "unit", "--suite", "ranks-1", "--suite",
                    "ranks-3", "--suite", "python", "--no-suite", "compare", "--no-suite", "scripts")
    if aside.finished(tally, ASAN.what):
        quick = ["--no-suite", "slow", "--no-suite", "python", *CROWDED, "-t", SLOWER]
        meson_tests(tally, ASAN, *quick, "--suite", "unit")
        meson_tests(tally, ASAN_WITH_MPI, *quick, "--no-suite", "unit")
    if aside.finished(tally, TSAN.what):
        # clang 14's thread sanitizer does not find its way about a randomised address space.
        meson_tests(tally, TSAN, "--suite", "threads", "-t", SLOWER, "--wrapper", "setarch -R")


def house_rules():
    return [Step("files are where they belong", ([f"{CHECKS}/layout.py"],)),
            Step("modules use only what lib/DESIGN.md lists", ([f"{CHECKS}/modules.py"],)),
            Step("C and Python test what C++ does", ([f"{CHECKS}/contract.py"],)),
            Step("tests are named after what MXNet's scripts are promised", ([f"{CHECKS}/mxnet_contract.py"],)),
            Step("sources are formatted", ([f"{CHECKS}/format.sh"],)),
            Step("public headers compile alone", ([f"{CHECKS}/public_headers.py"],))]


def main():
    parser = Parser(description=__doc__)
    parser.add_argument("tier", metavar="TIER", choices=("quick", "full"), help="quick or full")
    full = parser.parse_args().tier == "full"
    for ending in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(ending) == signal.SIG_DFL:
            signal.signal(ending, signal.default_int_handler)
    tally = Tally()
    for rule in house_rules():
        now(tally, rule)
    built = now(tally, build(GCC), stream=True)
    # The other tests are built by clang, too, where the sanitizers are.
    clang = build(CLANG_DEBUG, "what-no-sanitizer-sees")
    tidy = Step("clang-tidy finds nothing", ([f"{CHECKS}/tidy.py", *(["--all"] if full else [])],))
    others = [*map(build, (RELEASE, WITHOUT_MPI, WITHOUT_SERVERS, ASAN)), build(TSAN, "threaded")] if full else []
    with Aside(clang, *others, tidy) as aside:
        slow = ["--no-suite", "excerpt" if full else "slow"]
        if built:
            meson_tests(tally, GCC, *slow)
        if aside.finished(tally, CLANG_DEBUG.what):
            meson_tests(tally, CLANG_DEBUG, "--suite", "fuzz", *slow)
        if full:
            other_tests(tally, aside)
        aside.finished(tally, tidy.name)
    return tally.conclude()


if __name__ == "__main__":
    sys.exit(main())
