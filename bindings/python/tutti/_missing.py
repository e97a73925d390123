"""Says what to do if the extension does not load: a library that it was built for is missing, or is another version."""
import re

#: The MPI whose library has this name.
MPIS = {"libmpi.so.40": "Open MPI 4", "libmpi.so.12": "MPICH or Intel MPI"}
MISSING = re.compile(r"(lib[^:]*): cannot open shared object file")
OTHER_MPI = re.compile(r"undefined symbol: (MPI_|ompi_)")
WHAT_TO_DO = ("Install the MPI that tutti was built for (Open MPI on Debian: apt-get install openmpi-bin). If it is "
              "where the system does not look, add its folder of libraries to LD_LIBRARY_PATH. For another Open MPI "
              "build tutti anew for it, as README.md says under 'Install and link'")


def explained(error):
    """The exception to raise instead. The same one if nothing is known of the reason."""
    text, missing = str(error), MISSING.search(str(error))
    if OTHER_MPI.search(text):
        return ImportError(f"this tutti was built for another MPI than the one that the system finds ({text}). "
                           f"{WHAT_TO_DO}")
    if missing and missing[1] in MPIS:
        return ImportError(f"this tutti was built for {MPIS[missing[1]]}, whose {missing[1]} is not found. "
                           f"{WHAT_TO_DO}")
    if missing:
        return ImportError(f"{missing[1]}, which tutti needs, is not found. Install the package that brings it; those "
                           "of Debian 12 are installed by scripts/setup in tutti's sources")
    return error
