"""A real sshd on every host of a lab, and an ssh that gets in without a password."""
import contextlib
import pathlib
import shutil
import subprocess
import time

from hosts import enter

SSHD = "/usr/sbin/sshd"
PATIENCE_SECONDS = 20
SERVER = """\
Port 22
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
UsePAM no
StrictModes no
PasswordAuthentication no
PermitRootLogin yes
PrintMotd no
LogLevel ERROR
"""
CLIENT = """\
Host *
  IdentityFile {folder}/user
  StrictHostKeyChecking no
  UserKnownHostsFile /dev/null
  LogLevel ERROR
"""


def why_not():
    """The reason why there is none; empty if there is one."""
    for program in (SSHD, "ssh", "ssh-keygen", "rsync"):
        if shutil.which(program) is None:
            return f"{program} is not there; scripts/setup --tests installs it"
    return ""


def write_keys(folder):
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)


def await_answer(host, ssh):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while subprocess.run(enter(host, f"{ssh} {host} true"), check=False, stdin=subprocess.DEVNULL,
                         stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        if time.monotonic() > deadline:
            raise AssertionError(f"sshd on {host} does not answer")
        time.sleep(0.1)


@contextlib.contextmanager
def served(lab, folder, named=None):
    """While the block runs ssh leads to the lab's hosts. Gives the folder to put before PATH on them. `named`: the name
    that all hosts have for what ssh starts there."""
    folder = pathlib.Path(folder)
    (folder / "bin").mkdir()
    write_keys(folder)
    (folder / "sshd_config").write_text(SERVER.format(folder=folder))
    (folder / "ssh_config").write_text(CLIENT.format(folder=folder))
    ssh = folder / "bin/ssh"
    ssh.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/ssh_config "$@"\n')
    ssh.chmod(0o755)
    pathlib.Path("/run/sshd").mkdir(exist_ok=True)
    with contextlib.ExitStack() as stack:
        for host in lab.names:
            process = stack.enter_context(subprocess.Popen(enter(host, f"{SSHD} -D -e -f {folder}/sshd_config", named),
                                                           stdin=subprocess.DEVNULL))
            stack.callback(process.terminate)
        for host in lab.names:
            await_answer(host, ssh)
        yield folder / "bin"
