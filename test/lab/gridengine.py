"""A Grid Engine over the hosts of a lab: its master on the first, an execution daemon on each."""
import contextlib
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import time

from hosts import enter

PROGRAMS = ("qsub", "qconf", "qstat", "sge_qmaster", "sge_execd")
TOOLS = pathlib.Path("/usr/lib/gridengine")
SHARED = pathlib.Path("/usr/share/gridengine")
PATIENCE_SECONDS = 30
SLOTS = 16
BOOTSTRAP = """\
admin_user none
default_domain none
ignore_fqdn true
spooling_method berkeleydb
spooling_lib libspoolb
spooling_params {folder}/spool
binary_path /usr/sbin
qmaster_spool_dir {folder}/master
security_mode none
listener_threads 2
worker_threads 2
scheduler_threads 1
"""
# Debian's settings, but for root, who runs the tests, and for one who does not want to wait.
CHANGED = {"execd_spool_dir": "{folder}/execd", "min_uid": "0", "min_gid": "0", "load_report_time": "00:00:01",
           "mailer": "/bin/true"}
SCHEDULER = {"schedule_interval": "0:0:1", "flush_submit_sec": "1", "flush_finish_sec": "1"}
ENVIRONMENT = {"pe_name": "mpi", "slots": "999", "user_lists": "NONE", "xuser_lists": "NONE",
               "start_proc_args": "/bin/true", "stop_proc_args": "/bin/true", "allocation_rule": "$round_robin",
               "control_slaves": "TRUE", "job_is_first_task": "FALSE", "urgency_slots": "min",
               "accounting_summary": "FALSE", "qsort_args": "NONE"}


def why_not():
    """The reason why there is none; empty if there can be one."""
    missing = [name for name in PROGRAMS if shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin") is None]
    return f"{', '.join(missing)} not there; scripts/setup --frameworks installs Grid Engine" if missing else ""


def changed(text, values):
    """Settings of Grid Engine's, a name and a value a line, with these values."""
    for name, value in values.items():
        text = re.sub(rf"^{name}\s.*$", f"{name} {value}", text, flags=re.MULTILINE)
    return text


class Engine:
    """Sets Grid Engine up on the first host, and asks it there."""

    def __init__(self, lab, folder):
        self.lab, self.folder = lab, folder
        self.env = {"SGE_ROOT": str(folder / "root"), "SGE_CELL": "default", "SGE_QMASTER_PORT": "6444",
                    "SGE_EXECD_PORT": "6445", "SGE_ND": "1"}

    def write_files(self):
        common = self.folder / "root/default/common"
        for place in (common, self.folder / "spool", self.folder / "master/job_scripts", self.folder / "execd"):
            place.mkdir(parents=True)
        for name in ("util", "utilbin", "bin", "lib"):
            (self.folder / "root" / name).symlink_to(f"/var/lib/gridengine/{name}")
        (common / "bootstrap").write_text(BOOTSTRAP.format(folder=self.folder))
        (common / "act_qmaster").write_text(f"{self.lab.names[0]}\n")
        values = {name: value.format(folder=self.folder) for name, value in CHANGED.items()}
        (self.folder / "configuration").write_text(changed((SHARED / "default-configuration").read_text(), values))

    def run(self, *words, must=True):
        done = subprocess.run(enter(self.lab.names[0], shlex.join(map(str, words))), text=True, check=False,
                              env={**os.environ, **self.env}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=60)
        if must and done.returncode:
            raise AssertionError(f"{shlex.join(map(str, words))} ended with {done.returncode}: {done.stdout}")
        return done.stdout if done.returncode == 0 else None

    def spool(self):
        self.run(TOOLS / "spoolinit", "berkeleydb", "libspoolb", self.folder / "spool", "init")
        for what, file in (("configuration", self.folder / "configuration"),
                           ("complexes", SHARED / "util/resources/centry"),
                           ("usersets", SHARED / "util/resources/usersets"), ("managers", "root")):
            self.run(TOOLS / "spooldefaults", what, file)

    def give(self, option, text):
        """A file that qconf reads."""
        file = self.folder / "given"
        file.write_text(text)
        self.run("qconf", option, file)

    def add_hosts(self):
        for name in self.lab.names:
            for option in ("-ah", "-as"):
                self.run("qconf", option, name, must=False)  # the first is one of both already
            host = {"hostname": name, "load_scaling": "NONE", "complex_values": "NONE", "user_lists": "NONE",
                    "xuser_lists": "NONE", "projects": "NONE", "xprojects": "NONE", "usage_scaling": "NONE",
                    "report_variables": "NONE"}
            self.give("-Ae", "".join(f"{key} {value}\n" for key, value in host.items()))

    def add_queue(self):
        self.give("-Msconf", changed(self.run("qconf", "-ssconf"), SCHEDULER))
        self.give("-Ap", "".join(f"{key} {value}\n" for key, value in ENVIRONMENT.items()))
        self.give("-Aq", changed(self.run("qconf", "-sq"), {
            "qname": "all.q", "hostlist": " ".join(self.lab.names), "slots": SLOTS, "pe_list": "mpi",
            "load_thresholds": "NONE", "shell": "/bin/sh"}))

    def started(self, stack, host, daemon):
        log = stack.enter_context((self.folder / f"{daemon}-{host}.out").open("w"))
        process = stack.enter_context(subprocess.Popen(enter(host, f"/usr/sbin/{daemon}"), stdin=subprocess.DEVNULL,
                                                       stdout=log, stderr=log, env={**os.environ, **self.env}))
        stack.callback(process.terminate)

    def await_that(self, holds, what):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not holds():
            if time.monotonic() > deadline:
                said = "\n".join(path.read_text(errors="replace")[-2000:] for path in
                                 (*self.folder.glob("*.out"), *self.folder.glob("**/messages")))
                raise AssertionError(f"not within {PATIENCE_SECONDS} s: {what}\n{said}")
            time.sleep(0.2)

    def jobs(self):
        return self.run("qstat", "-u", "*")

    def is_ready(self):
        """No queue has a state, such as that its host is not heard of."""
        rows = [line.split() for line in self.run("qstat", "-f").splitlines() if line.startswith("all.q@")]
        return len(rows) == len(self.lab.names) and all(len(row) == 5 and row[3] != "-NA-" for row in rows)


@contextlib.contextmanager
def running(lab, folder):
    """While the block runs there is a Grid Engine that takes jobs."""
    engine = Engine(lab, pathlib.Path(folder))
    engine.folder.chmod(0o755)
    engine.write_files()
    engine.spool()
    with contextlib.ExitStack() as stack:
        engine.started(stack, lab.names[0], "sge_qmaster")
        engine.await_that(lambda: engine.run("qconf", "-sh", must=False) is not None, "the master answers")
        engine.add_hosts()
        engine.add_queue()
        for host in lab.names:
            engine.started(stack, host, "sge_execd")
        engine.await_that(engine.is_ready, "all hosts take jobs")
        yield engine
