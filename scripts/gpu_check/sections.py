"""The sections of a run, in their order. Fast sections, and those on which others depend, come first."""
import importlib.metadata
import platform
import re
import resource
import shutil
import statistics
import time

from gpu_check import jobs
from gpu_check.check import CouldNotRun, Failed, Section

SIZES = "256K,1M,4M,8M,16M,64M,400M"
QUICK_SIZES = "64K,1M"
GPU_FIELDS = ("name", "uuid", "driver_version", "memory.total", "compute_mode", "mig.mode.current",
              "pcie.link.gen.max", "pcie.link.gen.current", "pcie.link.width.current")


def machine(attempt):
    facts = attempt.facts
    facts["shm_GiB"] = round(shutil.disk_usage("/dev/shm").total / 2**30, 1)
    facts["locked_memory_limit"] = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    facts["libc"] = " ".join(platform.libc_ver())
    facts["python"] = platform.python_version()
    for package in ("torch", "cupy-cuda13x", "nvidia-nccl-cu13"):
        facts[package] = version_of(package)
    facts["compute-sanitizer"] = attempt.kit.tool("compute-sanitizer") is not None
    facts["gpus"] = list(gpus(attempt))
    said = attempt.measures([attempt.program("gpu_stages"), "facts"])
    attempt.rows.clear()
    facts.update({row["name"]: row["value"] for row in said})
    unusable = [row for row in said if row["name"].startswith("gpu(") and "runs tutti's kernels" not in row["value"]]
    if unusable:
        raise Failed(unusable[0]["value"])
    return next((row["value"] for row in said if row["name"].startswith("gpu(")), "")


def version_of(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return "none"


def gpus(attempt):
    """The description of each GPU by the driver's own tool."""
    tool = attempt.kit.tool("nvidia-smi")
    if tool is None:
        return
    said = attempt.run([tool, "--query-gpu=" + ",".join(GPU_FIELDS), "--format=csv,noheader"])
    for line in said.out.splitlines():
        yield dict(zip(GPU_FIELDS, (word.strip() for word in line.split(","))))


def tests(attempt):
    chosen = "[gpu]~[nccl]" if attempt.quick else "[gpu]~[nccl],[gpu-large]"
    return verdict(attempt.run([attempt.program("test_cuda"), chosen]))


def stores(attempt):
    """Compares `device` and `nccl` with the same calls on the host."""
    return verdict(attempt.run([attempt.program("test_gpu_store"), "[gpu]"]))


def verdict(done):
    """The last line of Catch2."""
    if done.overdue:
        raise Failed(f"the tests did not end within {done.seconds:.0f} s")
    ends = [line for line in done.out.splitlines() if "test cases:" in line or "All tests passed" in line]
    line = ends[-1] if ends else ""
    if done.status != 0:
        raise Failed(line or f"the tests ended with status {done.status}")
    if not line:
        raise Failed("no test ran")
    return line


def nccl_alone(attempt):
    done = attempt.run([attempt.program("test_cuda"), "[gpu][nccl]"], NCCL_DEBUG="WARN")
    if "no NCCL:" in done.out:
        raise CouldNotRun("there is no NCCL")
    return verdict(done)


def nccl_shared(attempt):
    """NCCL may refuse two ranks on one GPU, even if they name different hosts."""
    done = attempt.run([attempt.program("test_cuda"), "[gpu-shared]"], NCCL_DEBUG="WARN")
    refused = re.search(r"(no NCCL:|ncclCommInitRankConfig failed:).*", done.out)
    if refused:
        raise CouldNotRun(refused[0])
    return verdict(done)


def sanitizer(tool):
    def run(attempt):
        done = attempt.run([attempt.tool("compute-sanitizer"), "--tool", tool, "--error-exitcode", 9,
                            attempt.program("test_cuda"), "[sanitized]"])
        summary = next((line for line in reversed(done.out.splitlines()) if "SUMMARY" in line), "")
        if "Device not supported" in done.out + done.errors:
            raise CouldNotRun("compute-sanitizer does not support this device")
        if done.status == 9:
            raise Failed(summary or "compute-sanitizer reports an error")
        verdict(done)
        if "0 errors" not in summary:
            raise CouldNotRun("compute-sanitizer printed no summary")
        return summary.strip("= ")
    return run


def stages(part, seconds, quick_seconds=0.01):
    """A part of what gpu_stages measures."""
    def run(attempt):
        sizes, each = (QUICK_SIZES, quick_seconds) if attempt.quick else (SIZES, seconds)
        rows = attempt.measures([attempt.program("gpu_stages"), part, "--bytes", sizes, "--seconds", each])
        return SAID[part](rows)
    return run


def said_of_copies(rows):
    def rate(kind, name):
        return max((row.get(name, 0) for row in rows if row["memory"] == kind), default=0)
    return "; ".join(f"{kind} {rate(kind, 'to_device_GBps'):.1f} to the device, {rate(kind, 'to_host_GBps'):.1f} "
                     "to the host" for kind in ("pinned", "registered", "pageable")) + " GB/s at best"


def said_of_calls(rows):
    return f"{statistics.median(row['us'] for row in rows):.1f} µs in the median of {len(rows)} kinds of call"


def said_of_kernels(rows):
    return f"{max(row['GBps'] for row in rows):.0f} GB/s read and written at best"


def said_of_pinning(rows):
    cost = [row["pin_us_per_MiB"] for row in rows if row["memory"] == "mapping" and row["is_pinned"]]
    return f"{cost[-1]:.0f} µs a MiB of a mapping of the largest size" if cost else "mappings stay unpinned"


SAID = {"copies": said_of_copies, "calls": said_of_calls, "kernels": said_of_kernels, "pinning": said_of_pinning}


def together(attempt):
    """Several processes take turns on one GPU, unlike several streams of one."""
    said = []
    size, seconds, begin = ("1M", 0.01, 1) if attempt.quick else ("8M", 0.4, 2)
    for processes in (2,) if attempt.quick else (1, 2, 4, 8):
        for part in ("copies", "calls"):
            words = [attempt.program("gpu_stages"), part, "--memory", "pinned", "--bytes", size, "--seconds", seconds,
                     "--at", time.time() + begin + 0.3 * processes]
            rows = [row for done in attempt.run_together([words] * processes)
                    for row in attempt.figures(done, processes=processes)]
        ends = [row["us"] for row in rows if row["call"] == "1 KiB to the host, until it is done"]
        said.append(f"{processes}: {max(ends):.0f}")
    return "µs until 1 KiB is known to have come, by processes: " + ", ".join(said)


SECTIONS = (
    Section("machine", 40, machine),
    Section("kernels and memory: tests", 90, tests),
    Section("NCCL with one GPU: tests", 60, nccl_alone),
    Section("stores of one process: tests", 60, stores),
    Section("calls", 20, stages("calls", 0.1)),
    Section("copies", 60, stages("copies", 0.1)),
    Section("kernels", 45, stages("kernels", 0.05)),
    Section("pinning", 40, stages("pinning", 0.1)),
    Section("several processes", 60, together),
    Section("host tensors over MPI", 60, jobs.host_tensors),
    Section("sums on the GPU over MPI", 120, jobs.sums),
    Section("a killed rank", 40, jobs.death),
    Section("streams", 90, jobs.streams),
    Section("pipeline", 90, jobs.pipeline),
    Section("NCCL with two ranks on one GPU", 45, nccl_shared),
    Section("sums over NCCL with two ranks on one GPU", 120, jobs.launches),
    Section("memcheck", 60, sanitizer("memcheck")),
    Section("initcheck", 60, sanitizer("initcheck")),
)
