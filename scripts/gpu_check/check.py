"""Runs the sections, one after the other, and collects their results."""
import concurrent.futures
import dataclasses
import json
import time

from gpu_check import processes

PASSED, FAILED, NOT_RUN = "passed", "failed", "could not run"


class CouldNotRun(Exception):
    """This machine lacks what the section needs."""


class Failed(Exception):
    """Something is wrong with tutti."""


@dataclasses.dataclass(frozen=True)
class Section:
    name: str
    limit: int  # seconds
    run: object  # takes the Attempt, returns a line about it


@dataclasses.dataclass
class Attempt:
    """The inputs of a section, and its results. It has results even if the section does not come to its end."""
    kit: object
    quick: bool
    deadline: float
    rows: list = dataclasses.field(default_factory=list)
    facts: dict = dataclasses.field(default_factory=dict)
    words: str = ""  # the last words of the last program

    def run(self, words, **variables):
        """Runs a program within the section's time. The caller judges its status."""
        done = processes.run([str(word) for word in words], {**self.kit.environment, **variables},
                             self.deadline - time.monotonic())
        self.words = done.last_words()
        return done

    def run_together(self, commands):
        """Runs several programs at the same time."""
        left = self.deadline - time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(len(commands)) as pool:
            started = [pool.submit(processes.run, [str(word) for word in words], self.kit.environment, left)
                       for words in commands]
            done = [each.result() for each in started]
        self.words = "\n".join(each.last_words(1000) for each in done)
        return done

    def program(self, name):
        found = self.kit.program(name)
        if found is None:
            raise CouldNotRun(f"the carried build has no {name}")
        return found

    def library(self, name):
        found = self.kit.library(name)
        if found is None:
            raise CouldNotRun(f"the carried build has no {name}")
        return found

    def tool(self, name):
        found = self.kit.tool(name)
        if found is None:
            raise CouldNotRun(f"this machine has no {name}")
        return found

    def passes(self, words, **variables):
        """Runs a program that ends with 0 if all is well."""
        done = self.run(words, **variables)
        if done.overdue:
            raise Failed(f"it did not end within {done.seconds:.0f} s")
        if done.status != 0:
            raise Failed(f"it ended with status {done.status}")
        return done

    def measures(self, words, **variables):
        """Runs a program that prints one row of figures a line. Keeps the printed rows, even if the program fails."""
        return self.figures(self.run(words, **variables))

    def rows_of(self, done, **beside):
        """Returns the rows that a program printed. Keeps each of them together with these facts."""
        rows = [{**row, **beside} for row in rows_in(done.out)]
        self.rows += rows
        return rows

    def figures(self, done, **beside):
        """Does the same as rows_of, for a program that ends with 0 if all is well."""
        rows = self.rows_of(done, **beside)
        if done.overdue:
            raise Failed(f"it did not end within {done.seconds:.0f} s; {len(rows)} figures were measured")
        if done.status != 0:
            raise Failed(f"it ended with status {done.status} after {len(rows)} figures")
        if any(row.get("wrong") for row in rows):
            raise Failed("the data are wrong in " + json.dumps(next(row for row in rows if row.get("wrong"))))
        return rows


def rows_in(text):
    for line in text.splitlines():
        try:
            row = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(row, dict):
            yield row


def run_section(section, kit, quick, left):
    """Returns (the entry in the record, the attempt)."""
    began = time.monotonic()
    limit = min(section.limit, left)
    attempt = Attempt(kit, quick, began + limit)
    try:
        if limit < 1:
            raise CouldNotRun("no time was left")
        outcome, why = PASSED, section.run(attempt) or ""
    except CouldNotRun as problem:
        outcome, why = NOT_RUN, str(problem)
    except Failed as problem:
        outcome, why = FAILED, str(problem)
    except Exception as problem:  # pylint: disable=broad-except
        # A mistake in one section must not lose the results of the others.
        outcome, why = FAILED, f"gpu-check itself: {type(problem).__name__}: {problem}"
    said = {"section": section.name, "outcome": outcome, "about": why, "seconds": round(time.monotonic() - began, 1),
            "limit_s": section.limit}
    if outcome != PASSED and attempt.words:
        said["last_words"] = attempt.words
    return said, attempt
