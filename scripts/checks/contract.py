#!/usr/bin/env python3
"""Checks that the tables of test/python/package_translation.py have all that the headers of C++ offer to a program.

    contract.py [ROOT]

C++ tests what a store promises. Of C and Python only the translation is tested: each call passes on its arguments, and
returns all results. For C, test/unit/bindings compares its table with the header tutti/c.h by itself.
"""
import ast
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from command_line import root_given

TABLES = "test/python/package_translation.py"

#: {a name of C++ that Python does not have: why}.
NOT_IN_PYTHON = {
    "create": "tutti.create makes a store; the table OPTIONS tests what it passes on",
    "allreduce_for": "the binding calls it for allreduce, so that a signal's handler can run",
    "wait_for": "wait has a timeout",
    "run_for": "the binding calls it for run, so that a signal's handler can run",
}


def body_of(header, name, end):
    """What a header declares of a type for its users, without comments."""
    text = re.sub(r"//.*", "", header.read_text())
    return re.search(rf"^(?:class|struct|enum class) (?:TUTTI_EXPORT )?{name}\b[^{{;]*{{(.*?){end}", text,
                     re.MULTILINE | re.DOTALL)[1]


def methods_of(header, name):
    found = re.findall(r"^ +(?:\w[\w:<>&]* )+(\w+)\(", body_of(header, name, r"^ private:"), re.MULTILINE)
    return [method for method in dict.fromkeys(found) if method not in (name, *NOT_IN_PYTHON)]


def fields_of(header, name):
    return re.findall(r"^ +[\w:<>]+ (\w+)(?:\{[^}]*\}| = [^;]*)?;", body_of(header, name, r"^};"), re.MULTILINE)


def values_of(header, name):
    return re.findall(r"(\w+)(?: = \d+)?\s*(?:,|$)", body_of(header, name, "}").strip())


def names_in(node):
    """The keys of a dict, or the elements of a tuple."""
    parts = node.keys if isinstance(node, ast.Dict) else node.elts
    return [part.value for part in parts if isinstance(part, ast.Constant)]


def tables_of(source):
    """{name: its entries} of the tables, and of classes whose tests are named after methods."""
    tables = {}
    for node in ast.parse(source.read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.value, (ast.Dict, ast.Tuple)):
            tables[node.targets[0].id] = names_in(node.value)
        if isinstance(node, ast.FunctionDef) and isinstance(node.body[-1], ast.Return):
            if isinstance(node.body[-1].value, ast.Dict):
                tables[node.name] = names_in(node.body[-1].value)
        if isinstance(node, ast.ClassDef):
            tables[node.name] = [each.name.removeprefix("test_") for each in node.body
                                 if isinstance(each, ast.FunctionDef) and each.name.startswith("test_")]
    return tables


def problems_of(root):
    headers, tables = root / "include/tutti", tables_of(root / TABLES)
    offered = {
        ("methods", "PROPERTIES"): methods_of(headers / "kvstore.h", "KVStore"),
        ("Pendings",): methods_of(headers / "pending.h", "Pending"),
        ("Bounds",): methods_of(headers / "bound.h", "Bound"),
        ("OPTIONS",): fields_of(headers / "options.h", "Options"),
        ("COUNTERS",): fields_of(headers / "counters.h", "Counters"),
        ("ERRORS",): values_of(headers / "error.h", "ErrorCode"),
        ("DTYPES",): values_of(headers / "tensor.h", "DType"),
        ("OPS",): values_of(headers / "reduce_op.h", "ReduceOp"),
    }
    for names, words in offered.items():
        listed = {word for name in names for word in tables.get(name, ())}
        if not words:
            yield f"{TABLES}: the headers have nothing for {names[0]}"
        for word in words:
            if word not in listed:
                yield f"{TABLES}: {' and '.join(names)} lack {word!r}, which the headers of C++ have"
    if tables.get("COUNTERS", []) != offered["COUNTERS",]:
        yield f"{TABLES}: COUNTERS are not in the order of include/tutti/counters.h"


def main():
    problems = list(problems_of(root_given(__doc__)))
    print("\n".join(problems) or "Python's tables have all that the headers of C++ offer")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
