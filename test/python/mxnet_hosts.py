"""Tests of ranks on several hosts: a part of test_mxnet.py."""
import os
import pathlib
import shlex
import sys
import tempfile

from installed import HERE, ROOT, said
from launching import add_ssh

sys.path.insert(0, str(ROOT / "test/lab"))
import hosts
from registry import made


class BetweenHosts:
    def test_gradients_are_compressed_between_hosts(self):
        reason = hosts.why_not()
        if reason:
            self.skipTest(reason)
        with tempfile.TemporaryDirectory() as folder, made(hosts.Lab(f"mxbits{os.getpid()}", (1, 1))) as lab:
            path = f"{folder}:{self.python.parent}:/usr/local/bin:/usr/bin:/bin"
            add_ssh(pathlib.Path(folder), path)
            pathlib.Path(folder, "hosts").write_text("".join(f"{name}\n" for name in lab.names))
            # mpirun takes none of the tests' own options to other hosts.
            env = {name: value for name, value in os.environ.items() if not name.startswith("TUTTI_")}
            for words in (["mxnet_compressed.py"], ["mxnet_store.py", "-k", "compression"],
                          ["mxnet_trainer.py", "-k", "compressed"]):
                line = ["mpirun", "-n", 2, "--map-by", "ppr:1:node", "--hostfile", f"{folder}/hosts", self.python,
                        HERE / words[0], "-v", *words[1:]]
                with self.subTest(words[0]):
                    said(*hosts.enter(lab.names[0], shlex.join(map(str, line))), timeout=120, env={**env, "PATH": path})
