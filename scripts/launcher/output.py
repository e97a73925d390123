"""How lines reach the user: whole, with the worker that wrote them, the moment they come."""
import os
import re
import signal
import sys
import time

from command_line import printable, program

# What moves a terminal's cursor, clears it or colours it: ECMA-48's control sequences, strings such as a window's
# title, and the short ones.
CONTROL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)|[ -/]*[0-~])")
# Text may end within such a sequence.
CONTROL_BEGUN = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|[\]PX^_][^\x07\x1b]*|[ -/]*)\Z")
LONGEST_TEXT = 2000
# How often an unfinished line is shown from its start, if it goes on.
AGAIN_SECONDS = 10.0


class CannotWrite(Exception):
    """A stream takes no more of the workers' lines, so the job is over."""

    def __init__(self, stream, error):
        super().__init__(f"cannot write to standard {stream}: {error.strerror}; the job was ended")
        # A reader that has gone is how `launch.py ... | head` ends.
        self.code = 128 + signal.SIGPIPE if isinstance(error, BrokenPipeError) else 1


def open_standard_streams():
    """Lets output to a stream that was closed go nowhere. Otherwise the next file that is opened would take the
    stream's place, and get the output.
    """
    while True:
        fd = os.open(os.devnull, os.O_RDWR)
        if fd > 2:
            os.close(fd)
            break
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)


def settle_standard_streams():
    """Drops output that the streams hold and cannot write. Otherwise Python would try again at its end, and change the
    exit code.
    """
    for fd, stream in ((1, sys.stdout), (2, sys.stderr)):
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), fd)


def as_on_terminal(line):
    """The text that a terminal would show of a line in which a progress display went back to its start."""
    return line.rstrip("\r").rpartition("\r")[2]


def say(text, lines=()):
    """A line of the launcher's own, told apart from the workers' by its name, and others that belong to it. Here
    all of it becomes fit for a terminal, whoever named the hosts and wrote the lines."""
    try:
        end_unfinished(sys.stderr)
        print("\n".join([f"{program()}: {printable(text, LONGEST_TEXT)}", *(f"  {printable(line)}" for line in lines)]),
              file=sys.stderr, flush=True)
    except (OSError, CannotWrite):
        pass  # nobody is left to tell, and the exit code says the rest


def screen_of(file):
    """Standard output and standard error often are one."""
    status = os.fstat(file.fileno())
    return status.st_dev, status.st_ino


# By screen: the process and stream whose line is unfinished there. Whatever is written next ends that line.
unfinished_on = {}


def end_unfinished(file):
    if unfinished_on and unfinished_on.pop(screen_of(file), None):
        put(file, "\n")


def write(file, texts):
    """Whole lines."""
    if texts:
        end_unfinished(file)
        put(file, "".join(text + "\n" for text in texts))


def put(file, text):
    """Bytes that are no UTF-8 arrive as they left."""
    left = memoryview(text.encode("utf-8", "surrogateescape"))
    try:
        # With PYTHONUNBUFFERED a write that a signal interrupts takes only a part.
        while left:
            left = left[file.buffer.write(left):]
        file.buffer.flush()
    except OSError as error:
        raise CannotWrite("output" if file is sys.stdout else "error", error) from error


class Begun:
    """A line of which a part was shown."""

    def __init__(self, text, visible, since):
        self.text, self.visible, self.since = text, visible, since

    def goes_on(self, file, visible):
        """Only a terminal takes back what it shows."""
        return file.isatty() or visible.startswith(self.visible)

    def more(self, file, head, text, visible):
        """The text to write behind it. If the text goes back to its start, the terminal does, too, and needs the head
        anew.
        """
        added = text[len(self.text):].replace("\r", "\r" + head) if file.isatty() else visible[len(self.visible):]
        self.text, self.visible = text, visible
        return added

    def to_end(self, file, head, text, line):
        if file.isatty():
            return self.more(file, head, text.rstrip("\r"), "")
        shown = head + self.visible
        return line[len(shown):] if line.startswith(shown) else "\n" + line


class Printer:
    def __init__(self, prefix):
        self.prefix = prefix
        self.begun = {}  # (title, stream): Begun, where a part of its line was shown

    def as_shown(self, title, stream, texts):
        """A process's lines byte by byte: on a terminal its colours are its own, and elsewhere, where they mean
        nothing, they are left out."""
        file, head = self.place(title, stream)
        shown = [head + as_on_terminal(text) for text in texts]
        return shown if file.isatty() else [CONTROL.sub("", text) for text in shown]

    def lines(self, title, stream, texts):
        """Prints a process's lines on its stream (1 or 2). Returns them as printed."""
        file, head = self.place(title, stream)
        shown = self.as_shown(title, stream, texts)
        begun = self.begun.pop((title, stream), None) if texts else None
        if begun and unfinished_on.get(screen_of(file)) == (title, stream):
            del unfinished_on[screen_of(file)]
            put(file, begun.to_end(file, head, texts[0], shown[0]) + "\n")
            write(file, shown[1:])
        else:
            write(file, shown)
        return shown

    def unfinished(self, title, stream, text):
        """Shows how far a line is. It goes on where it stands unless another line came in between: then it is shown
        again from its start, when it ends or after a time."""
        file, head = self.place(title, stream)
        key, screen, now = (title, stream), screen_of(file), time.monotonic()
        begun, visible = self.begun.get(key), as_on_terminal(text)
        if not file.isatty():
            visible = CONTROL.sub("", CONTROL_BEGUN.sub("", visible))
        if begun and unfinished_on.get(screen) == key and begun.goes_on(file, visible):
            put(file, begun.more(file, head, text, visible))
        elif visible and (not begun or now >= begun.since + AGAIN_SECONDS):
            end_unfinished(file)
            put(file, head + visible)
            unfinished_on[screen] = key
            self.begun[key] = Begun(text, visible, now)

    def place(self, title, stream):
        """(the file, what each line begins with)."""
        return sys.stdout if stream == 1 else sys.stderr, f"[{title}] " if self.prefix else ""

    @staticmethod
    def note(name, line):
        """A line of what starts the processes, such as mpirun, or of a host's that it could not start on."""
        text = printable(line.rstrip("\r"))
        write(sys.stderr, [text if text.startswith(f"{name}: ") else f"{name}: {text}"])
