"""Sources that clang reads as one, and so reads the headers once for all of them."""
import shlex

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


def in_groups(pairs, kind_of, at_once):
    """Lists of at most so many of these pairs, which are of one kind. A pair is a source and its entry in a compilation
    database."""
    alike = {}
    for source, entry in pairs:
        alike.setdefault(kind_of(source, entry), []).append((source, entry))
    return [pairs[first:first + at_once] for pairs in alike.values() for first in range(0, len(pairs), at_once)]


def as_one(sources):
    """The text of one source that consists of these."""
    return "".join(f'#include "{source}"\n' for source in sources)
