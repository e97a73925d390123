"""What this project's programs in Python have in common on their command lines."""
import argparse
import difflib


def meant(word, known):
    """What an error says of the known one that a word is nearest to: nothing where there is none."""
    near = difflib.get_close_matches(word, known, n=1)
    return f"; did you mean {near[0]}?" if near else ""


class Parser(argparse.ArgumentParser):
    """Takes no abbreviation for an option. Of a misspelt one it says which was meant."""

    def __init__(self, **words):
        super().__init__(allow_abbrev=False, **words)

    def parse_known_args(self, args=None, namespace=None):
        # Those of a subcommand come by here too, with its own options.
        given, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error("; ".join(map(self._complaint, unknown)))
        return given, unknown

    def _complaint(self, word):
        if not word.startswith("-"):
            return f"unexpected word {word}"
        name = word.partition("=")[0]
        return f"unknown option {name}" + meant(name, [known for action in self._actions for known in action.option_strings])
