"""Makes the folder that the launcher copies files to, on the folder's host: the user's alone. Where there is one it is
left as it is, and refused unless it is the user's."""
import json
import os
import sys

from launcher.trust import problem_of_folder, problem_of_way, way_to

# What standard output says, and then why.
REFUSED = "refused: "


def existing_part(path):
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


def problem_of(path):
    """After this it is there, unless there is a problem."""
    owners = {0, os.geteuid()}
    above = existing_part(path)
    if above != path:
        problem = problem_of_way(way_to(above), owners)
        if problem:
            return problem
        os.umask(0o077)
        os.makedirs(path)
    elif not os.path.isdir(path):
        return f"{path} is no folder"
    return problem_of_folder(path, owners)


def main():
    path = os.path.abspath(json.loads(sys.stdin.readline())["folder"])
    try:
        problem = problem_of(path)
    except OSError as error:
        problem = f"{error.filename or path}: {error.strerror or error}"
    if problem:
        print(f"\n{REFUSED}{problem}", flush=True)  # on a line of its own: a .bashrc may have begun one
        sys.exit(1)
