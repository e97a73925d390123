"""Runs the programs of the page on Python, or on MXNet, and README's table of what users type.

    mpirun -n N python package_pages.py ROOT [MXNet]

Every rank of an MPI job runs it, and the job has three ranks at least. The Python that runs it has the package, and for
MXNet that, too. The last line of each rank says that all is well.
"""
import code
import pathlib
import re
import sys

import numpy as np

import tutti


def page(name):
    return (pathlib.Path(sys.argv[1]) / name).read_text(encoding="utf-8")


def section(title):
    """The section of README with this title."""
    return re.search(rf"^## {title}\n(.*?)^## ", page("README.md"), re.MULTILINE | re.DOTALL)[1]


def paste(text):
    """Runs the code line by line, as an interpreter does. Its output goes to stdout, and an exception ends the program.
    """
    console = code.InteractiveConsole()
    failed = []
    console.showtraceback = lambda: failed.append(sys.exc_info()[1])
    console.showsyntaxerror = console.showtraceback
    for line in [*text.splitlines(), ""]:
        console.push(line)
    if failed:
        raise failed[0]


def type_in(line, names):
    """Runs one entry of the table on each rank that it concerns."""
    ranks = re.search(r"ranks=\[(.*?)\]", line)
    if ranks and str(names["kv"].rank) not in ranks[1].split(", "):
        return
    done = eval(line, names)  # pylint: disable=eval-used
    if isinstance(done, tutti.Pending):
        done.wait()
    elif isinstance(done, tutti.KVStore):
        assert not ranks or done.num_workers == 2
        done.close()


def names_for(kv):
    """The names that the table's entries use."""
    if MXNET:
        import mxnet
        weight = mxnet.gluon.Parameter("w", shape=(3,))
        weight.initialize()
        return {"gluon": mxnet.gluon, "w": {"w": weight}}
    return {"tutti": tutti, "kv": kv, "k": "key", "g": np.ones(4), "names": ["v", "w"],
            "weights": [np.ones(2), np.ones(3)]}


MXNET = sys.argv[2:] == ["MXNet"]
shown = page("bindings/python/MXNET.md" if MXNET else "bindings/python/README.md")
blocks = re.findall(r"^```python\n(.*?)^```", shown, re.MULTILINE | re.DOTALL)
assert blocks
for block in blocks:
    paste(block)

cells = [row.split(" | ")[1] for row in section("What you type").splitlines() if row.startswith("| ")]
lines = [line for cell in cells for line in re.findall(r"`(.*?)`", cell)
         if "->" not in line and "init_process_group" not in line and ("gluon" in line) == MXNET]
assert len(lines) >= (1 if MXNET else 6), lines
with tutti.create("dist_sync_mpi") as kv:
    typed = names_for(kv)
    for line in lines:
        type_in(line, typed)
    assert MXNET or typed["g"][0] == kv.num_workers ** 3, typed["g"]  # of three sums and an average
    print(f"worker {kv.rank}: well", flush=True)
