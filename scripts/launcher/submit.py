"""Submits a job to a batch system and waits for its end, with a file that is there as long and no one else may read.

Standard input has in JSON {"words": the command, which waits; "file": text; "script": the command's standard input};
@FILE@ in words and script stands for the file's name. A job may write into @FILE@.said, which is shown when it ends.
"""
import json
import pathlib
import signal
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from command_line import file_problem
from launcher.contact import IMPOSSIBLE
from launcher.memory_file import file_of
from launcher.processes import dies_with_parent


def show(said):
    """Why the job's tasks have ended, where they could not tell the launcher."""
    if said.exists():
        sys.stderr.write(said.read_text(errors="replace"))
        said.unlink()


def main():
    plan = json.load(sys.stdin)
    # In the home, which the hosts of most clusters share.
    with tempfile.NamedTemporaryFile("w", prefix=".tutti-launch-", dir=pathlib.Path.home()) as file:
        file.write(plan["file"])
        file.flush()
        said = pathlib.Path(file.name + ".said")
        if f"@FILE@{said.suffix}" in plan["words"]:
            said.touch(mode=0o600)  # for this user alone
        words = [word.replace("@FILE@", file.name) for word in plan["words"]]
        with file_of(plan["script"].replace("@FILE@", file.name).encode()) as script:
            child = subprocess.Popen(words, stdin=script, preexec_fn=dies_with_parent(signal.SIGTERM))
        # Asked to end, the command takes its job back.
        signal.signal(signal.SIGTERM, lambda *_: child.terminate())
        try:
            return child.wait()
        finally:
            show(said)


if __name__ == "__main__":
    try:
        code = main()
    except (OSError, RuntimeError) as error:  # no home, or one where no file can be written
        sys.exit(f"{IMPOSSIBLE}no job can be submitted: "
                 f"{file_problem(error) if isinstance(error, OSError) else error}")
    sys.exit(code if code >= 0 else 128 - code)
