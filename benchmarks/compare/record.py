"""The JSON that a run leaves."""
import dataclasses
import datetime
import json
import re

from compare.emulated import Links


def without_folders(text):
    """Replaces each path by its last part: readers of a record have no use for this machine's folders."""
    url, start = r"(\w+://\S+)", r"(?:(?<=\s-[IL])|(?<![\w.+~])[.~]{0,2})"
    return re.sub(url + "|" + start + r"/(?:[\w.+@%~-]+/)+", lambda found: found[1] or "", text)


def document(request, machine, outcome):
    return {
        "suite": request.suite,
        "part": request.part,
        "time": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "quick": request.quick,
        "rounds": request.rounds,
        "machine": machine,
        "notes": outcome.notes,
        "skipped": {who: without_folders(why) for who, why in outcome.skipped.items()},
        "targets": [dataclasses.asdict(verdict) for verdict in outcome.verdicts],
        **outcome.extra,
        "rows": outcome.rows,
    }


def free_stem(folder, stem):
    """A name that no file has: a second run on one day does not overwrite the first."""
    names = [stem, *(f"{stem}-{number}" for number in range(2, 100))]
    return next(name for name in names if not (folder / f"{name}.json").exists())


def write(request, written):
    """Writes the record, each row on a line of its own. Returns [the file]."""
    request.out.mkdir(parents=True, exist_ok=True)
    rate = f"{request.links.rate / 1e6:g}mbit" if request.links != Links() else ""
    epyc = "epyc" if written["machine"]["cpu"].startswith("AMD EPYC") else ""
    words = [datetime.date.today().isoformat(), request.suite, *filter(None, [request.part, rate, epyc])]
    path = request.out / f"{free_stem(request.out, '-'.join(words))}.json"
    head = json.dumps({name: value for name, value in written.items() if name != "rows"}, indent=1)
    rows = ",\n".join(json.dumps(row) for row in written["rows"])
    path.write_text(head[:-len("\n}")] + ',\n "rows": [\n' + rows + "\n]\n}\n")
    return [path]
