#!/usr/bin/env python3
"""Checks that each module includes exactly the modules that the table "Modules" in lib/DESIGN.md lists for it, and that
there is no cycle. A large module consists of submodules in folders of their own, such as ps/worker. Also checks that
each mutex has its level in the lock order of lib/DESIGN.md beside it.

    modules.py [ROOT]
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from command_line import root_given

FOLDERS = ("include", "lib", "coordinator", "bindings", "examples", "benchmarks")
EVERYWHERE = {"include", "base", "observe"}
# Headers that a public header may not include into a user's program.
PRIVATE_HEADERS = re.compile(r"mpi\.h|cuda|nccl|Eigen|spdlog|fmt/|flatbuffers|hwy/|sodium|zmq")
CUDA_HEADERS = {"cuda.h", "cudaTypedefs.h", "cuda_runtime.h", "nccl.h", "cuda/driver.h", "cuda/nccl_functions.h"}
# Headers that the ordering protocol may not use. It gets time and messages as values.
IMPURE_HEADERS = re.compile(r"(thread|mutex|condition_variable|future|sys/socket\.h|sys/epoll\.h)$")


# A member or variable that is a mutex. The one inside base::Mutex does not count; its constructor takes a level.
MUTEX = re.compile(r"\s*(mutable |static )*std::\w*mutex \w+;(?!\s*///< level \d)")
MADE_OF = pathlib.PurePath("lib/base/mutex.h")


def read_table(design):
    """Returns {module: modules that it may use} from the rows `| \\`module\\` | job | a, b |`."""
    rows = re.findall(r"^\| `([\w/]+)` \|[^|]*\|([^|]*)\|$", design.read_text(), re.MULTILINE)
    if not rows:
        sys.exit(f"{design}: the table of modules is missing")
    return {module: set(re.findall(r"[\w/]+", uses)) | EVERYWHERE for module, uses in rows}


def module_in(parts, allowed):
    """The module to whose folder this path belongs. It is a submodule if the table has one there."""
    submodule = "/".join(parts[:2])
    return submodule if submodule in allowed else parts[0]


def module_of(path, allowed):
    return module_in(path.parts[1:-1] if path.parts[0] == "lib" else path.parts, allowed)


def target_of(included, allowed):
    """The module to which `included`, the text between the quotes, belongs."""
    parts = included.split("/")
    return "include" if parts[0] == "tutti" else module_in(parts, allowed)


def unlisted(root, allowed):
    """The folders of lib/ that the table does not list, and the sources that lie beside submodules."""
    divided = {module.split("/")[0] for module in allowed if "/" in module}
    for folder in sorted(path for path in (root / "lib").iterdir() if path.is_dir()):
        inside = sorted(folder.iterdir()) if folder.name in divided else [folder]
        for path in inside:
            name = path.relative_to(root / "lib").as_posix()
            if path.is_dir() and name not in allowed:
                yield f"lib/{name}: not in the table of lib/DESIGN.md"
            if path.suffix in (".h", ".cc"):
                yield f"lib/{name}: lies in no submodule: move it into a folder of lib/{folder.name}"


def lines(root):
    """Yields (file, line number, line) for every source."""
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in (".h", ".cc"):
                for number, line in enumerate(path.read_text().splitlines(), 1):
                    yield path.relative_to(root), number, line


def includes(root):
    """Yields (file, line number, < or ", the included text) for every include."""
    for path, number, line in lines(root):
        match = re.match(r'\s*#\s*include\s*([<"])([^>"]+)', line)
        if match:
            yield path, number, match[1], match[2]


def mutexes_without_level(root):
    for path, number, line in lines(root):
        if path != MADE_OF and MUTEX.match(line):
            yield f"{path}:{number}: write the mutex's level of \"Lock order\" in lib/DESIGN.md behind it: ///< level 5"


def forbidden(path, module, included):
    """Says why this file may not include this text. None if it may."""
    if module == "include" and PRIVATE_HEADERS.match(included):
        return f"a public header includes {included}: users would need it too"
    if module == "coordinator" and IMPURE_HEADERS.match(included):
        return f"coordinator/ is pure, and {included} is not: give it values instead"
    if included == "mpi.h" and module not in ("mpi", "benchmarks"):
        return "mpi.h is included in lib/mpi alone: call it through that module"
    if included in CUDA_HEADERS and module != "cuda":
        return f"{included} is included in lib/cuda alone, for a build without CUDA has none"
    return None


def find_cycle(edges):
    """The modules of one cycle, with the first one repeated at the end. None if there is no cycle."""
    done = set()

    def walk(module, path):
        if module in path:
            return path[path.index(module):] + [module]
        if module in done:
            return None
        for used in sorted(edges.get(module, ())):
            cycle = walk(used, path + [module])
            if cycle:
                return cycle
        done.add(module)
        return None

    return next(filter(None, (walk(module, []) for module in sorted(edges))), None)


def problems_of(root):
    allowed = read_table(root / "lib/DESIGN.md")
    problems, edges = list(unlisted(root, allowed)), {}
    for path, number, quote, included in includes(root):
        where, module = f"{path}:{number}", module_of(path, allowed)
        reason = forbidden(path, module, included)
        if reason:
            problems.append(f"{where}: {reason}")
        target = target_of(included, allowed)
        if (quote == "<" and target != "include") or target == module:
            continue
        if target in allowed:
            edges.setdefault(module, set()).add(target)
        elif "/" not in included or (root / path.parts[0] / included).exists():
            continue  # the file is in the same folder, or in one of the same programs
        if target not in allowed.get(module, set()):
            problems.append(f"{where}: {module} may not use {target} (\"{included}\"): "
                            "lib/DESIGN.md does not list that edge")
    # A module without sources lists the modules that it will use.
    problems += [f"lib/DESIGN.md: {module} does not use {target}; take it out of the table"
                 for module in sorted(edges) for target in sorted(allowed.get(module, set()))
                 if target not in edges[module] | EVERYWHERE]
    cycle = find_cycle(edges)
    if cycle:
        problems.append("modules use each other in a circle: " + " -> ".join(cycle))
    return problems + list(mutexes_without_level(root))


def main():
    root = root_given(__doc__)
    problems = problems_of(root)
    print("\n".join(problems) or "every include follows the table in lib/DESIGN.md, every mutex has its level")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
