"""The machine with the GPU, and the carried build on it."""
import ctypes
import importlib.util
import json
import os
import pathlib
import shutil

DRIVER = "libcuda.so.1"
# The folders in which containers have the driver, if the loader does not find it.
DRIVER_FOLDERS = ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib")
CUDA_BIN = "/usr/local/cuda/bin"


def load_driver():
    """(the driver's library, the folder that the loader does not know), or nothing."""
    for folder in ("", *DRIVER_FOLDERS):
        try:
            return ctypes.CDLL(os.path.join(folder, DRIVER)), folder
        except OSError:
            continue
    return None, ""


def why_no_gpu(driver):
    """Says why there is no GPU. Empty if there is one."""
    if driver is None:
        return f"no CUDA driver: the loader finds no {DRIVER}"
    status, devices = driver.cuInit(0), ctypes.c_int(0)
    if status != 0:
        return f"CUDA cannot be used: cuInit returns {status}"
    driver.cuDeviceGetCount(ctypes.byref(devices))
    return "" if devices.value > 0 else "CUDA shows no device"


def nccl_folder():
    """The folder in which Python's package of NCCL has its library; empty if there is none."""
    try:
        found = importlib.util.find_spec("nvidia.nccl")
    except ModuleNotFoundError:
        return ""
    for place in found.submodule_search_locations if found else ():
        if (pathlib.Path(place) / "lib/libnccl.so.2").exists():
            return str(pathlib.Path(place) / "lib")
    return ""


class Kit:
    """The carried folder, and the environment that its programs run in."""

    def __init__(self, folder, driver_folder):
        self.folder = folder
        self.manifest = json.loads((folder / "manifest.json").read_text())
        own = os.environ.get("LD_LIBRARY_PATH", "")
        self.environment = {
            **os.environ,
            "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            "OMPI_MCA_rmaps_base_oversubscribe": "1", "OMPI_MCA_hwloc_base_binding_policy": "none",
            "OMPI_MCA_pml": "ob1",  # this one uses no libraries of network cards
            "OMPI_MCA_plm_rsh_agent": "true",  # there may be no ssh, which a job on one machine does not need
        }
        libraries = [folder / "lib", own, driver_folder, nccl_folder()]
        if (folder / "openmpi").exists():
            libraries.insert(0, folder / "openmpi/lib")
            self.environment["OPAL_PREFIX"] = str(folder / "openmpi")
            self.environment["PATH"] = f"{folder / 'openmpi/bin'}:{self.environment['PATH']}"
        self.environment["LD_LIBRARY_PATH"] = ":".join(str(path) for path in libraries if str(path))

    def program(self, name):
        """A program of the folder. Nothing if this build does not have it."""
        path = self.folder / "bin" / name
        return str(path) if path.exists() else None

    def library(self, name):
        """A library of the folder. Nothing if this build does not have it."""
        path = self.folder / "lib" / name
        return str(path) if path.exists() else None

    def tool(self, name):
        """A program of the machine or of its CUDA toolkit. Nothing if there is none."""
        return shutil.which(name, path=f"{self.environment['PATH']}:{CUDA_BIN}")
