#!/usr/bin/env python3
"""Checks that every promise of the drop-in for Apache MXNet has tests named after it, in files that are run.

    mxnet_contract.py [ROOT]

Each line below says what MXNet 1.9.1 does. The sentences under it say what a script gets with tutti. They are the names
of methods in test/python/mxnet_*.py and test_mxnet.py. The files in PARTS of test_mxnet.py run with 1, 3 and 4 ranks,
and those in SERVED with 1 to 3 workers. The others run with as many as they need.
"""
import ast
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from command_line import root_given

LINES = {
    # The way in which MXNet calls a store.
    "create looks a lower-cased name up among the registered classes, and makes a store of its own of any other": (
        "a store is found by its name in any case",
        "a name that nobody knows is refused, and no store of one process",
        "a store that a program registers is known",
    ),
    "stores are registered by an import, by python -m tutti, or by the launcher through a .pth file": (
        "MXNet keeps its own types",
        "the store is found by a script that does not name tutti",
        "elsewhere the servers' names stay those of MXNet",
        "under the launcher the servers' names are tutti's",
        "the servers' names are tutti's in any case",
    ),
    "is_capable is static, takes any case, knows 'optimizer' alone and raises ValueError for others": (
        "a store updates no weights and knows no other capability",
        "a store updates weights and knows no other capability",
    ),
    "a Trainer creates, asks, sets compression, broadcasts once, and sums in place with priority -i": (
        "a trainer sets the store up, gives rank 0's weights once and sums each gradient in place",
        "of calls that wait those of higher priority go first",
    ),
    "the store must be true": (
        "a store is one of MXNet and true",
    ),
    "without the capability the Trainer updates by itself": (
        "update_on_kvstore is false by itself, whatever the environment says",
        "update_on_kvstore true is an error that says false",
        "ranks and devices train like one process with the joint batch",
    ),
    "a type with 'async' forces updates on the store": (
        "a type with async is refused since nobody updates on the store",
        "a trainer must update on the servers",
    ),
    "a type with 'dist' forbids to reset the store": (
        "a trainer does not let its store be reset",
    ),
    "Module.fit calls init and never pulls": (
        "init gives the value of rank 0 and says so",
        "modules begin with worker 0's weights and train like one process",
        "modules that update on the workers begin with worker 0's weights too",
        "modules begin with rank 0's weights and train like one process with the joint batch",
        "weights of a checkpoint are given to the ranks by rank 0",
        "statistics of a checkpoint are given to the ranks by rank 0",
        "statistics of a checkpoint are given to the workers by worker 0",
    ),
    "Module multiplies its batch size where the type has 'dist' and '_sync', in this case alone": (
        "modules scale gradients by the batch of all ranks, whatever the case of the name",
    ),
    "sparse weights ask for a native store": (
        "sparse weights are refused, whatever the store is given as",
        "weights and gradients that are sparse are refused",
    ),
    "an array has no __dlpack__, and is ordered by MXNet's engine": (
        "a gradient is read when it is written, and the caller does not wait",
        "a gradient is written when its readers have read it",
        "outs are written when their readers have read them",
        "an array that has nothing to do with a call does not wait for it",
        "an error is raised where the array is waited for",
        "an engine that tells no errors is refused",
        "a failure that a program did not wait for is told when it ends",
    ),
    "an import with another DMLC_ROLE than worker starts a server": (
        "a process that imports mxnet is a worker to it",
        "a process of another role is told what to start",
    ),
    "one worker with one device has no store unless the name has 'dist'": (
        "one worker with one device has a store, since its type is distributed",
        "a store is made of a name in any case, or is the one given",
    ),
    # Traps in the sources of MXNet.
    "an optimizer sent without names decays biases too, and set_learning_rate reaches no server": (
        "weight decay leaves biases alone",
        "weight decay and learning rate are by each parameter's own factor",
        "a new learning rate and a schedule hold from the next step",
        "a new learning rate reaches the servers with the next push",
        "a schedule counts this worker's pushes",
        "factors are by index and by name",
    ),
    "its servers have one optimizer at a time": (
        "what another store of the program pushes is not updated by mistake",
        "trainers whose weights servers update may take turns",
        "a trainer beside one that has the servers is told to take turns",
    ),
    "with updates on the store a changed batch size raises UserWarning": (
        "the batch size may change without a warning",
    ),
    "load_states reads the store's updater": (
        "states that are loaded go on as if nothing had been interrupted",
        "a fit goes on from a checkpoint as if nothing had been interrupted",
        "a trainer saves its servers' states",
        "a trainer goes on with states, rate and schedule",
        "a store saves its servers' states",
        "a store goes on, and other files are refused on every worker",
    ),
    # MXNet 1.9.1 heeds MXNET_UPDATE_AGGREGATION_SIZE only for its store nccl.
    "MXNET_UPDATE_ON_KVSTORE and MXNET_OPTIMIZER_AGGREGATION_SIZE are honoured": (
        "update_on_kvstore is false by itself, whatever the environment says",
        "optimizers may update several parameters at once",
    ),
    "pushpull with compression fails; compression is for fp32 alone, leaves init alone, and local refuses it": (
        "compression leaves first values and other dtypes alone",
        "gradients are compressed between hosts",
        "sums are those of rounded gradients and equal",
        "first values and other dtypes and uncompressed sums are exact",
        "compression of another type says which stores have it",
        "compressed gradients keep the weights of all ranks equal",
        "modules take compression as trainers do",
        "gradients travel in fewer bytes, and what is left goes with the next",
        "pushpull and first values are right",
        "trainers that compress alike train, and another is refused",
        "what is no compression, and what comes late, are refused",
    ),
    "get_num_dead_node counts the nodes that ps-lite calls dead": (
        "no node is dead, and only all are counted",
        "a dead worker is counted by those that go on",
    ),
    "a merge counts requests, so that two of one worker close a round; init and the end are barriers": (
        "a key may be called again before it is done, and no rank closes a round alone",
        "two pushes of one worker are of two rounds",
        "init waits for all workers",
        "push and pull say what to call",
        "programs end in order though they wait for no array",
    ),
    "a store that is no KVStoreBase is a TypeError": (
        "a store that is not of MXNet is a type error",
    ),
    "a custom store with sparse gradients raises ValueError": (
        "sparse gradients are refused",
    ),
    "scripts also call _barrier, _set_updater, _send_command_to_servers, pull(ignore_sparse=)": (
        "the barrier of scripts waits for all ranks",
        "the barrier of scripts waits for all workers",
        "an updater and the command of MXNet's own set its optimizer",
        "a pull gives the value to every out, whatever ignore_sparse says",
        "what is done on servers is refused with what to do instead",
        "push and pull say what to call",
    ),
    "parameters with grad_req='null' are broadcast once and never reduced": (
        "parameters without gradient begin equal and are never reduced",
    ),
    "row_sparse_pull takes row ids as floats, in two dimensions, repeated, or none": (
        "row_sparse_pull says what to do, whatever its row ids are",
        "rows are pulled by ids of any kind into dense and row_sparse arrays",
        "rows come to several devices, of several keys",
        "rows follow this worker's pushes, and one without rows counts",
        "rows that are not there are refused",
        "row_sparse gradients update all rows, and what would leave some is refused",
    ),
    "in a list call one array may stand under several keys": (
        "an array of several keys of a list is read for each before it is written",
    ),
    "two Trainers on one store collide on integer keys": (
        "a compression that the store has may be asked for again",
        "two trainers share a store though their keys are equal",
        "two modules share a store though their keys are equal",
    ),
}


def method_named(sentence):
    """The name of the test for a sentence: rank's -> ranks, 1 % -> 1."""
    return "test_" + re.sub(r"\W+", "_", sentence.lower().replace("'", "")).strip("_")


def named_in(path):
    """Returns (files, modules): the files that are named by whole strings of the code, and the modules that it imports.
    Docstrings do not count."""
    nodes = list(ast.walk(ast.parse(path.read_text())))
    spoken = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    files = {node.value.removesuffix(".py") for node in nodes
             if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in spoken}
    modules = {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    return files, modules.union(*({each.name for each in node.names} for node in nodes if isinstance(node, ast.Import)))


def run_by(driver):
    """The files that the driver runs, the files that these import and run, and these files."""
    run, imported = named_in(driver)
    for module in imported:
        path = driver.with_name(f"{module}.py")
        run |= {module, *named_in(path)[0]} if path.exists() else set()
    return run


def problems_of(root, lines):
    folder = root / "test/python"
    run = run_by(folder / "test_mxnet.py")
    homes = {}
    for path in (folder / "test_mxnet.py", *sorted(folder.glob("mxnet_*.py"))):
        for name in re.findall(r"^    def (test_\w+)\(", path.read_text(), re.MULTILINE):
            homes.setdefault(name, []).append(path)
    for line, sentences in lines.items():
        if not sentences:
            yield f'"{line}": no test is named after it'
        for sentence in sentences:
            paths = homes.get(method_named(sentence), [])
            if not paths:
                yield f'"{line}": no test of test/python/mxnet_*.py says "{sentence}"'
            for path in paths:
                if path.stem not in run and path.name != "test_mxnet.py":
                    yield f'"{line}": {path.name} says "{sentence}", and test_mxnet.py does not run it'


def main():
    problems = list(problems_of(root_given(__doc__), LINES))
    print("\n".join(problems) or f"{len(LINES)} promises to MXNet's scripts have tests named after them")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
