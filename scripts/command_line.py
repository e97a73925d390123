"""Code for the command lines of this project's Python programs."""
import argparse
import difflib
import functools
import hashlib
import os
import pathlib
import re
import signal
import sys


def as_escape(character):
    """Escapes a byte that is not UTF-8."""
    code = ord(character)
    return f"\\x{code - 0xdc00:02x}" if 0xdc80 <= code <= 0xdcff else character.encode("unicode_escape").decode()


def printable(text, most=400):
    """Makes text from elsewhere, such as a path or a host's name, a part of one line. Characters on which a terminal or
    a reader of lines would act become escapes. If the text is too long, the middle is left out."""
    left_out = len(text) - most
    if left_out > 0:
        text = f"{text[:most * 2 // 3]} [... {left_out} characters ...] {text[len(text) - most // 3:]}"
    return "".join(c if c.isprintable() or c == "\t" else as_escape(c) for c in text)


def file_problem(error):
    """Words an OSError about a file for users."""
    return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror or str(error)


def meant(word, known):
    """Returns the part of an error that names the known word most similar to this one. Empty if none is similar."""
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def version():
    """The project's version. The package has it in a file beside this one. In a source tree meson.build has it."""
    here = pathlib.Path(__file__).resolve().parent
    try:
        return (here / "version").read_text(encoding="ascii").strip()
    except FileNotFoundError:
        pass
    try:
        build = (here.parent / "meson.build").read_text(encoding="utf-8")
        return re.search(r"^  version: '(.*)'", build, re.MULTILINE)[1]
    except FileNotFoundError:
        return "of an unknown version"


class ShowVersion(argparse.Action):
    """Does the same as argparse's own action, but looks the version up only when the user asks for it."""

    def __call__(self, parser, namespace, values, option_string=None):
        print(f"tutti {version()}")
        parser.exit()


def program():
    """The name of this program as the user typed it, without its folder."""
    module = getattr(sys.modules["__main__"], "__spec__", None)
    if module is not None:
        return "python -m " + module.name.removesuffix(".__main__")
    return os.path.basename(sys.argv[0])


def is_first_to_say(text):
    """Whether no other rank of an Open MPI job has printed this text on this machine. All ranks may have the same
    error, such as an unknown option, and the user should read it once. A file in the job's own folder, which mpirun
    removes, remembers the text. True for a process outside of such a job."""
    folder = os.environ.get("PMIX_SERVER_TMPDIR")
    if not folder:
        return True
    name = hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()
    try:
        os.close(os.open(f"{folder}/tutti-said-{name}", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except FileExistsError:
        return False
    except OSError:
        pass
    return True


def quiet_when_cut_off(main):
    """Wraps a main function. If its reader has ended, as in `program | head`, it ends with a shell's status for it."""
    @functools.wraps(main)
    def ending_quietly():
        try:
            try:
                return main()
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            # Otherwise Python would try again at its end, and report another failure.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 128 + signal.SIGPIPE
    return ending_quietly


class Parser(argparse.ArgumentParser):
    """A parser that takes no abbreviated options. For a misspelt option, choice or command it suggests another."""

    def __init__(self, **words):
        super().__init__(allow_abbrev=False, **{"prog": program(), **words})
        self.add_argument("--version", action=ShowVersion, nargs=0, help="show the version and exit")

    def parse_known_args(self, args=None, namespace=None):
        # The parsers of subcommands call this, too, with their own options.
        words = sys.argv[1:] if args is None else list(args)
        # Otherwise the value of a misspelt option before a command would be taken for the command.
        if words and self._is_unknown(words[0]):
            self.error(self._complaint(words[0]))
        given, unknown = super().parse_known_args(words, namespace)
        if unknown:
            self.error("; ".join(map(self._complaint, unknown)))
        return given, unknown

    def _check_value(self, action, value):
        if action.choices is not None and value not in action.choices:
            what = (f"{action.option_strings[-1]} {value}: unknown" if action.option_strings
                    else f"unknown {action.metavar.lower()} {value}")
            known = [str(choice) for choice in action.choices]
            raise argparse.ArgumentError(None, f"{what}; known are {', '.join(known)}" + meant(str(value), known))

    def error(self, message):
        if not is_first_to_say(f"{self.prog}: {message}"):
            self.exit(2)
        super().error(printable(message))

    def _options(self):
        return [name for action in self._actions for name in action.option_strings]

    def _is_unknown(self, word):
        name = word.partition("=")[0]
        return len(name) > 1 and name[0] == "-" and name != "--" and not name[1].isdigit() and not (
            name in self._options() or (name[1] != "-" and name[:2] in self._options()))

    def _complaint(self, word):
        if not word.startswith("-"):
            return f"unexpected word {word}"
        name = word.partition("=")[0]
        return f"unknown option {name}" + meant(name, self._options())


def root_given(about):
    """Returns the one argument of the checks of the sources: the root of another tree than their own."""
    parser = Parser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", metavar="ROOT", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[1])
    root = parser.parse_args().root
    if not root.is_dir():
        parser.error(f"{root} is no folder")
    return root
