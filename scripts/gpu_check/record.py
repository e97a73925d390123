"""The JSON that a run leaves, and its table."""
import datetime
import json
import os
import pathlib

from compare import machine
from compare.record import free_stem, without_folders
from compare.table import grid

RESULTS = pathlib.Path(__file__).resolve().parents[2] / "benchmarks/results"


def dated(folder=RESULTS):
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"{free_stem(folder, datetime.date.today().isoformat() + '-gpu')}.json"


class Record:
    """The record is written again after each section, so that a run that is killed leaves its results."""

    def __init__(self, path, kit, quick):
        self.path = path
        self.head = {
            "suite": "gpu-check",
            "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "quick": quick,
            "machine": {**machine.describe(kit.folder), **kit.manifest},
            "complete": False,
        }
        self.sections, self.rows = [], []

    def add(self, said, attempt):
        self.sections.append({key: without_folders(value) if isinstance(value, str) else value
                              for key, value in said.items()})
        self.head["machine"].update({name: without_folders(value) if isinstance(value, str) else value
                                     for name, value in attempt.facts.items()})
        self.rows += attempt.rows
        self.write()

    def finish(self):
        self.head["complete"] = True
        self.write()

    def write(self):
        """Writes each section and each row on a line of its own."""
        head = json.dumps(self.head, indent=1)
        lists = (f' "{name}": [\n' + ",\n".join(map(json.dumps, each)) + "\n ]"
                 for name, each in (("sections", self.sections), ("rows", self.rows)))
        whole = self.path.with_name(self.path.name + ".new")
        whole.write_text(head[:-len("\n}")] + ",\n" + ",\n".join(lists) + "\n}\n")
        os.replace(whole, self.path)

    def table(self):
        return grid(["section", "outcome", "seconds", "about"],
                    [(said["section"], said["outcome"], f"{said['seconds']:.1f}", said["about"])
                     for said in self.sections])
