"""Hosts: which one gets how many workers, ssh, rsync."""
import os
import shlex
import subprocess
import sys
import time

from command_line import printable
from launcher import helper
from launcher.destination import REFUSED
from launcher.options import UsageError
from launcher.output import write
from launcher.memory_file import file_of
from launcher.programs import must_find

# The longest wait for a program.
WAIT_SECONDS = 0.5
# How rsync says that files went away while it copied, such as a program's temporary ones.
VANISHED = 24
# ssh ends with this status if it has not started anything.
SSH_FAILED = 255
# Nobody is there to answer a question.
SSH_OPTIONS = ["-oBatchMode=yes", "-oConnectTimeout=20"]
# A copy belongs to the user who starts the job, and nobody else may write to it. The folder itself stays as it is.
RSYNC_OPTIONS = ["-a", "--no-owner", "--no-group", "--no-perms", "--executability", "--chmod=go-w"]


def deal(workers, hosts):
    """[(host, workers there)]: as many as slots where the file says so, otherwise even shares, the first
    hosts getting one more. Workers of one host have consecutive ranks."""
    if any(slots for _, slots in hosts):
        room = [slots or 1 for _, slots in hosts]
        if sum(room) < workers:
            raise UsageError(f"{workers} workers do not fit: the host file has {sum(room)} slots; "
                             "raise slots= there or lower -n")
        shares = []
        for slots in room:
            shares.append(min(slots, workers - sum(shares)))
    else:
        each, more = divmod(workers, len(hosts))
        shares = [each + (1 if i < more else 0) for i in range(len(hosts))]
    merged = {}
    for (host, _), share in zip(hosts, shares):
        if share:
            merged[host] = merged.get(host, 0) + share
    return list(merged.items())


def ssh():
    """The words that start it."""
    return [must_find("ssh", "a job on other hosts", "apt-get install openssh-client"), *SSH_OPTIONS]


def words_to(host, words):
    return [*ssh(), "-x", "-T", host, shlex.join(["exec", *words])]


def in_brackets(host):
    """rsync takes the first colon for the end of a host, unless it stands in brackets."""
    user, at, name = host.rpartition("@")
    return f"{user}{at}[{name}]" if ":" in name else host


def rsync_words(source, host, folder):
    rsync = must_find("rsync", "--sync-dst-dir", "apt-get install rsync, here and on every host")
    return [rsync, *RSYNC_OPTIONS, "-e", shlex.join(ssh()), f"{source}/", f"{in_brackets(host)}:{folder}"]


def sync(hosts, folder):
    """Copies the current folder to every host; a log line each. To the first alone, then to the rest at once: on
    a file system that hosts share the rest find everything there and get in nobody's way."""
    for some in filter(None, (hosts[:1], hosts[1:])):
        prepare(some, folder)
        failed = copy_to(some, folder)
        if failed:
            raise UsageError("--sync-dst-dir: rsync failed", failed)


def prepare(hosts, folder):
    """Makes the folder on each host. Raises UsageError where it is not the user's alone."""
    told = helper.lines(helper.source("trust", "destination"), {"folder": folder})
    words = [*helper.python(False), helper.BOOT]
    for host, code, lines in run_all([(host, words_to(host, words), told) for host in hosts]):
        refusals = [line.removeprefix(REFUSED) for line in lines if line.startswith(REFUSED)]
        if refusals:
            raise UsageError(f"--sync-dst-dir {folder}: on {host} {refusals[0]}. It must be a folder that the launcher "
                             "makes, or one that is yours and that no other user may write to, such as one in your "
                             "home; what other users may have put there runs in the job")
        if code != 0:
            hint = f"; `ssh {host}` must log in without a password or a question" if code == SSH_FAILED else ""
            raise UsageError(f"--sync-dst-dir {folder}: ssh to {host} failed with {code}{hint}", lines)


def copy_to(hosts, folder):
    """To all at once. Lines that say what failed."""
    source = os.getcwd()
    copies = []
    for host in hosts:
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        write(sys.stdout, [f"{now} rsync {printable(source)}/ -> {printable(host)}:{printable(folder)}"])
        copies.append((rsync_words(source, host, folder), ""))
    failed = []
    for words, code, lines in run_all([(words, words, told) for words, told in copies]):
        if code not in (0, VANISHED):
            failed += [f"{shlex.join(words)} failed with {code}:", *lines]
    return failed


def run_all(programs):
    """Runs [(name, words, standard input)] at once: [(name, exit code, lines of output)]. If Ctrl-C ends the launcher,
    the programs end, too."""
    running, done = [], []
    try:
        for name, words, told in programs:
            with file_of(told.encode()) as file:
                running.append((name, subprocess.Popen(words, stdin=file, stdout=subprocess.PIPE,
                                                       stderr=subprocess.STDOUT)))
        for name, process in running:
            said = output_of(process)
            done.append((name, process.returncode, said.decode("utf-8", "surrogateescape").rstrip().split("\n")))
    except BaseException:
        for _, process in running:
            process.kill()
        raise
    return done


def output_of(process):
    """Waits for the end of a program. Python does not act on a signal that comes right before a wait until the wait is
    over, so no wait is long."""
    while True:
        try:
            return process.communicate(timeout=WAIT_SECONDS)[0]
        except subprocess.TimeoutExpired:
            pass
