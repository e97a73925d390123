"""What the figures were measured on."""
import os
import pathlib
import platform
import re
import subprocess


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


def describe():
    last_cache = "/sys/devices/system/cpu/cpu0/cache/index3/size"
    return {
        "cpu": first_match("/proc/cpuinfo", r"^model name\s*:\s*(.*)$"),
        "cores": len(os.sched_getaffinity(0)),
        "last_level_cache": first_match(last_cache, r"(\S+)"),
        "memory": first_match("/proc/meminfo", r"^MemTotal:\s*(.*)$"),
        "kernel": platform.release(),
        "system": first_match("/etc/os-release", r'^PRETTY_NAME="(.*)"$'),
        "compiler": compiler(),
        "commit": commit(),
        "load_before": [round(load, 2) for load in os.getloadavg()],
    }


def compiler():
    try:
        return subprocess.run(["g++", "-dumpfullversion"], text=True, stdout=subprocess.PIPE, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def text(facts):
    line = (f"# {facts['cpu']}, {facts['cores']} cores, {facts['last_level_cache']} of last-level cache, "
            f"{facts['memory']} of memory, {facts['system']}, Linux {facts['kernel']}, tutti at {facts['commit']}\n"
            f"# load before the run: {facts['load_before'][0]}")
    if facts["load_before"][0] > 0.5:
        line += " - something else is running, which these figures then measure too"
    return line
