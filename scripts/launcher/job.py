"""One job from the launcher's side: hears the shims, shows their lines, ends what must end."""
import os
import secrets
import selectors
import signal
import socket
import subprocess
import time

from launcher import contact, mpirun, nodes
from launcher.conclusion import conclude
from launcher.door import Door
from launcher.echoes import Echoes
from launcher.ends import Ends
from launcher.memory_file import file_of
from launcher.processes import ANNOUNCING, ENDING, adopt_orphans, dies_with_parent, end_all
from launcher.output import Printer, say
from launcher.shares import Shares
from launcher.starter_lines import StarterLines, impossible_in
from launcher.worker import Link, Worker

# Between two steps of ending a job, each harsher than the one before.
STEP_SECONDS = 5.0
# From a server's word that it writes its state to the next, which comes every few seconds.
WRITING_SECONDS = 15.0
# Once the starter has ended, how long its shims' next words may be under way.
LINGER_SECONDS = 2.0
# Servers whose job has not begun get this long when a worker has failed, or all have ended. They have nothing to save,
# but the scheduler may just be telling others why.
IDLE_SERVERS_SECONDS = 1.0
# From the first process that comes to the last; from the start to the first, where no queue is between.
GATHER_SECONDS = 300.0
# Programs such as timeout send a signal to a process and to its group: it comes twice, and is meant once.
ECHO_SECONDS = 0.5


class Job:
    """Use: contact, start, run. One thread; every wait has the starter's end or a deadline behind it."""

    def __init__(self, request, addresses, root=None):
        """Listens at these addresses, or, without any, for processes of this machine. `root`: the scheduler's address,
        where it is not the one from which its helper comes."""
        self.request, self.root = request, root
        self.variables = {} if request.mode == "mpi" else None  # by which processes begin, once they are known
        self.printer = Printer(request.prefix)
        self.echoes = Echoes(self.printer, say)
        self.workers, self.links = {}, set()
        self.ends, self.shares = Ends(self.links), Shares(request.workers)
        self.failed = None         # the worker that failed first
        self.impossible = None     # why the job cannot run at all
        self.signal = None         # that ended the launcher
        self.signalled_at = 0.0    # when it came
        self.level, self.deadline = 0, None
        self.gather_by = None      # while some processes have come and others have not
        self.complete = False      # in mode ps: all processes have come to the scheduler, so that stores may begin
        self.dismiss_by = None     # when servers are ended whose job will not begin
        self.starter, self.process, self.starter_lines = None, None, StarterLines()
        self.events = selectors.DefaultSelector()
        self.wake, self.wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.events.register(self.wake, selectors.EVENT_READ, self.on_signal)
        token = secrets.token_hex(16)
        self.door = Door(self.events, token, request.processes(), addresses, self.admit)
        self.contact = token + "@" + ",".join(self.door.places)

    def start(self, starter):
        """It gets a session of its own, so that Ctrl-C reaches it through this process alone."""
        self.starter = starter
        if self.request.mode == "mpi" and len(starter.placement) > 1:
            self.variables = None
        adopt_orphans()
        signal.set_wakeup_fd(self.wake_write)
        for number in (signal.SIGCHLD, *ENDING, *ANNOUNCING):
            # A job that was started with nohup, or with & in a script, outlives what ends others.
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, lambda *_: None)
        with file_of(starter.told.encode()) as told:
            self.process = subprocess.Popen(starter.words, env=starter.env, stdin=told, start_new_session=True,
                                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                            preexec_fn=dies_with_parent(signal.SIGTERM, ANNOUNCING))
        if not starter.may_queue:
            self.gather_by = time.monotonic() + GATHER_SECONDS
        self.events.register(self.process.stdout, selectors.EVENT_READ, self.on_starter)

    def run(self):
        """Until all is over. Returns the exit code."""
        try:
            while not self.over():
                for key, _ in self.events.select(self.seconds_left()):
                    key.data()
                self.door.expire()
                self.on_time()
            self.echoes.finish()
        finally:
            self.door.close()
            self.end_now()
        return conclude(self)

    def seconds_left(self):
        """Until the next deadline; None without one."""
        deadlines = [at for at in (self.deadline, self.gather_by, self.dismiss_by, self.door.deadline(),
                                   self.echoes.deadline())
                     if at is not None]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    # What happens

    def on_time(self):
        now = time.monotonic()
        self.echoes.expire()
        if self.gather_by is not None and now >= self.gather_by:
            self.on_missing()
        if self.dismiss_by is not None and now >= self.dismiss_by:
            self.dismiss_idle_servers()
        if self.deadline is not None and now >= self.deadline:
            self.on_deadline()

    def on_starter(self):
        data = os.read(self.process.stdout.fileno(), 65536)
        for text in self.starter_lines.take(data):
            reason = impossible_in(text)
            if reason is None or not self.give_up(reason):
                self.printer.note(self.starter.name, text)
        if not data:
            self.events.unregister(self.process.stdout)

    def admit(self, connected, rank, host):
        """Whether this is a worker that is awaited: then the connection is its own from now on."""
        if rank in self.workers or rank >= self.request.processes():
            return False
        self.workers[rank] = Worker(rank, host, self.request.title(rank), self.request.numbers())
        connection = connected.connection
        if connection.family != socket.AF_UNIX:
            contact.notice_death(connection)
            # Orders are few: who does not read them at once has room for them.
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, 1000 * contact.SILENT_SECONDS)
        link = Link(connected, self.workers[rank])
        self.links.add(link)
        self.events.modify(connection, selectors.EVENT_READ, lambda: self.on_link(link))
        link.welcome()
        missing = self.request.processes() - len(self.workers)
        if missing == 0:
            self.gather_by = None
        elif len(self.workers) == 1:
            self.gather_by = time.monotonic() + GATHER_SECONDS
        if self.level > 0 or self.signal:
            link.order()
        elif self.variables is not None:
            link.begin(self.variables)
        self.end_the_silent()
        self.dismiss_servers()
        return True

    def on_link(self, link):
        if link not in self.links:
            return
        if self.process.returncode is not None:
            self.give(LINGER_SECONDS)
        messages, more = link.read()
        for message in messages:
            if "port" in message:
                self.on_scheduler(link, message["port"])
            elif "waits" in message:
                self.ends.on_waiting(link, message["waits"])
            else:
                self.on_message(link.worker, message)
        if not more and link in self.links:  # a message may have ended all of them
            self.on_link_end(link)

    def on_scheduler(self, link, port):
        """Now that its place is known all begin."""
        if self.variables is not None or link.worker.title != "scheduler":
            return
        root = self.root or link.address()
        if root is None:
            return
        self.variables = {"DMLC_PS_ROOT_URI": root, "DMLC_PS_ROOT_PORT": str(port)}
        for each in self.links:
            each.begin(self.variables)

    def on_message(self, worker, message):
        if "lines" in message:
            self.on_lines(worker, message["stream"], message["lines"], message.get("open"))
        if "writes" in message:
            self.on_writing(worker)
        if "node" in message:
            worker.node = message["node"]
            self.check_nodes()
        if "threads" in message:
            text = self.shares.add(worker.rank, message["threads"])
            if text and self.level == 0:
                say(text)
        worker.unable = worker.unable or "unable" in message
        if "complete" in message:
            self.complete = self.complete or worker.title == "scheduler"
        if "exit" in message:
            worker.status, worker.told = message["exit"], message["told"]
            self.ends.add(worker)
            if worker.status != 0:
                self.on_failure(worker)
        if worker.status is not None:  # an exit is told before the last lines
            self.end_the_silent()
            self.dismiss_servers()

    def on_lines(self, worker, stream, texts, unfinished=None):
        whole, rest = worker.joined(stream, texts, unfinished is not None)
        worker.hear(whole)
        if stream == 2 and (worker.title, stream) not in self.printer.begun:
            self.echoes.take(worker, whole)
        else:
            worker.last += self.printer.lines(worker.title, stream, whole)
        if rest and unfinished == "pause":
            if stream == 2:
                self.echoes.release(worker)
            self.printer.unfinished(worker.title, stream, rest)

    def on_writing(self, server):
        """It was told to end, and has the time that its state takes, unless it is told once more."""
        if not server.writes:
            server.writes = True
            say(f"{server.name()} still writes its state, and the launcher waits for that; Ctrl-C ends the server at "
                "once")
        if self.level == 1:
            self.give(WRITING_SECONDS)

    def on_link_end(self, link):
        self.events.unregister(link.connection)
        link.connection.close()
        self.links.discard(link)
        for stream in link.worker.unfinished():
            self.on_lines(link.worker, stream, [""])
        if link.worker.status is None:
            self.ends.add(link.worker)
            self.on_failure(link.worker)
        elif link.worker.cut_off:
            say(f"lines of {link.worker.name()} may be missing: {link.worker.cut_off}")
        self.dismiss_servers()
        if not self.links and len(self.workers) == self.request.processes():
            self.give(self.starter.leave_seconds)
        elif not self.links and self.signal:
            self.end_at_once()

    def on_failure(self, worker):
        """The first one counts; those that were told to end do not, nor do those that lose them."""
        if self.failed or worker.told or self.level > 0 or self.signal:
            return
        self.failed = worker
        if self.variables is None or worker.unable:  # nobody has begun, or can go on
            self.on_deadline()
            return
        # Those that have not been heard of yet have their time, too.
        left = self.request.processes() - len(self.workers) + len(self.running())
        if left:
            say(f"{worker.name()} {worker.fate()}; {left} more {'has' if left == 1 else 'have'} "
                f"{self.request.grace:g} s to end by themselves")
            self.give(self.request.grace)
            self.dismiss_by = None if self.complete else time.monotonic() + IDLE_SERVERS_SECONDS

    def give_up(self, reason):
        """Ends a job that cannot run; whether this is why it ends."""
        if self.failed or self.level > 0 or self.signal:
            return False
        self.impossible = reason
        self.step()
        return True

    def check_nodes(self):
        """mpirun may take several hosts for one, and says nothing."""
        if len(self.workers) < self.request.processes() or not all(worker.node for worker in self.workers.values()):
            return
        problem = nodes.problem_of(self.starter.placement, self.workers.values())
        if problem:
            self.give_up(problem)
        elif self.request.mode == "mpi" and self.variables is None and self.level == 0 and not self.signal:
            self.begin_over_hosts()

    def begin_over_hosts(self):
        """All begin, now that it is known what their hosts call themselves."""
        self.variables = {}
        name = nodes.name_of_several(self.workers.values(), whole=mpirun.KEEP_NAMES in self.starter.words)
        if name is not None and mpirun.TRANSPORTS not in os.environ:
            self.variables = {mpirun.TRANSPORTS: mpirun.WITHOUT_MEMORY}
            say(f"several hosts call themselves {name}, and Open MPI takes such hosts for one. So MPI gets no shared "
                f"memory of its own ({mpirun.TRANSPORTS}={mpirun.WITHOUT_MEMORY}), and tutti has its own as always. "
                "If each host has another name (hostnamectl), MPI has its shared memory, too")
        for each in self.links:
            each.begin(self.variables)

    def on_missing(self):
        """A queue that is full, or a host that hangs, keeps those that have come from beginning or going on."""
        missing = [self.request.title(rank) for rank in range(self.request.processes()) if rank not in self.workers]
        say(f"{', '.join(missing)} did not come within {GATHER_SECONDS:g} s after the first process; is there room for "
            f"all {self.request.processes()} at once?" if self.workers else
            f"{self.starter.name} started no process within {GATHER_SECONDS:g} s; does it reach the hosts?")
        self.gather_by = None
        self.step()

    def end_the_silent(self):
        """A process that is stopped, or comes too late to start, would not use its time: once all others have lost it
        and ended, nobody waits for it."""
        silent = set().union(*(worker.silent for worker in self.workers.values()))
        left = self.running()
        if self.level > 0 or self.signal or not left or len(self.workers) < self.request.processes():
            return
        if all(worker.rank in silent for worker in left):
            self.failed = self.failed or left[0]
            self.on_deadline()

    def dismiss_servers(self):
        """Servers end when the workers' stores have closed. Workers that had none leave them waiting, and so do workers
        that a signal has ended."""
        if self.level > 0 or not self.running() or any(self.is_worker(each) for each in self.running()):
            return
        if self.signal:
            self.step()
        elif self.failed is None and all(self.has_ended(rank) for rank in range(self.request.workers)):
            self.give(STEP_SECONDS if self.complete else IDLE_SERVERS_SECONDS)

    def dismiss_idle_servers(self):
        self.dismiss_by = None
        if self.complete:  # the scheduler's word came later than the worker's end
            return
        for link in self.links:
            if not self.is_worker(link.worker):
                link.order()

    def on_signal(self):
        for number in os.read(self.wake, 4096):
            if number in ENDING:
                self.on_end_signal(number)
            elif number in ANNOUNCING:
                self.pass_on(number)
        if self.process and self.process.poll() is not None:
            self.give(LINGER_SECONDS)

    def on_end_signal(self, number):
        """The first asks the workers to end, which have the grace for it; the second ends everything at once."""
        now = time.monotonic()
        if self.signal == number and now < self.signalled_at + ECHO_SECONDS:
            return
        is_first, self.signal, self.signalled_at = self.signal is None, self.signal or number, now
        if not is_first:
            self.end_at_once()
        elif self.level > 0 or self.variables is None or not any(map(self.is_worker, self.running())):
            self.step()
        else:
            self.ask_workers()

    def pass_on(self, number):
        """To the workers alone, which may know of it. The helpers and what starts them do not pass it on, so that it
        comes once."""
        for link in self.links:
            if self.is_worker(link.worker):
                link.pass_on(number)

    def ask_workers(self):
        """Servers go on, for a worker may need them to save its state."""
        self.gather_by = self.dismiss_by = None
        asked = [link for link in self.links if self.is_worker(link.worker)]
        say(f"{signal.Signals(self.signal).name} came: {len(asked)} worker{'s' * (len(asked) > 1)} "
            f"{'have' if len(asked) > 1 else 'has'} {self.request.grace:g} s to end; a second signal ends all at once")
        for link in asked:
            link.ask(self.request.grace)
        self.give(self.request.grace)

    def running(self):
        return [link.worker for link in self.links if link.worker.status is None]

    def is_worker(self, one):
        return one.rank < self.request.workers

    def has_ended(self, rank):
        return rank in self.workers and self.workers[rank].status is not None

    # Ending

    def give(self, seconds):
        self.deadline = time.monotonic() + seconds

    def on_deadline(self):
        """What had its time did not use it."""
        if self.process.returncode is not None:
            self.end_now()
            return
        if self.level == 0 and self.running():
            say("ending " + ", ".join(worker.name() for worker in self.running()))
        self.step()

    def step(self):
        """Ends the job: first politely through the shims, then through their starter, then at once."""
        self.level += 1
        self.gather_by = None
        self.give(STEP_SECONDS)
        if self.level == 1:
            for link in self.links:
                link.order()
        elif self.level == 2:
            self.process.terminate()
        else:
            self.end_now()

    def end_at_once(self):
        """The starter is asked to end, not killed: it may have to take a job back from a batch system."""
        if self.level > 1:
            self.end_now()
            return
        self.level, self.gather_by = 2, None
        for link in self.links:
            link.kill()
        self.process.terminate()
        self.give(STEP_SECONDS)

    def end_now(self):
        """A shim that loses its connection kills its command, and the starter's end ends its helpers."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        for link in list(self.links):
            self.events.unregister(link.connection)
            link.connection.close()
            self.links.discard(link)
        end_all()

    def over(self):
        """A shim starts its command only when it has been welcomed, so none has said all without a link."""
        return self.process.returncode is not None and not self.links
