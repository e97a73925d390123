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
from launcher.processes import dies_with_parent, file_of


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
    code = main()
    sys.exit(code if code >= 0 else 128 - code)
