"""Finds out who may have written a file or folder. A part of the program that runs on other hosts."""
import collections
import grp
import os
import pwd
import shutil
import stat

MOST_LINKS = 40


def find(name):
    """Where a program is by PATH, or None. An entry that is empty or relative leads into the current folder, where
    another user may have written: it does not count here."""
    folders = [folder for folder in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(folder)]
    return shutil.which(name, path=os.pathsep.join(folders))


def user(number):
    try:
        return f"user {pwd.getpwuid(number).pw_name} ({number})"
    except KeyError:
        return f"user {number}"


def mode(status):
    return f"{stat.S_IMODE(status.st_mode):04o}"


def has_group_alone(number, group):
    """Whether nobody else is in this group: many systems give each user one, of the user's name."""
    try:
        name, found = pwd.getpwuid(number).pw_name, grp.getgrgid(group)
    except KeyError:
        return False
    return found.gr_name == name and set(found.gr_mem) <= {name}


def others_may_write(status):
    """Whether users other than the owner may."""
    if status.st_mode & stat.S_IWOTH:
        return True
    return bool(status.st_mode & stat.S_IWGRP) and not has_group_alone(status.st_uid, status.st_gid)


def way_to(path):
    """(path, status) of every folder and link that lead there, and last of what is there."""
    at, left, links = "/", collections.deque(os.path.abspath(path).split(os.sep)), 0
    yield at, os.lstat(at)
    while left:
        part = left.popleft()
        if part in ("", os.curdir):
            continue
        if part == os.pardir:
            at = os.path.dirname(at)
            continue
        name = os.path.join(at, part)
        status = os.lstat(name)
        yield name, status
        if not stat.S_ISLNK(status.st_mode):
            at = name
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(f"{path}: too many links lead there")
        target = os.readlink(name)
        at = "/" if os.path.isabs(target) else at
        left.extendleft(reversed(target.split(os.sep)))


def leads_home(path):
    """Whether this is the user's home or above it: who may exchange that has the user's account anyway."""
    home = os.path.expanduser("~")
    return any(os.path.join(one, "").startswith(os.path.join(path, "")) for one in (home, os.path.realpath(home)))


def problem_of_way(way, owners):
    """Why a user who is not among the owners may put something else there. Where others may write to a folder with the
    sticky bit, as to /tmp, only its owner and that of a file may exchange the file."""
    for path, status in way:
        if leads_home(path):
            continue
        if status.st_uid not in owners:
            return f"{path} belongs to {user(status.st_uid)}"
        is_shared = stat.S_ISDIR(status.st_mode) and others_may_write(status)
        if is_shared and not status.st_mode & stat.S_ISVTX:
            return f"other users may write to {path} (mode {mode(status)})"
    return None


def problem_of_folder(path, owners):
    """Why what lies there, or will, need not come from one of the owners; or None."""
    way = list(way_to(path))
    problem = problem_of_way(way, owners)
    at, status = way[-1]
    if problem is None and others_may_write(status):
        problem = f"other users may write to {at} (mode {mode(status)})"
    return problem or problem_of_contents(path, owners, is_open=bool(status.st_mode & 0o077))


def problem_of_contents(top, owners, is_open):
    """`is_open`: others may get into the folder, and so to what they may write in it."""
    for folder, folders, files in os.walk(top):
        for name in folders + files:
            path = os.path.join(folder, name)
            try:
                status = os.lstat(path)
            except FileNotFoundError:  # removed meanwhile
                continue
            if status.st_uid not in owners:
                return f"{path} belongs to {user(status.st_uid)}"
            if is_open and not stat.S_ISLNK(status.st_mode) and others_may_write(status):
                return f"other users may write to {path} (mode {mode(status)})"
    return None


def enter_folder(folder, owner):
    """Makes it the current folder, where there is one. `owner`: who may own it beside root and this user. Raises
    PermissionError."""
    if not os.path.isdir(folder):
        return
    os.chdir(folder)
    found = os.stat(os.curdir).st_uid
    if found not in (0, os.geteuid(), owner):
        raise PermissionError(f"{folder} belongs to {user(found)} here, and not to the one who owns it where the "
                              "launcher runs; start the job in a folder that is the same on all hosts, or use "
                              "--sync-dst-dir")


def problem_of_program(path, owners):
    """Why a user who trusts only the owners should not run the program; or None.

    Others may still replace the program later by one of their own, so this is asked again before it runs.
    """
    try:
        named, status = os.lstat(path), os.stat(path)
    except OSError as error:
        return f"{path}: {error.strerror}"
    for one in (named, status):  # a link, too, chooses what runs
        if one.st_uid not in owners:
            return f"it belongs to {user(one.st_uid)}"
    return f"other users may write to it (mode {mode(status)})" if others_may_write(status) else None
