"""What the figures were measured on."""
import dataclasses
import json
import os
import pathlib
import platform
import re
import subprocess
import time

LOOK = 2  # seconds
# Processors' worth, from which on others are felt, however many there are: of an idle machine's two 0.01 or 0.02 are busy.
BUSY = 0.1
# A loop in which a processor rarely waits for anything, how many of it are looked at on all, and on each at least.
LOOP, LOOPS, LEAST = 20000, 4000, 20
# Of the loop's time, from which on others are felt: 1.0 to 1.05 on a core of its own, up to 1.9 on one that two guests share.
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
    """Meson's, of a build folder."""
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
    """Of all processors together, since the machine started or as parts of what has passed."""
    busy: float
    stolen: float  # what the host gave to other machines
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
    """Whole ones' worth of what runs now."""
    passed = times().since(times_after(LOOK))
    return round(passed.busy * passed.processors, 2)


def loop():
    began = time.perf_counter_ns()
    sum(range(LOOP))
    return time.perf_counter_ns() - began


def sharing(durations):
    """How many times as long as at best the same work took on average."""
    return sum(durations) / len(durations) / min(durations)


def shared_cores():
    """Of the processor where that is most. Where the host lets other guests compute on the same cores, in their other threads,
    all that computes takes longer, and no time is counted as stolen."""
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
    """Empty where that is how tutti should be built for measuring."""
    return "" if kind == "release" else f"# a {kind} build is slower than what users get: these figures are of no release\n"


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
