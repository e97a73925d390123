"""Sources that clang reads as one, and so reads the headers once for all of them."""
import shlex

#: As many as g++ compiles as one.
AT_ONCE = 8
#: As where g++ compiles several as one, a constant of one file may hide a name of another.
NO_SHADOW = "-Wno-shadow"
#: Words of a compiler's command that ask for an object or for its dependencies, with the number of words after each.
OF_OBJECTS = {"-c": 0, "-MD": 0, "-MQ": 1, "-MF": 1, "-o": 1, "ccache": 0}


def reading(command, file):
    """The command that only reads what this one compiles, and without the file that it compiles."""
    words, kept = iter(shlex.split(command)), []
    for word in words:
        if word in OF_OBJECTS:
            for _ in range(OF_OBJECTS[word]):
                next(words)
        elif word != file:
            kept.append(word)
    return (*kept, "-fsyntax-only")


def in_groups(entries):
    """[(folder, command without a source, sources)]: at most AT_ONCE sources in each, which one command compiles.
    `entries` are pairs of an entry of a compilation database and its source."""
    alike = {}
    for entry, source in entries:
        alike.setdefault((entry["directory"], reading(entry["command"], entry["file"])), []).append(source)
    return [(*command, sources[first:first + AT_ONCE]) for command, sources in alike.items()
            for first in range(0, len(sources), AT_ONCE)]


def as_one(sources):
    """The text of one source that consists of these."""
    return "".join(f'#include "{source}"\n' for source in sources)
