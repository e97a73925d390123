"""The parts of a parameter-server job besides its workers."""
import os
import pathlib
import shutil
import sys

from launcher import networks
from launcher.options import UsageError
from launcher.output import say
from launcher.programs import found_as_by_a_shell
from launcher.trust import find, problem_of_program

SERVER = "tutti-server"
HERE = pathlib.Path(__file__).resolve()


def folders(command):
    """Where it may be beside PATH: near the command, and where this launcher is."""
    found = found_as_by_a_shell(command[0])
    # The python of an environment is a link to one elsewhere.
    of_command = [pathlib.Path(found).parent, pathlib.Path(found).resolve().parent] if found else []
    near = [folder for one in of_command for folder in (one, one.parent)]
    return [*near, HERE.parents[1], HERE.parents[2] / "build", pathlib.Path(sys.argv[0]).resolve().parent]


def candidates(command):
    inside = (shutil.which(SERVER, path=str(folder)) for folder in folders(command))
    return dict.fromkeys(filter(None, (*inside, find(SERVER))))


def owners(command):
    """The users, beside root and the one who starts the job, whose programs the job runs anyway."""
    programs = filter(None, (found_as_by_a_shell(command[0]), str(HERE)))
    # Where the program is a link, its owner decides what runs, too: the python of an environment is one.
    found = {look(program).st_uid for program in programs if os.path.exists(program) for look in (os.stat, os.lstat)}
    return sorted(found - {0, os.geteuid()})


def find_server(request):
    """The program that is scheduler and server, as its hosts have it. It gets the job's key, so who may have put it
    there counts."""
    trusted = {0, os.geteuid(), *owners(request.command)}
    refused = []
    for path in candidates(request.command):
        problem = problem_of_program(path, trusted)
        if problem is None:
            return copied(path, request.sync_dst_dir)
        say(f"{path} is not used: {problem}")
        refused.append(path)
    if refused:
        raise UsageError(f"--mode ps needs {SERVER}, and none that was found can be trusted with the job's key "
                         "(above); put one of your own into PATH, or, where only its mode is wrong, take the right to "
                         f"write from others: chmod go-w {refused[0]}")
    raise UsageError(f"--mode ps needs {SERVER}, which is neither beside the command nor in PATH; "
                     "it is built and installed with tutti")


def copied(path, folder):
    """A file of the current folder is where that is copied to."""
    below = os.path.relpath(path, os.getcwd())
    return path if folder is None or below.startswith(os.pardir) else os.path.join(folder, below)


def root_address(interface):
    """The scheduler's address in a job on this machine only."""
    return networks.addresses(interface)[interface][0] if interface else "127.0.0.1"
