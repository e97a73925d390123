"""One job from the launcher's side: hears the shims, shows their lines, ends what must end."""
import os
import secrets
import selectors
import signal
import subprocess
import time

from launcher import mpirun, shim
from launcher.door import Door
from launcher.output import Printer, say
from launcher.worker import Link, Worker, lost_in_turn

# Between two steps of ending a job, each harsher than the one before.
STEP_SECONDS = 5.0
# Once mpirun has ended, how long its shims' next words may be under way.
LINGER_SECONDS = 2.0
# Once every worker has ended, how long mpirun may take to notice.
LEAVE_SECONDS = 10.0


class Job:
    """Use: contact, start, run. One thread; every wait has mpirun's end or a deadline behind it."""

    def __init__(self, request, addresses):
        """Listens at these addresses, or, without any, for workers of this machine."""
        self.request = request
        self.printer = Printer(request.prefix)
        self.workers, self.links = {}, set()
        self.failed = None         # the worker that failed first
        self.signal = None         # that ended the launcher
        self.level, self.deadline = 0, None
        self.mpirun, self.unfinished = None, b""
        self.events = selectors.DefaultSelector()
        self.wake, self.wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self.events.register(self.wake, selectors.EVENT_READ, self.on_signal)
        token = secrets.token_hex(16)
        self.door = Door(self.events, token, request.processes(), addresses, self.admit)
        self.contact = token + "@" + ",".join(self.door.places)

    def start(self, words, env):
        """mpirun gets a session of its own, so that Ctrl-C reaches it through this process alone."""
        shim.adopt_orphans()
        signal.set_wakeup_fd(self.wake_write)
        for number in (signal.SIGCHLD, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda *_: None)
        self.mpirun = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, start_new_session=True,
                                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       preexec_fn=shim.dies_with_parent(signal.SIGTERM))
        self.events.register(self.mpirun.stdout, selectors.EVENT_READ, self.on_mpirun)

    def run(self):
        """Until all is over. Returns the exit code."""
        try:
            while not self.over():
                for key, _ in self.events.select(self.seconds_left()):
                    key.data()
                self.door.expire()
                if self.deadline is not None and time.monotonic() >= self.deadline:
                    self.on_deadline()
        finally:
            self.door.close()
            self.end_now()
        return self.conclude()

    def seconds_left(self):
        """Until the next deadline; None without one."""
        deadlines = [at for at in (self.deadline, self.door.deadline()) if at is not None]
        return max(0.0, min(deadlines) - time.monotonic()) if deadlines else None

    # What happens

    def on_mpirun(self):
        data = os.read(self.mpirun.stdout.fileno(), 65536)
        *lines, rest = (self.unfinished + data).split(b"\n")
        if rest and (not data or len(rest) > shim.LONGEST_LINE):
            lines, rest = lines + [rest], b""
        self.unfinished = rest
        for line in lines:
            text = line.decode("utf-8", "surrogateescape")
            if not mpirun.NOISE.search(text):
                self.printer.note(text)
        if not data:
            self.events.unregister(self.mpirun.stdout)

    def admit(self, connection, rank, host):
        """Whether this is a worker that is awaited: then the connection is its own from now on."""
        if rank in self.workers or rank >= self.request.processes():
            return False
        self.workers[rank] = Worker(rank, host, self.request.title(rank), self.request.numbers())
        link = Link(connection, self.workers[rank])
        self.links.add(link)
        self.events.modify(connection, selectors.EVENT_READ, lambda: self.on_link(link))
        link.welcome()
        if self.level > 0:
            link.order()
        self.end_the_silent()
        self.dismiss_servers()
        return True

    def on_link(self, link):
        if link not in self.links:
            return
        if self.mpirun.returncode is not None:
            self.give(LINGER_SECONDS)
        messages = link.read()
        if messages is None:
            self.on_link_end(link)
            return
        for message in messages:
            self.on_message(link.worker, message)

    def on_message(self, worker, message):
        if "lines" in message:
            worker.hear(message["lines"])
            worker.last += self.printer.lines(worker.title, message["stream"], message["lines"])
        if "exit" in message:
            worker.status, worker.told = message["exit"], message["told"]
            if worker.status != 0:
                self.on_failure(worker)
        if worker.status is not None:  # an exit is told before the last lines
            self.end_the_silent()
            self.dismiss_servers()

    def on_link_end(self, link):
        self.events.unregister(link.connection)
        link.connection.close()
        self.links.discard(link)
        if link.worker.status is None:
            self.on_failure(link.worker)
        if len(self.workers) == self.request.processes() and not self.links:
            self.give(LEAVE_SECONDS)

    def on_failure(self, worker):
        """The first one counts; those that were told to end do not."""
        if self.failed or worker.told or self.level > 0:
            return
        self.failed = worker
        # Those that have not been heard of yet have their time, too.
        left = self.request.processes() - len(self.workers) + len(self.running())
        if left:
            say(f"{worker.name()} {worker.fate()}; {left} more {'has' if left == 1 else 'have'} "
                f"{self.request.grace:g} s to end by themselves")
            self.give(self.request.grace)

    def end_the_silent(self):
        """A process that is stopped, or comes too late to start, would not use its time: once all others have lost it
        and ended, nobody waits for it."""
        silent = set().union(*(worker.silent for worker in self.workers.values()))
        left = self.running()
        if self.level > 0 or not left or len(self.workers) < self.request.processes():
            return
        if all(worker.rank in silent for worker in left):
            self.failed = self.failed or left[0]
            self.on_deadline()

    def dismiss_servers(self):
        """Servers end when the workers' stores have closed. Workers that had none leave them waiting."""
        workers = [worker for rank, worker in self.workers.items() if rank < self.request.workers]
        ended = len(workers) == self.request.workers and all(worker.status is not None for worker in workers)
        if ended and self.level == 0 and self.failed is None and self.running():
            self.give(STEP_SECONDS)

    def on_signal(self):
        for number in os.read(self.wake, 4096):
            if number != signal.SIGCHLD:
                self.signal = self.signal or number
                self.step()
        if self.mpirun and self.mpirun.poll() is not None:
            self.give(LINGER_SECONDS)

    def running(self):
        return [link.worker for link in self.links if link.worker.status is None]

    # Ending

    def give(self, seconds):
        self.deadline = time.monotonic() + seconds

    def on_deadline(self):
        """What had its time did not use it."""
        if self.mpirun.returncode is not None:
            self.end_now()
            return
        if self.level == 0 and self.running():
            say("ending " + ", ".join(worker.name() for worker in self.running()))
        self.step()

    def step(self):
        """Ends the job: first politely through the shims, then through mpirun, then at once."""
        self.level += 1
        self.give(STEP_SECONDS)
        if self.level == 1:
            for link in self.links:
                link.order()
        elif self.level == 2:
            self.mpirun.terminate()
        else:
            self.end_now()

    def end_now(self):
        """A shim that loses its connection kills its command, and mpirun's end ends its helpers."""
        if self.mpirun.poll() is None:
            os.killpg(self.mpirun.pid, signal.SIGKILL)
            self.mpirun.wait()
        for link in list(self.links):
            self.events.unregister(link.connection)
            link.connection.close()
            self.links.discard(link)
        shim.end_all()

    def over(self):
        """A shim starts its command only when it has been welcomed, so none has said all without a link."""
        return self.mpirun.returncode is not None and not self.links

    def conclude(self):
        """Names what went wrong, last of all. Returns the exit code."""
        if self.door.turned_away:
            say(f"{self.door.turned_away:,} connections that did not show this job's token were turned away; "
                f"the first came from {self.door.first_origin}")
        if self.failed:
            return self.conclude_failure(lost_in_turn(self.workers, self.failed))
        if self.signal:
            say(f"ended by {signal.Signals(self.signal).name}")
            return 128 + self.signal
        lost = next((worker.lost for rank, worker in self.workers.items() if rank < self.request.workers
                     and worker.lost in self.workers and not worker.lost_left), None)
        if lost is not None:
            say(f"the others lost {self.workers[lost].name()}, though it {self.workers[lost].fate()}")
            return 1
        return self.conclude_mpirun()

    def conclude_failure(self, chain):
        """The last of them that ended badly was the first to fail. One that it had lost and that ended well is
        named beside it."""
        first = next(worker for worker in reversed(chain) if worker.status != 0)
        text = f"{first.name()} was the first to fail: it {first.fate()}."
        if first is not chain[-1]:
            text += f" It had lost {chain[-1].name()}, which {chain[-1].fate()}."
        say(text + (" Its last lines:" if first.last else " It had printed nothing."), first.last)
        return first.code()

    def conclude_mpirun(self):
        well = [worker for rank, worker in self.workers.items()
                if worker.status == 0 and rank < self.request.workers]
        missing = self.request.workers - len(well)
        if missing or self.mpirun.returncode:
            code = self.mpirun.returncode
            say(f"{mpirun.NAMES[self.request.mode]} ended with {code}, and {missing} of {self.request.workers} workers "
                "did not end well or never started; what it said is above")
            return code if code > 0 else 128 - code if code < 0 else 1
        return 0
