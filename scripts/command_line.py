"""Shared code of this project's Python programs for their command lines."""
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
    """A byte that is no UTF-8 as that byte."""
    code = ord(character)
    return f"\\x{code - 0xdc00:02x}" if 0xdc80 <= code <= 0xdcff else character.encode("unicode_escape").decode()


def printable(text, most=400):
    """Text from elsewhere, such as a path or a host's name, as a part of one line: what a terminal or a reader of
    lines would act upon stands there as an escape, and of one that is too long the middle is left out."""
    left_out = len(text) - most
    if left_out > 0:
        text = f"{text[:most * 2 // 3]} [... {left_out} characters ...] {text[len(text) - most // 3:]}"
    return "".join(c if c.isprintable() or c == "\t" else as_escape(c) for c in text)


def file_problem(error):
    """An OSError about a file, worded for users."""
    return f"{error.filename}: {error.strerror}" if error.filename is not None else error.strerror or str(error)


def meant(word, known):
    """The part of an error that names the known word nearest to this one. Nothing if none is near."""
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


def version():
    """The project's. The package has it in a file beside this one; else the tree of this file's sources says it."""
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
    """As argparse's own, but the version is looked up only when it is asked for."""

    def __call__(self, parser, namespace, values, option_string=None):
        print(f"tutti {version()}")
        parser.exit()


def program():
    """This program as the user typed it, without its folder."""
    module = getattr(sys.modules["__main__"], "__spec__", None)
    if module is not None:
        return "python -m " + module.name.removesuffix(".__main__")
    return os.path.basename(sys.argv[0])


def is_first_to_say(text):
    """Whether no other rank of an Open MPI job has said this on this machine: what all ranks are told in the same
    words, such as that an option is unknown, the user reads once. Remembered in the job's own folder, which mpirun
    removes. True for a process outside of such a job."""
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
    """A main function whose reader may have gone, as in `program | head`: it ends with a shell's status for that."""
    @functools.wraps(main)
    def ending_quietly():
        try:
            try:
                return main()
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            # Else Python would try again at its end, and say so.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 128 + signal.SIGPIPE
    return ending_quietly


class Parser(argparse.ArgumentParser):
    """Takes no abbreviation for an option. For a misspelt option, choice or command it says which one was meant."""

    def __init__(self, **words):
        super().__init__(allow_abbrev=False, **{"prog": program(), **words})
        self.add_argument("--version", action=ShowVersion, nargs=0, help="show the version and exit")

    def parse_known_args(self, args=None, namespace=None):
        # Those of a subcommand come by here too, with its own options.
        words = sys.argv[1:] if args is None else list(args)
        # Else a misspelt option before a command would have its value taken for the command.
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
    """The one word that checks of the sources take: another tree than the one they lie in."""
    parser = Parser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", nargs="?", metavar="ROOT", type=pathlib.Path,
                        default=pathlib.Path(__file__).resolve().parents[1])
    root = parser.parse_args().root
    if not root.is_dir():
        parser.error(f"{root} is no folder")
    return root
