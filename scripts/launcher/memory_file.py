"""Files in memory alone, for there are secrets in them."""
import os
import tempfile

SHARED_MEMORY = "/dev/shm"


def new_file():
    """Without a name. Raises OSError with what to do."""
    try:
        return open(os.memfd_create("told"), "r+b")
    except OSError as error:
        refused = error.strerror
    try:
        return tempfile.TemporaryFile(dir=SHARED_MEMORY)
    except OSError as error:
        raise OSError(f"cannot make a file in memory. memfd_create: {refused}, which a container's seccomp filter may "
                      f"cause; {SHARED_MEMORY}: {error.strerror}. Let the filter allow memfd_create, or mount a tmpfs "
                      f"at {SHARED_MEMORY}") from error


def file_of(data):
    """A file to read."""
    file = new_file()
    file.write(data)
    file.seek(0)
    return file
