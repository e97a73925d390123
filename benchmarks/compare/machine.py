"""Describes the machine on which the figures were measured."""
import dataclasses
import json
import os
import pathlib
import platform
import re
import subprocess
import time

LOOK = 2  # seconds
# If at least this many processors are busy, other programs disturb the results, however many processors there are. On
# an idle machine with two, 0.01 or 0.02 are busy.
BUSY = 0.1
# The length of a loop that rarely waits for anything, how often it is run on all processors together, and at least on
# each.
LOOP, LOOPS, LEAST = 20000, 4000, 20
# If the ratio of loop times is at least this, other guests disturb the results. The ratio is 1.0 to 1.05 on a core of
# one's own, and up to 1.9 on a core that two guests share.
SHARED = 1.15


def first_match(file, pattern):
    try:
        found = re.search(pattern, pathlib.Path(file).read_text(), re.MULTILINE)
    except OSError:
        return "unknown"
    return found.group(1).strip() if found else "unknown"


def commit():
    """The commit of this tree, with + when files differ from it."""
    here = pathlib.Path(__file__).parent
    try:
        said = subprocess.run(["git", "-C", str(here), "describe", "--always", "--dirty=+"], text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return said.stdout.strip()


def build_type(build):
    """Meson's build type of a build folder."""
    try:
        options = json.loads((build / "meson-info/intro-buildoptions.json").read_text())
    except (OSError, ValueError):
        return "unknown"
    return next((option["value"] for option in options if option["name"] == "buildtype"), "unknown")


def describe(build):
    last_cache = "/sys/devices/system/cpu/cpu0/cache/index3/size"
    return {
        "cpu": first_match("/proc/cpuinfo", r"^model name\s*:\s*(.*)$"),
        "cores": len(os.sched_getaffinity(0)),
        "last_level_cache": first_match(last_cache, r"(\S+)"),
        "memory": first_match("/proc/meminfo", r"^MemTotal:\s*(.*)$"),
        "kernel": platform.release(),
        "system": first_match("/etc/os-release", r'^PRETTY_NAME="(.*)"$'),
        "compiler": compiler(),
        "build_type": build_type(build),
        "commit": commit(),
    }


@dataclasses.dataclass(frozen=True)
class Times:
    """Times of all processors together, in ticks since the machine started, or as parts of the time that has
    passed."""
    busy: float
    stolen: float  # time that the host gave to other machines
    all: float
    processors: int

    def since(self, later):
        passed = later.all - self.all or 1
        return Times((later.busy - self.busy) / passed, (later.stolen - self.stolen) / passed, 1, self.processors)


def times(file="/proc/stat"):
    total, *rest = pathlib.Path(file).read_text().splitlines()
    ticks = [int(word) for word in total.split()[1:9]]
    idle, stolen = ticks[3] + ticks[4], ticks[7]
    return Times(sum(ticks) - idle - stolen, stolen, sum(ticks), sum(line.startswith("cpu") for line in rest))


def times_after(seconds):
    time.sleep(seconds)
    return times()


def busy_processors():
    """The number of processors that are busy now, as a sum over all."""
    passed = times().since(times_after(LOOK))
    return round(passed.busy * passed.processors, 2)


def loop():
    began = time.perf_counter_ns()
    sum(range(LOOP))
    return time.perf_counter_ns() - began


def sharing(durations):
    """The average time of the same work, as a multiple of its best time."""
    return sum(durations) / len(durations) / min(durations)


def shared_cores():
    """Returns `sharing` of the processor where it is largest. If the host lets other guests use the same cores, in
    their other hardware threads, all work takes longer, and no time is counted as stolen."""
    allowed, found = os.sched_getaffinity(0), []
    loops = max(LEAST, LOOPS // len(allowed))
    try:
        for processor in sorted(allowed):
            os.sched_setaffinity(0, {processor})
            found.append(sharing([loop() for _ in range(loops)]))
    finally:
        os.sched_setaffinity(0, allowed)
    return round(max(found), 2)


def compiler():
    try:
        return subprocess.run(["g++", "-dumpfullversion"], text=True, stdout=subprocess.PIPE, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def text(facts):
    return (f"# {facts['cpu']}, {facts['cores']} cores, {facts['last_level_cache']} of last-level cache, "
            f"{facts['memory']} of memory, {facts['system']}, Linux {facts['kernel']}, tutti at {facts['commit']}, "
            f"build type {facts['build_type']}")


def build_text(kind):
    """A warning about the build type; empty for release, which is the one to measure."""
    if kind == "release":
        return ""
    return f"# a {kind} build is slower than what users get: these figures are of no release\n"


def busy_text(processors):
    line = f"# processors busy before the run: {processors:.2f}"
    if processors > BUSY:
        line += " - something else is running, which these figures then measure too"
    return line


def shared_text(times_as_long):
    line = f"# the same loop took {times_as_long:.2f} times as long as at best"
    if times_as_long > SHARED:
        line += " - somebody else computes on the same cores, which these figures then measure too"
    return line
