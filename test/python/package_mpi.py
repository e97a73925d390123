"""The errors if the MPI library is missing, or is another one than the package was built for. Run by the Python that
the package is installed for, outside of any job.

    package_mpi.py [MPIRUN]

MPIRUN: that of another MPI. Without it there is only an imitation of one.
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import tutti
from tutti._missing import explained

OTHER_MPIRUN = sys.argv.pop(1) if len(sys.argv) > 1 else None
# The program writes the line in one call. print may make two calls, and a launcher may put another process's line
# between them.
CREATES = """
import os, tutti
try:
    tutti.create('dist_sync_mpi')
except tutti.MismatchError as error:
    os.write(1, f"{error}\\n".encode())
"""
REFUSED = r"MPI sees 1 process, but the launcher started 2 \(\w+=2\).*type instead: mpirun -n 2 PROGRAM, .* Open MPI"


class Elsewhere(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def said(self, program, *before, status=0, **env):
        """Runs a program, and returns what it prints. A crash would end it with another status."""
        done = subprocess.run([*map(str, before), sys.executable, "-c", program], text=True, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=60,
                              cwd=self.folder, env=os.environ | env)
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout


class Library(Elsewhere):
    def test_where_it_is_missing_import_says_for_which_mpi_tutti_was_built_and_what_to_do(self):
        installed = pathlib.Path(tutti.__file__).parents[1]
        for name in ("tutti", ".tutti_kvstore.mesonpy.libs"):
            shutil.copytree(installed / name, self.folder / name)
        library = self.folder / ".tutti_kvstore.mesonpy.libs/libtutti.so.0"
        self.said("import tutti")  # the copy that lies in the current folder
        needs = library.read_bytes()
        self.assertEqual(needs.count(b"libmpi.so.40"), 1)
        library.write_bytes(needs.replace(b"libmpi.so.40", b"libmpi.so.12"))
        self.assertRegex(self.said("import tutti", status=1),
                         r"ImportError: this tutti was built for MPICH.*libmpi.so.12 is not found.*LD_LIBRARY_PATH")

    def test_where_it_is_another_mpis_import_says_so(self):
        (self.folder / "none.c").write_text("")
        subprocess.run(["gcc", "-shared", "-Wl,-soname,libmpi.so.40", "-o", "libmpi.so.40", "none.c"], check=True,
                       cwd=self.folder)
        self.assertRegex(self.said("import tutti", status=1, LD_LIBRARY_PATH=str(self.folder)),
                         "ImportError: this tutti was built for another MPI.*apt-get install")

    def test_what_else_keeps_it_from_loading_is_told_too(self):
        for text, told in (("libmpi.so.40: cannot open shared object file: No such file", "built for Open MPI 4"),
                           ("libfmt.so.9: cannot open shared object file: No such file", "libfmt.so.9.*scripts/setup"),
                           ("undefined symbol: _Py_Something", "^undefined symbol: _Py_Something$")):
            self.assertRegex(str(explained(ImportError(text))), told)


class Launcher(Elsewhere):
    def test_by_the_launcher_of_another_mpi_a_store_is_an_error_never_a_world_of_one(self):
        for env in ({"PMI_SIZE": "2", "PMI_RANK": "1"}, {"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1"},
                    {"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1", "MASTER_ADDR": "h", "MASTER_PORT": "29500"}):
            with self.subTest(env):
                self.assertRegex(self.said(CREATES, **env), REFUSED)

    @unittest.skipUnless(OTHER_MPIRUN, "no other MPI is named")
    def test_a_real_one_is_told_what_to_type_by_each_process(self):
        self.assertEqual(len(re.findall(REFUSED, self.said(CREATES, OTHER_MPIRUN, "-n", 2))), 2)


if __name__ == "__main__":
    unittest.main()
