#!/usr/bin/env python3
"""Another meson project builds tutti within itself.

    test_subproject.py [mpi]

mpi: the library has MPI here, and its C++ program is run on two ranks.
"""
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WITH_MPI = "mpi" in sys.argv[1:]
#: A project in C takes the library, and has C++ of its own only later.
MESON_PROJECT = """project('outside', 'c', default_options: ['c_std=c99', 'cpp_std=c++20', 'warning_level=3'])
tutti_dep = dependency('tutti', fallback: 'tutti')
executable('hello_in_c', 'hello_in_c.c', dependencies: tutti_dep)
add_languages('cpp', native: false)
executable('hello', 'hello.cc', dependencies: tutti_dep)
"""
PROGRAM_IN_C = """#include <stdio.h>
#include <tutti/c.h>
int main(void) {
  tutti_store* kv = NULL;
  if (tutti_store_create("device", NULL, &kv) != TUTTI_OK) return 1;
  printf("rank %d of %d\\n", tutti_store_rank(kv), tutti_store_num_workers(kv));
  tutti_store_destroy(kv);
  return 0;
}
"""


def said(*words):
    """Runs a command, and returns what it prints. If the command fails, the test fails and shows the end of the output.
    """
    done = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, words))}\nended with {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout


class Project(unittest.TestCase):
    def test_another_meson_project_builds_the_library_and_its_own_programs_and_nothing_else(self):
        with tempfile.TemporaryDirectory(prefix="tutti-subproject-") as top:
            folder = pathlib.Path(top)
            (folder / "subprojects").mkdir()
            (folder / "subprojects/tutti").symlink_to(ROOT)
            (folder / "meson.build").write_text(MESON_PROJECT)
            shutil.copy(ROOT / "examples/hello.cc", folder)
            (folder / "hello_in_c.c").write_text(PROGRAM_IN_C)
            # The build is not optimised, because the program does next to nothing.
            said("meson", "setup", "--wrap-mode=forcefallback", "--buildtype=plain", folder / "build", folder)
            targets = {t["name"] for t in json.loads(said("meson", "introspect", "--targets", folder / "build"))}
            said("ninja", "-C", folder / "build", "hello", "hello_in_c")
            self.assertEqual(said(folder / "build/hello_in_c"), "rank 0 of 1\n")
            if WITH_MPI:
                self.assertIn("rank 1 of 2", said("mpirun", "-n", "2", folder / "build/hello"))
        # The library alone: none of tutti's own programs.
        self.assertTrue(targets.isdisjoint({"train", "allreduce_bench", "tutti-info", "test_public_api"}), targets)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
