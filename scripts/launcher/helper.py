"""The helper that runs beside each process of a job (shim.py), as other hosts get it: they may not have this folder."""
import json
import pathlib
import sys

from launcher.contact import IMPOSSIBLE

HERE = pathlib.Path(__file__).parent
MODULES = ("sealed_lines", "contact", "processes", "notices", "trust", "lines", "beginning", "threads", "shim")
# Runs the program in its first line of standard input. What that needs follows, so that no command line has it.
BOOT = "import json,sys;exec(json.loads(sys.stdin.readline()))"
# Python itself would say it in its own words, and in many lines.
OLD_PYTHON = f"""if sys.version_info < (3, 9):
    import os
    sys.exit("{IMPOSSIBLE}%s has Python %d.%d, and the launcher needs 3.9 or newer there"
             % (os.uname()[1], *sys.version_info[:2]))
"""
PYTHON = ["python3", "-I", "-S", "-c"]


def source(*modules):
    """Modules in one text of Python, which runs the last one's `main`; without any, the helper."""
    texts = {f"launcher.{name}": (HERE / f"{name}.py").read_text(encoding="utf-8") for name in modules or MODULES}
    return (f"import sys, types\n{OLD_PYTHON}for name, text in {texts!r}.items():\n"
            "    module = sys.modules[name] = types.ModuleType(name)\n"
            "    exec(compile(text, name, 'exec'), module.__dict__)\n"
            "module.main()\n")


def python(is_here):
    """On this machine it is the one that runs this."""
    return [sys.executable if is_here else PYTHON[0], *PYTHON[1:]]


def lines(program, told):
    """The input of BOOT: the text of a program, and the lines which that program reads."""
    return f"{json.dumps(program)}\n{json.dumps(told)}\n"
